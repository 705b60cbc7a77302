package pipeline

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	broken "github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"pawl.internal/services/internal/canon"
)

// maxViolations bounds how many violations of a schema are reported.
const maxViolations = 100

// schemaURL is the name under which a schema is compiled: no schema is ever loaded from anywhere.
const schemaURL = "urn:schema"

// Violation is one way in which a value breaks a schema or a rule.
type Violation struct {
	// Path is the JSON Pointer of the value concerned; empty for the value as a whole.
	Path string
	// Message says what is wrong.
	Message string
}

// String gives the violation as one line.
func (v Violation) String() string {
	if v.Path == "" {
		return v.Message
	}
	return v.Path + ": " + v.Message
}

// Schema is a compiled JSON Schema. It is safe for concurrent use.
type Schema struct {
	// JSON is the schema as it was written, fields in their order: models answer in the order that they are shown.
	JSON json.RawMessage

	decoded any
	idle    sync.Pool // of *checker
}

// newSchema compiles a schema, or says all that is wrong with it.
func newSchema(raw json.RawMessage) (*Schema, []schemaError) {
	decoded, err := canon.Decode(raw)
	if err != nil {
		return nil, []schemaError{{message: err.Error()}}
	}
	first, err := newChecker(decoded)
	if err != nil {
		return nil, explainSchema(err)
	}
	s := &Schema{JSON: raw, decoded: decoded}
	s.idle.Put(first)
	return s, nil
}

// noLoader refuses what a $ref outside the schema would load.
type noLoader struct{}

// Load is asked for by the schema compiler.
func (noLoader) Load(string) (any, error) {
	return nil, errors.New("only $refs inside the schema, such as #/$defs/name, are supported")
}

// Validate gives all the ways in which a value of package canon breaks the schema; none when it fits.
func (s *Schema) Validate(value any) []Violation {
	err := s.check(value)
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return []Violation{{Message: err.Error()}}
	}
	return violations(invalid)
}

// check validates with a checker that nobody else uses.
func (s *Schema) check(value any) error {
	c, ok := s.idle.Get().(*checker)
	if !ok {
		var err error
		if c, err = newChecker(s.decoded); err != nil {
			return err
		}
	}
	defer s.idle.Put(c)
	return c.validate(value)
}

// violations gives the innermost causes, in the order of their paths.
func violations(invalid *jsonschema.ValidationError) []Violation {
	var list []Violation
	for _, leaf := range leaves(invalid) {
		list = append(list, Violation{pointer(leaf.InstanceLocation), discreetly(leaf)})
	}
	slices.SortFunc(list, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	list = slices.Compact(list)
	return list[:min(len(list), maxViolations)]
}

// leaves gives the causes that have no causes themselves.
func leaves(invalid *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(invalid.Causes) == 0 {
		return []*jsonschema.ValidationError{invalid}
	}
	var all []*jsonschema.ValidationError
	for _, cause := range invalid.Causes {
		all = append(all, leaves(cause)...)
	}
	return all
}

func inEnglish(e *jsonschema.ValidationError) string {
	return e.ErrorKind.LocalizedString(message.NewPrinter(language.English))
}

// discreetly says what is wrong with a value without repeating it: what broke a step is stored and shown, and the value may
// be personal.
func discreetly(e *jsonschema.ValidationError) string {
	switch rule := e.ErrorKind.(type) {
	case *broken.Format:
		return "is not a valid " + rule.Want
	case *broken.Pattern:
		return fmt.Sprintf("does not match the pattern '%s'", rule.Want)
	case *broken.Minimum:
		return "must be at least " + decimal(rule.Want)
	case *broken.Maximum:
		return "must be at most " + decimal(rule.Want)
	case *broken.ExclusiveMinimum:
		return "must be more than " + decimal(rule.Want)
	case *broken.ExclusiveMaximum:
		return "must be less than " + decimal(rule.Want)
	case *broken.MultipleOf:
		return "must be a multiple of " + decimal(rule.Want)
	case *broken.PropertyNames:
		return "has a field with a name that is not allowed"
	default:
		return inEnglish(e)
	}
}

// decimal writes a number of a schema.
func decimal(n *big.Rat) string {
	f, _ := n.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func pointer(keys []string) string {
	var b strings.Builder
	for _, key := range keys {
		b.WriteString("/" + canon.EscapePointer(key))
	}
	return b.String()
}

// schemaError says where in a schema what is wrong.
type schemaError struct {
	// where has the keys and indices that lead to the place.
	where   []string
	message string
}

// path turns the place into a path below a node.
func (e schemaError) path(n *node) path {
	var where path
	for _, key := range e.where {
		if i, err := strconv.Atoi(key); err == nil && n.kind == list && i < len(n.items) {
			where, n = where.then(i), n.items[i]
			continue
		}
		where = where.then(key)
		if n = n.field(key); n == nil {
			break
		}
	}
	return where
}

// explainSchema turns an error of the schema compiler into ours.
func explainSchema(err error) []schemaError {
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if cause, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
			return explainInvalid(cause)
		}
	}
	if regex, ok := errors.AsType[*jsonschema.InvalidRegexError](err); ok {
		return []schemaError{{fragment(regex.URL), fmt.Sprintf("not a regular expression: %v", regex.Err)}}
	}
	if load, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return []schemaError{{message: fmt.Sprintf("cannot refer to %q: %v", load.URL, load.Err)}}
	}
	return []schemaError{{message: strings.ReplaceAll(err.Error(), schemaURL, "")}}
}

// explainInvalid says how a schema breaks the schema of schemas: one error a place, with all that would be right there.
func explainInvalid(invalid *jsonschema.ValidationError) []schemaError {
	places := map[string]schemaError{}
	for _, leaf := range leaves(invalid) {
		at := pointer(leaf.InstanceLocation)
		known, more := places[at]
		problem := inEnglish(leaf)
		if more {
			both := []string{known.message, problem}
			slices.Sort(both)
			problem = strings.Join(both, "; or ")
		}
		places[at] = schemaError{leaf.InstanceLocation, problem}
	}
	var errs []schemaError
	for _, at := range slices.Sorted(maps.Keys(places)) {
		errs = append(errs, schemaError{places[at].where, "not valid in a JSON Schema: " + places[at].message})
	}
	return errs
}

// fragment gives the keys in the fragment of a schema's URL.
func fragment(location string) []string {
	_, pointer, _ := strings.Cut(location, "#/")
	if pointer == "" {
		return nil
	}
	keys := strings.Split(pointer, "/")
	for i, key := range keys {
		plain, err := url.PathUnescape(key)
		if err == nil {
			keys[i] = strings.ReplaceAll(strings.ReplaceAll(plain, "~1", "/"), "~0", "~")
		}
	}
	return keys
}
