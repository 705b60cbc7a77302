package steprunner

import (
	"encoding/json"
	"fmt"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/pipeline"
	"pawl.internal/services/steprunner/step"
)

// gate evaluates what stands before a step's work: `when`, `require` and `for_each`, once for the step itself and never
// for its shards. Nil means that the work is to be done.
func gate(a *step.Attempt) *systemv1.Outcome {
	if a.Ref.GetShard() >= 0 {
		return nil
	}
	admission, err := a.Step.Admit(a.Scope)
	switch {
	case err != nil:
		return failed(step.InvalidInput(err))
	case admission == pipeline.Skip:
		return skipped()
	case admission == pipeline.Refuse:
		return failed(step.Permanent(step.ReasonInvalidInput,
			fmt.Sprintf("the step requires %s, which does not hold for this input", a.Step.Requirement())))
	case a.Step.FanOut:
		return fanOut(a)
	default:
		return nil
	}
}

// fanOut evaluates the items of a fan-out.
func fanOut(a *step.Attempt) *systemv1.Outcome {
	items, err := a.Step.Items(a.Scope)
	if err != nil {
		return failed(step.InvalidInput(err))
	}
	if len(items) > maxItems {
		return failed(step.Permanent(step.ReasonOutputTooLarge,
			fmt.Sprintf("for_each gave %d items; at most %d are allowed", len(items), maxItems)))
	}
	if size := sizeOf(items); size > maxOutput {
		return failed(step.Permanent(step.ReasonOutputTooLarge,
			fmt.Sprintf("the items of for_each have %d bytes together; at most %d are stored", size, maxOutput)))
	}
	return expanded(items)
}

func sizeOf(items []json.RawMessage) int {
	size := 0
	for _, item := range items {
		size += len(item)
	}
	return size
}
