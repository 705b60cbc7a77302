package steprunner

import (
	"encoding/json"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/expr"
	"pawl.internal/services/steprunner/step"
)

func succeeded(output json.RawMessage) *systemv1.Outcome {
	return &systemv1.Outcome{Result: &systemv1.Outcome_Succeeded_{Succeeded: &systemv1.Outcome_Succeeded{Output: output}}}
}

func skipped() *systemv1.Outcome {
	return &systemv1.Outcome{Result: &systemv1.Outcome_Skipped_{Skipped: &systemv1.Outcome_Skipped{}}}
}

func expanded(items []json.RawMessage) *systemv1.Outcome {
	expansion := &systemv1.Outcome_Expanded{Items: make([][]byte, len(items))}
	for i, item := range items {
		expansion.Items[i] = item
	}
	return &systemv1.Outcome{Result: &systemv1.Outcome_Expanded_{Expanded: expansion}}
}

func failed(f *step.Failure) *systemv1.Outcome {
	failure := &systemv1.Outcome_Failed{
		Class: f.Class, Reason: f.Reason, Message: step.Text(f.Message), AnswerAtFault: f.AnswerAtFault,
	}
	if f.RetryAfter > 0 {
		failure.RetryAfter = durationpb.New(f.RetryAfter)
	}
	return &systemv1.Outcome{Result: &systemv1.Outcome_Failed_{Failed: failure}}
}

func reviewed(reason, message string, output json.RawMessage) *systemv1.Outcome {
	return &systemv1.Outcome{Result: &systemv1.Outcome_ReviewRequested_{ReviewRequested: &systemv1.Outcome_ReviewRequested{
		Reason: reason, Message: step.Text(message), Output: output,
	}}}
}

func parked(p *step.Parked) *systemv1.Outcome {
	return &systemv1.Outcome{Result: &systemv1.Outcome_Parked_{Parked: &systemv1.Outcome_Parked{
		Until: durationpb.New(p.Until), Reason: p.Reason, Message: step.Text(p.Message),
	}}}
}

// resultName is how metrics name the way an attempt ended.
func resultName(outcome *systemv1.Outcome) string {
	switch outcome.GetResult().(type) {
	case *systemv1.Outcome_Succeeded_:
		return "succeeded"
	case *systemv1.Outcome_Skipped_:
		return "skipped"
	case *systemv1.Outcome_Expanded_:
		return "expanded"
	case *systemv1.Outcome_ReviewRequested_:
		return "review_requested"
	case *systemv1.Outcome_Parked_:
		return "parked"
	default:
		return "failed"
	}
}

// scopeOf is the data that a claimed step's expressions see.
func scopeOf(h *hold) *expr.Scope {
	assignment := h.assignment()
	data := expr.Data{
		Input: assignment.Input,
		Steps: make(map[string]json.RawMessage, len(assignment.GetOutputs())),
		Item:  assignment.Item,
		Index: int(h.ref.GetShard()),
		Run:   expr.Run{ID: runID(h.ref), EntityID: assignment.GetEntityId(), Labels: assignment.GetLabels()},
	}
	for name, output := range assignment.GetOutputs() {
		data.Steps[name] = output
	}
	return expr.NewScope(data)
}

// runID is a run's id as people see it.
func runID(ref *systemv1.StepRef) string {
	id, err := uuid.FromBytes(ref.GetRunId())
	if err != nil {
		return ""
	}
	return id.String()
}
