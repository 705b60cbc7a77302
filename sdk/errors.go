package sdk

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Error is how every call of a Client fails.
type Error struct {
	// Code is the canonical code, such as codes.NotFound.
	Code codes.Code
	// Reason is stable and says more: "RUN_NOT_FOUND". It is empty when the server could not be reached.
	Reason string
	// Message is for people.
	Message string
	// Violations say what is wrong with the request.
	Violations []Violation
	// RetryAfter is the least time to wait before the call is repeated; 0 says nothing.
	RetryAfter time.Duration

	status *status.Status
}

// Violation is one rule that a request breaks.
type Violation struct {
	// Field is the path of what is wrong, or its place in a text.
	Field string
	// Message says what is wrong and what would be right.
	Message string
}

// Error returns the message and, a line each, the violations when there are several.
func (e *Error) Error() string {
	text := e.Message
	if e.Reason != "" {
		text = fmt.Sprintf("%s (%s)", e.Message, e.Reason)
	}
	if len(e.Violations) < 2 {
		return text
	}
	var lines strings.Builder
	lines.WriteString(text)
	for _, v := range e.Violations {
		fmt.Fprintf(&lines, "\n  %s: %s", v.Field, v.Message)
	}
	return lines.String()
}

// GRPCStatus returns the status as it arrived, for code that works with statuses.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// IsReason reports whether err is or wraps an *Error with the reason, such as "RUN_NOT_FOUND".
func IsReason(err error, reason string) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Reason == reason
}

// errorOf makes an *Error of what gRPC returned. nil and io.EOF, the regular end of a stream, stay as they are.
func errorOf(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	st := status.Convert(err)
	e := &Error{Code: st.Code(), Message: st.Message(), status: st}
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			e.Reason = d.GetReason()
		case *errdetails.RetryInfo:
			e.RetryAfter = d.GetRetryDelay().AsDuration()
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				e.Violations = append(e.Violations, Violation{Field: v.GetField(), Message: v.GetDescription()})
			}
		}
	}
	return e
}

// errorStream is a stream whose errors are *Error.
type errorStream struct{ grpc.ClientStream }

func (s errorStream) RecvMsg(m any) error { return errorOf(s.ClientStream.RecvMsg(m)) }

func (s errorStream) SendMsg(m any) error { return errorOf(s.ClientStream.SendMsg(m)) }
