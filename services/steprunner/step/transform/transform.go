// Package transform executes the steps that compute a value.
package transform

import (
	"context"
	"encoding/json"

	"pawl.internal/services/steprunner/step"
)

// Kind evaluates a template value. The zero value is ready.
type Kind struct{}

// Execute returns the value.
func (Kind) Execute(_ context.Context, a *step.Attempt) (json.RawMessage, error) {
	output, err := a.Step.Transform(a.Scope)
	if err != nil {
		return nil, step.InvalidInput(err)
	}
	return output, nil
}
