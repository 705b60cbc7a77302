package step

import (
	"strings"
	"time"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/pipeline"
)

// The reason codes that a runner finds by itself. Those of model calls come from the gateway.
const (
	ReasonInvalidInput     = "invalid_input"
	ReasonInputTooLarge    = "input_too_large"
	ReasonOutputTooLarge   = "output_too_large"
	ReasonJSONValidation   = "json_validation_error"
	ReasonSchemaMismatch   = "schema_mismatch"
	ReasonBusinessRule     = "business_rule"
	ReasonModelUnavailable = "model_unavailable"
	ReasonStepTimeout      = "step_timeout"
	ReasonWorkerLost       = "worker_lost"
	ReasonDeadlineExceeded = "deadline_exceeded"
	ReasonHandlerError     = "handler_error"
)

// Failure says why an attempt has no output. It is an outcome of the step, not an error of the runner.
type Failure struct {
	Class systemv1.Outcome_FailureClass
	// Reason is a stable code.
	Reason string
	// Message is for people: where, what is wrong, what would be right. It has no data of the run in it.
	Message string
	// RetryAfter is the wait that the other side stated; 0 if none.
	RetryAfter time.Duration
	// AnswerAtFault says that a model's answer was at fault, so that asking again is a new question.
	AnswerAtFault bool
}

// Error gives reason and message.
func (f *Failure) Error() string { return f.Reason + ": " + f.Message }

// Permanent is a failure that no other attempt would cure.
func Permanent(reason, message string) *Failure {
	return &Failure{
		Class:  systemv1.Outcome_FAILURE_CLASS_PERMANENT,
		Reason: reason, Message: message,
	}
}

// Transient is a failure that may pass by itself.
func Transient(reason, message string) *Failure {
	return &Failure{
		Class:  systemv1.Outcome_FAILURE_CLASS_TRANSIENT,
		Reason: reason, Message: message,
	}
}

// InvalidInput is the failure of a step whose expressions have no usable value for the data at hand.
func InvalidInput(err error) *Failure { return Permanent(ReasonInvalidInput, err.Error()) }

// Internal is a failure by a fault in the program; the details are in the runner's log.
func Internal() *Failure {
	return Permanent(ReasonHandlerError, "the step failed by a fault in Pawl itself; the step-runner's log has the details")
}

// Parked says that the step waits without a worker and costs no attempt.
type Parked struct {
	// Until is the wait, from now.
	Until time.Duration
	// Reason is a stable code.
	Reason string
	// Message is for people.
	Message string
}

// Error gives reason and message.
func (p *Parked) Error() string { return "parked: " + p.Reason + ": " + p.Message }

// Text makes a text fit for storage and for gRPC, whatever it comes from: valid UTF-8, without U+0000, and of bounded length.
func Text(s string) string {
	const longest = 2000
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "�"), "\x00", "�")
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}

// Lines joins violations into one message.
func Lines(violations []pipeline.Violation) string {
	lines := make([]string, len(violations))
	for i, v := range violations {
		lines[i] = v.String()
	}
	return strings.Join(lines, "; ")
}
