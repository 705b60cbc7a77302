// Package fault is the one error type that crosses the system: from a store, through gRPC, to problem+json.
//
// A fault says what went wrong in a form that a caller may see: a stable reason, a message, and details. What only a log
// may see is its cause. The gRPC code, the HTTP status and the advice on repeating follow from the reason, by the table of
// this package. Any other error reaches callers as "internal error". Why a run failed is data, not a fault.
package fault

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
)

// retrySoon is the wait suggested to callers when a store or service is away and nothing better is known.
const retrySoon = time.Second

// Error is a refusal or failure with a stable reason. Build it with New or one of the constructors beside it.
type Error struct {
	// Code is the canonical gRPC code; it follows from Reason, except where another program's status said otherwise.
	Code codes.Code
	// Reason is stable and machine-readable.
	Reason faultv1.ErrorReason
	// Message is safe to show to the caller.
	Message string
	// Meta repeats the values that Message mentions, by snake_case keys.
	Meta map[string]string
	// Violations name the fields that are wrong.
	Violations []Violation
	// Quotas name the limits that are in the way.
	Quotas []Quota
	// RetryAfter is the least time to wait before repeating the call; 0 says nothing.
	RetryAfter time.Duration

	cause error
}

// Violation is one rule that the request breaks.
type Violation struct {
	// Field is the path of what is wrong, as the caller wrote it: "input.pages[2]", or "line 4, column 7".
	Field string
	// Message says what is wrong and what would be right.
	Message string
}

// Quota is a limit that the request would exceed.
type Quota struct {
	// Policy names the limit, as the header RateLimit-Policy does.
	Policy string
	// Subject is who is limited, such as "tenant:acme".
	Subject string
	Message string
}

// New returns a fault with the reason and a message made from format.
func New(reason faultv1.ErrorReason, format string, args ...any) *Error {
	return &Error{Code: Lookup(reason).Code, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Invalid returns a fault whose message is made from the violations.
func Invalid(reason faultv1.ErrorReason, violations ...Violation) *Error {
	return New(reason, "%s", summary(violations)).WithViolations(violations...)
}

// Unavailable returns a fault for a store or service that is away; the caller may repeat the call.
func Unavailable(cause error, format string, args ...any) *Error {
	return New(faultv1.ErrorReason_ERROR_REASON_UNAVAILABLE, format, args...).WithCause(cause).WithRetryAfter(retrySoon)
}

// Internal returns a fault of our own; callers learn nothing of its cause.
func Internal(cause error) *Error {
	return New(faultv1.ErrorReason_ERROR_REASON_INTERNAL, "internal error").WithCause(cause)
}

// FromPanic returns the fault of what recover has returned; its cause has the stack. A log may know of the value only if it
// is the runtime's own: any other may hold a caller's data.
func FromPanic(value any) *Error {
	said := fmt.Sprintf("a %T", value)
	if err, ok := value.(runtime.Error); ok {
		said = err.Error()
	}
	return Internal(fmt.Errorf("panic: %s\n%s", said, debug.Stack()))
}

// WithCause sets the error behind e, which only logs show, and returns e.
func (e *Error) WithCause(cause error) *Error {
	e.cause = cause
	return e
}

// WithMeta adds a value that the message mentions, and returns e.
func (e *Error) WithMeta(key, value string) *Error {
	if e.Meta == nil {
		e.Meta = map[string]string{}
	}
	e.Meta[key] = value
	return e
}

// WithViolations adds broken rules, and returns e.
func (e *Error) WithViolations(violations ...Violation) *Error {
	e.Violations = append(e.Violations, violations...)
	return e
}

// WithRetryAfter sets the least time to wait before repeating the call, and returns e.
func (e *Error) WithRetryAfter(d time.Duration) *Error {
	e.RetryAfter = d
	return e
}

// WithQuotas names the limits that are in the way, and returns e.
func (e *Error) WithQuotas(quotas ...Quota) *Error {
	e.Quotas = append(e.Quotas, quotas...)
	return e
}

// Error returns message and cause, for logs.
func (e *Error) Error() string {
	if e.cause == nil {
		return e.Message
	}
	return e.Message + ": " + e.cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// Of returns the fault that err is or wraps. An ended context becomes CANCELLED or DEADLINE_EXCEEDED; every other error
// becomes INTERNAL with err as its cause. Of(nil) is nil.
func Of(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, context.Canceled):
		return New(faultv1.ErrorReason_ERROR_REASON_CANCELLED, "the call was cancelled").WithCause(err)
	case errors.Is(err, context.DeadlineExceeded):
		return New(faultv1.ErrorReason_ERROR_REASON_DEADLINE_EXCEEDED, "the call's deadline passed").WithCause(err)
	default:
		return Internal(err)
	}
}

// Is reports whether err is or wraps a fault with the reason.
func Is(err error, reason faultv1.ErrorReason) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Reason == reason
}

// CodeOf returns the gRPC code that err will have on the wire; codes.OK for nil.
func CodeOf(err error) codes.Code {
	if err == nil {
		return codes.OK
	}
	return Of(err).Code
}

// summary is the message of a fault that consists of violations: the first in full, the others as a count.
func summary(violations []Violation) string {
	if len(violations) == 0 {
		return "the request is invalid"
	}
	first := violations[0]
	text := strings.TrimPrefix(first.Field+": "+first.Message, ": ")
	if more := len(violations) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}
