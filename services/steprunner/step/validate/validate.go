// Package validate executes the steps that check a value and hand it on.
package validate

import (
	"context"
	"encoding/json"

	"pawl.internal/services/steprunner/step"
)

// Kind checks a value against a schema and rules. The zero value is ready.
type Kind struct{}

// Execute returns the value when it is right. A value that breaks the schema fails as schema_mismatch, one that fits but
// breaks rules as business_rule; the message has everything that is wrong, each with its path.
func (Kind) Execute(_ context.Context, a *step.Attempt) (json.RawMessage, error) {
	result, err := a.Step.Validate(a.Scope)
	switch {
	case err != nil:
		return nil, step.InvalidInput(err)
	case len(result.Schema) > 0:
		return nil, step.Permanent(step.ReasonSchemaMismatch, "the value breaks the schema: "+step.Lines(result.Schema))
	case len(result.Rules) > 0:
		return nil, step.Permanent(step.ReasonBusinessRule, step.Lines(result.Rules))
	default:
		return result.Value, nil
	}
}
