package extract

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// node is one compiled schema: what an answer at its place has to look like.
type node struct {
	kind        string // object, array, string, number, integer or boolean; "" takes anything
	nullable    bool
	choices     []any // enum or const: the only values allowed
	format      string
	pattern     *regexp.Regexp
	title       string
	description string

	properties []property // of an object, in the schema's order
	items      *node      // of an array

	minItems, maxItems   int // 0: no limit
	minLength, maxLength int // in characters; 0: no limit
	minimum, maximum     *float64
}

// property is a named place in an answer; the root has no name.
type property struct {
	name string
	fact string // the kind of fact that the name asks for, "" if it is none that a rule knows
	node *node
}

// raw is a schema as written. Keywords that are not here do not shape the answer.
type raw struct {
	Ref         string            `json:"$ref"`
	Type        json.RawMessage   `json:"type"`
	Enum        []any             `json:"enum"`
	Const       any               `json:"const"`
	Format      string            `json:"format"`
	Pattern     string            `json:"pattern"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Properties  members           `json:"properties"`
	Items       json.RawMessage   `json:"items"`
	AnyOf       []json.RawMessage `json:"anyOf"`
	OneOf       []json.RawMessage `json:"oneOf"`
	AllOf       []json.RawMessage `json:"allOf"`
	MinItems    int               `json:"minItems"`
	MaxItems    int               `json:"maxItems"`
	MinLength   int               `json:"minLength"`
	MaxLength   int               `json:"maxLength"`
	Minimum     *float64          `json:"minimum"`
	Maximum     *float64          `json:"maximum"`
}

// compiler resolves references inside one document.
type compiler struct {
	document []byte
	resolved map[string]*node // by reference; also breaks cycles
}

func compile(document []byte) (*node, error) {
	c := &compiler{document: document, resolved: map[string]*node{}}
	n := &node{}
	return n, c.into(n, document)
}

// into compiles source into n, on top of what n already says.
func (c *compiler) into(n *node, source []byte) error {
	source = bytes.TrimSpace(source)
	if len(source) == 0 || bytes.Equal(source, []byte("true")) {
		return nil
	}
	var r raw
	dec := json.NewDecoder(bytes.NewReader(source))
	dec.UseNumber()
	if err := dec.Decode(&r); err != nil {
		return err
	}
	if err := c.combine(n, &r); err != nil {
		return err
	}
	if err := n.scalars(&r); err != nil {
		return err
	}
	for _, m := range r.Properties {
		child := &node{}
		if err := c.into(child, m.value); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		n.properties = append(n.properties, property{name: m.name, fact: factNamed(m.name), node: child})
	}
	if r.Items != nil {
		n.items = &node{}
		if err := c.into(n.items, r.Items); err != nil {
			return fmt.Errorf("items: %w", err)
		}
	}
	n.infer()
	return nil
}

// combine takes what $ref, allOf, anyOf and oneOf bring. Of alternatives it takes the first that is not null.
func (c *compiler) combine(n *node, r *raw) error {
	if r.Ref != "" {
		target, err := c.resolve(r.Ref)
		if err != nil {
			return err
		}
		*n = *target
	}
	for _, part := range r.AllOf {
		if err := c.into(n, part); err != nil {
			return err
		}
	}
	chosen := false
	for _, branch := range slices.Concat(r.AnyOf, r.OneOf) {
		alternative := &node{}
		if err := c.into(alternative, branch); err != nil {
			return err
		}
		switch {
		case alternative.kind == "null":
			n.nullable = true
		case !chosen:
			alternative.nullable = alternative.nullable || n.nullable
			*n, chosen = *alternative, true
		}
	}
	return nil
}

// resolve returns the node of a reference within the document, such as #/$defs/party.
func (c *compiler) resolve(ref string) (*node, error) {
	if n, ok := c.resolved[ref]; ok {
		return n, nil
	}
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, fmt.Errorf("$ref %q: only references within the schema (#/…) can be followed", ref)
	}
	source := json.RawMessage(c.document)
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if step == "" {
			continue
		}
		var at map[string]json.RawMessage
		if err := json.Unmarshal(source, &at); err != nil {
			return nil, fmt.Errorf("$ref %q: %w", ref, err)
		}
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		if source, ok = at[step]; !ok {
			return nil, fmt.Errorf("$ref %q points to nothing", ref)
		}
	}
	n := &node{}
	c.resolved[ref] = n
	return n, c.into(n, source)
}

// scalars takes the keywords that need no recursion.
func (n *node) scalars(r *raw) error {
	if err := n.types(r.Type); err != nil {
		return err
	}
	n.choices = append(n.choices, r.Enum...)
	if r.Const != nil {
		n.choices = []any{r.Const}
	}
	if slices.Contains(n.choices, nil) {
		n.nullable = true
	}
	if r.Pattern != "" {
		pattern, err := regexp.Compile(r.Pattern)
		if err != nil {
			return fmt.Errorf("pattern: %w", err)
		}
		n.pattern = pattern
	}
	n.format = cmp.Or(r.Format, n.format)
	n.title = cmp.Or(r.Title, n.title)
	n.description = cmp.Or(r.Description, n.description)
	n.minItems, n.maxItems = cmp.Or(r.MinItems, n.minItems), cmp.Or(r.MaxItems, n.maxItems)
	n.minLength, n.maxLength = cmp.Or(r.MinLength, n.minLength), cmp.Or(r.MaxLength, n.maxLength)
	if r.Minimum != nil {
		n.minimum = r.Minimum
	}
	if r.Maximum != nil {
		n.maximum = r.Maximum
	}
	return nil
}

// types takes the keyword type, one name or a list; of several the first that is not null counts.
func (n *node) types(source json.RawMessage) error {
	if source == nil {
		return nil
	}
	var names []string
	if json.Unmarshal(source, &names) != nil {
		var name string
		if err := json.Unmarshal(source, &name); err != nil {
			return errors.New("type must be a name or a list of names")
		}
		names = []string{name}
	}
	for _, name := range names {
		switch {
		case name == "null" && len(names) > 1:
			n.nullable = true
		case n.kind == "":
			n.kind = name
		}
	}
	return nil
}

// infer names the kind where the schema left it out.
func (n *node) infer() {
	switch {
	case n.kind != "":
	case len(n.properties) > 0:
		n.kind = "object"
	case n.items != nil:
		n.kind = "array"
	}
}

// members is a JSON object that keeps the order of its names.
type members []member

type member struct {
	name  string
	value json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *members) UnmarshalJSON(source []byte) error {
	dec := json.NewDecoder(bytes.NewReader(source))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.New("properties must be an object")
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		*m = append(*m, member{name, value})
	}
	return nil
}
