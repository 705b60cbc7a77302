package pipeline

import (
	"errors"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A validation tries every branch of anyOf and its kin, and each may refer to the same schemas again: a schema of a
// kilobyte can ask for more work than anybody can wait for, and nothing interrupts it. So all work is metered, in schemas
// applied to values. What may be done is many times what schemas take whose branches do not multiply.
const (
	workBase     = 250_000
	workPerValue = 50
)

var errTooMuchWork = errors.New("takes too much work to check: the branches of the schema multiply")

// checker is a compiled schema with its meter. It does one validation at a time.
type checker struct {
	compiled *jsonschema.Schema
	left     int // work that the validation may still do
}

// newChecker compiles a schema, as package canon decodes it.
func newChecker(schema any) (*checker, error) {
	c := &checker{left: workBase} // the compiler validates, too
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	compiler.UseLoader(noLoader{})
	compiler.RegisterVocabulary(c.vocabulary())
	compiler.AssertVocabs()
	if err := compiler.AddResource(schemaURL, schema); err != nil {
		return nil, err
	}
	compiled, err := compiler.Compile(schemaURL)
	c.compiled = compiled
	return c, err
}

// vocabulary makes every schema within the schema count its uses.
func (c *checker) vocabulary() *jsonschema.Vocabulary {
	return &jsonschema.Vocabulary{
		URL: "urn:work",
		Compile: func(_ *jsonschema.CompilerContext, schema map[string]any) (jsonschema.SchemaExt, error) {
			return use{checker: c, branches: members(schema)}, nil
		},
	}
}

// use is the counter of one schema within the schema.
type use struct {
	checker  *checker
	branches int
}

// Validate counts one use: itself, and its branches and the value's members, since those that fail at once are not counted
// by themselves.
func (u use) Validate(_ *jsonschema.ValidatorContext, value any) {
	u.checker.left -= 1 + u.branches + length(value)
	if u.checker.left < 0 {
		panic(errTooMuchWork) // there is no other way out of the validator
	}
}

// validate returns a *jsonschema.ValidationError, or errTooMuchWork.
func (c *checker) validate(value any) (err error) {
	defer func() {
		switch cause := recover(); cause {
		case nil:
		case errTooMuchWork:
			err = errTooMuchWork
		default:
			panic(cause)
		}
	}()
	c.left = workBase + workPerValue*size(value)
	return c.compiled.Validate(value)
}

// size counts a value and all that is within it.
func size(value any) int {
	n := 1
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			n += size(item)
		}
	case map[string]any:
		for _, member := range v {
			n += size(member)
		}
	}
	return n
}

// members counts what the keywords of one schema hold.
func members(schema map[string]any) int {
	n := 0
	for _, keyword := range schema {
		n += length(keyword)
	}
	return n
}

func length(value any) int {
	switch v := value.(type) {
	case []any:
		return len(v)
	case map[string]any:
		return len(v)
	default:
		return 0
	}
}
