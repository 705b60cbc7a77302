package pipeline

import (
	"encoding/json"
	"fmt"

	"pawl.internal/services/internal/canon"
	"pawl.internal/services/internal/expr"
)

// The methods below evaluate what a step or the pipeline says, over the data of one run. Their errors name the place in
// the pipeline; behind them is an *expr.EvalError when an expression has no value for the data. They give the same for
// the same data, always.

// Admission says whether a step is to do its work.
type Admission int

// The admissions.
const (
	// Run: nothing speaks against it.
	Run Admission = iota
	// Skip: its `when` is false.
	Skip
	// Refuse: its `require` is false, which fails it as invalid_input.
	Refuse
)

// Admit evaluates `when`, then `require`. It is asked once for a step, before its items if it is a fan-out.
func (s *Step) Admit(scope *expr.Scope) (Admission, error) {
	for _, condition := range []struct {
		name       string
		expression *expr.Expr
		otherwise  Admission
	}{{"when", s.when, Skip}, {"require", s.require, Refuse}} {
		if condition.expression == nil {
			continue
		}
		holds, err := condition.expression.Bool(scope)
		if err != nil {
			return Refuse, s.at(condition.name, err)
		}
		if !holds {
			return condition.otherwise, nil
		}
	}
	return Run, nil
}

// Requirement is the step's `require`, for messages; empty if there is none.
func (s *Step) Requirement() string {
	if s.require == nil {
		return ""
	}
	return s.require.String()
}

// Items evaluates `for_each` of a fan-out to its items: canonical JSON each. How many are too many is for the caller to
// say.
func (s *Step) Items(scope *expr.Scope) ([]json.RawMessage, error) {
	result, err := s.forEach.Value(scope)
	if err != nil {
		return nil, s.at("for_each", err)
	}
	list, ok := result.([]any)
	if !ok {
		return nil, s.at("for_each", fmt.Errorf("%s must give a list", s.forEach))
	}
	items := make([]json.RawMessage, len(list))
	for i, item := range list {
		if items[i], err = canon.Append(nil, item); err != nil {
			return nil, s.at("for_each", err)
		}
	}
	return items, nil
}

// Transform computes the output of a transform step: canonical JSON.
func (s *Step) Transform(scope *expr.Scope) (json.RawMessage, error) {
	output, err := s.transform.evalJSON(scope)
	return output, s.at("transform", err)
}

// Validate checks the value of a validate step.
func (s *Step) Validate(scope *expr.Scope) (*Validation, error) {
	result, err := s.validate.check(scope)
	return result, s.at("validate", err)
}

// Request fills in what an llm step asks.
func (s *Step) Request(scope *expr.Scope) (*Request, error) {
	request, err := s.llm.request(scope)
	return request, s.at("llm", err)
}

// Answer makes an llm step's output of a model's answer: without a schema the text, else the JSON value in it, in
// canonical form. The error says why an answer is no JSON; the violations, how it breaks the schema.
func (s *Step) Answer(answer string) (json.RawMessage, []Violation, error) {
	if s.OutputSchema == nil {
		output, err := canon.AppendString(nil, answer)
		return output, nil, err
	}
	value, err := canon.Decode([]byte(answer))
	if err != nil {
		return nil, nil, err
	}
	output, err := canon.Append(nil, value)
	return output, s.OutputSchema.Validate(value), err
}

// NeedsReview evaluates `review.when` over the step's output; false if there is none.
func (s *Step) NeedsReview(scope *expr.Scope, output json.RawMessage) (bool, error) {
	if s.review == nil {
		return false, nil
	}
	needed, err := s.review.Bool(scope.WithOutput(output))
	return needed, s.at("review.when", err)
}

// at adds the place to an error.
func (s *Step) at(field string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("steps.%s.%s: %w", s.Name, field, err)
}

// ValidateInput gives all that is wrong with a run's input, malformed JSON included; nothing when it is right.
func (c *Compiled) ValidateInput(input json.RawMessage) []Violation {
	value, err := canon.Decode(input)
	if err != nil {
		return []Violation{{Message: err.Error()}}
	}
	if c.input == nil {
		return nil
	}
	return c.input.Validate(value)
}
