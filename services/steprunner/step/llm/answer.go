package llm

import (
	"encoding/json"
	"strings"
	"time"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/pipeline"
	"pawl.internal/services/steprunner/step"
)

// parkUnstated is how long a step is parked when the gateway does not say.
const parkUnstated = time.Minute

// reasonRefused is the gateway's reason code for an answer that model or provider would not give.
const reasonRefused = "content_refused"

// badAnswer is an answer that cannot be used.
type badAnswer struct {
	// text is what the model said; empty when the gateway kept it back.
	text string
	// complaint is what to tell the model.
	complaint string
	// refused is true when the model or its provider would not answer: asking again is asking for what was refused.
	refused bool
	// failure is how the attempt ends if nobody asks again.
	failure *step.Failure
}

// read makes the step's output of an answer.
func read(s *pipeline.Step, text string) (json.RawMessage, *badAnswer) {
	if s.OutputSchema != nil {
		text = unfenced(text)
	}
	output, violations, err := s.Answer(text)
	switch {
	case err != nil:
		return nil, &badAnswer{
			text:      text,
			complaint: "Your answer is not valid JSON: " + err.Error() + "\nAnswer again, with the JSON document and nothing else.",
			failure:   atFault(step.ReasonJSONValidation, "the model's answer is not valid JSON: "+err.Error()),
		}
	case len(violations) > 0:
		return nil, &badAnswer{
			text:      text,
			complaint: complaintOf(violations),
			failure:   atFault(step.ReasonSchemaMismatch, "the model's answer breaks the schema: "+step.Lines(violations)),
		}
	default:
		return output, nil
	}
}

func complaintOf(violations []pipeline.Violation) string {
	var b strings.Builder
	b.WriteString("Your answer does not fit the JSON Schema that was asked for:\n")
	for _, v := range violations {
		b.WriteString("- " + v.String() + "\n")
	}
	b.WriteString("Answer again, with the whole corrected JSON document and nothing else.")
	return b.String()
}

// atFault is the failure of an answer. Another attempt would not cure it; an operator who asks again asks anew.
func atFault(reason, message string) *step.Failure {
	failure := step.Permanent(reason, message)
	failure.AnswerAtFault = true
	return failure
}

// unfenced takes a JSON document out of the Markdown code fence that models like to put around it.
func unfenced(text string) string {
	const fence = "```"
	trimmed := strings.TrimSpace(text)
	inner, fenced := strings.CutPrefix(trimmed, fence)
	inner, closed := strings.CutSuffix(inner, fence)
	_, document, broken := strings.Cut(inner, "\n")
	if !fenced || !closed || !broken {
		return text
	}
	return strings.TrimSpace(document)
}

// unusable is an answer that the gateway found to be cut off, empty, refused or alike.
func unusable(f *systemv1.CallFailure) *badAnswer {
	return &badAnswer{
		complaint: "Your last answer could not be used: " + f.GetReason() + ". Answer again, completely and as briefly as the task allows.",
		refused:   f.GetReason() == reasonRefused,
		failure:   failureFrom(f),
	}
}

// outcomeOf says how an attempt ends whose call has no answer.
func outcomeOf(f *systemv1.CallFailure) error {
	if !f.GetPark() {
		return failureFrom(f)
	}
	until := f.GetRetryAfter().AsDuration()
	if until <= 0 {
		until = parkUnstated
	}
	return &step.Parked{Until: until, Reason: f.GetReason(), Message: f.GetMessage()}
}

func failureFrom(f *systemv1.CallFailure) *step.Failure {
	return &step.Failure{
		Class: f.GetClass(), Reason: f.GetReason(), Message: f.GetMessage(),
		RetryAfter: f.GetRetryAfter().AsDuration(), AnswerAtFault: f.GetAnswerAtFault(),
	}
}
