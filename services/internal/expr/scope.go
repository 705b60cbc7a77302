package expr

import (
	"encoding/json"
	"fmt"
	"maps"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"pawl.internal/services/internal/canon"
)

// The names that expressions know.
const (
	nameInput  = "input"
	nameSteps  = "steps"
	nameRun    = "run"
	nameItem   = "item"
	nameIndex  = "index"
	nameOutput = "output"
)

// variables declares the names to CEL. Which of them an expression may use where, and what is known of their shapes, is
// checked by analyse.
func variables() []cel.EnvOption {
	options := []cel.EnvOption{
		cel.Variable(nameInput, cel.DynType),
		cel.Variable(nameSteps, cel.MapType(cel.StringType, cel.MapType(cel.StringType, cel.DynType))),
		cel.Variable(nameRun, cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable(nameItem, cel.DynType),
		cel.Variable(nameIndex, cel.IntType),
		cel.Variable(nameOutput, cel.DynType),
	}
	for _, p := range placeholders() {
		options = append(options, cel.Variable(p.name, p.t))
	}
	return options
}

// Data is what expressions are evaluated over. Only what they refer to need be there; see [Refs].
type Data struct {
	// Input is the run's input: JSON.
	Input json.RawMessage
	// Steps has the outputs of earlier steps by name: JSON.
	Steps map[string]json.RawMessage
	// Item and Index are the fan-out's item (JSON) and its place, from 0.
	Item  json.RawMessage
	Index int
	// Output is the result under review or validation: JSON.
	Output json.RawMessage
	// Run is what is known of the run itself.
	Run Run
}

// Run is what expressions see as `run`.
type Run struct {
	ID       string
	EntityID string
	Labels   map[string]string
}

// Scope evaluates expressions over one [Data]: each part is parsed when it is first asked for, and once. A Scope belongs
// to one goroutine.
type Scope struct {
	data   Data
	values map[string]ref.Val
	// err is why a part could not be parsed during the present evaluation: CEL has no way to hand it up.
	err error
}

// NewScope makes a scope. The data must not change while the scope is used.
func NewScope(data Data) *Scope {
	return &Scope{data: data, values: map[string]ref.Val{}}
}

// WithOutput gives a scope over the same data with another output.
func (s *Scope) WithOutput(output json.RawMessage) *Scope {
	data, values := s.data, maps.Clone(s.values)
	data.Output = output
	delete(values, nameOutput)
	return &Scope{data: data, values: values}
}

// Parent is asked for by CEL: a scope stands alone.
func (s *Scope) Parent() cel.Activation { return nil }

// ResolveName is asked for by CEL: it gives the value of a name.
func (s *Scope) ResolveName(name string) (any, bool) {
	if value, known := s.values[name]; known {
		return value, true
	}
	value, err := s.load(name)
	if err != nil {
		s.err = err
		return nil, false
	}
	if value == nil {
		return nil, false
	}
	s.values[name] = value
	return value, true
}

// load parses what is behind a name; nil when there is no such name.
func (s *Scope) load(name string) (ref.Val, error) {
	switch name {
	case nameInput:
		return parse(name, s.data.Input)
	case nameItem:
		return parse(name, s.data.Item)
	case nameOutput:
		return parse(name, s.data.Output)
	case nameIndex:
		return types.Int(s.data.Index), nil
	case nameSteps:
		return s.loadSteps()
	case nameRun:
		return s.data.Run.toCEL(), nil
	default:
		return nil, nil
	}
}

func (s *Scope) loadSteps() (ref.Val, error) {
	steps := make(map[string]ref.Val, len(s.data.Steps))
	for name, output := range s.data.Steps {
		value, err := parse("steps."+name+".output", output)
		if err != nil {
			return nil, err
		}
		steps[name] = types.NewMap(types.DefaultTypeAdapter, map[string]ref.Val{nameOutput: value})
	}
	return types.NewMap(types.DefaultTypeAdapter, steps), nil
}

func (r Run) toCEL() ref.Val {
	labels := make(map[string]any, len(r.Labels))
	for key, value := range r.Labels {
		labels[key] = value
	}
	return toCEL(map[string]any{"id": r.ID, "entity_id": r.EntityID, "labels": labels})
}

func parse(name string, raw json.RawMessage) (ref.Val, error) {
	if raw == nil {
		return nil, fmt.Errorf("%s is not at hand", name)
	}
	value, err := canon.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return toCEL(value), nil
}
