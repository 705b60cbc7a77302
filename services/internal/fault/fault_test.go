package fault_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	"pawl.internal/services/internal/fault"
)

const (
	runNotFound  = faultv1.ErrorReason_ERROR_REASON_RUN_NOT_FOUND
	inputInvalid = faultv1.ErrorReason_ERROR_REASON_INPUT_INVALID
)

func TestFaultIsTheSameAfterTheWire(t *testing.T) {
	t.Parallel()
	sent := fault.Invalid(inputInvalid,
		fault.Violation{Field: "input.text", Message: "must be a string"},
		fault.Violation{Field: "input.n", Message: "must be at least 1"},
	).WithMeta("pipeline", "p:v1").WithRetryAfter(1500 * time.Millisecond).WithCause(errors.New("secret"))

	wire := sent.GRPCStatus().Err()
	require.NotContains(t, fmt.Sprint(sent.GRPCStatus().Proto()), "secret")
	got := fault.FromStatus(fmt.Errorf("call: %w", wire))
	require.Equal(t, sent.WithCause(nil), got)
	require.Equal(t, codes.InvalidArgument, got.Code)
	require.Equal(t, "input.text: must be a string (and 1 more)", got.Message)
}

func TestFromStatusOfForeignStatuses(t *testing.T) {
	t.Parallel()
	for code, want := range map[codes.Code]faultv1.ErrorReason{
		codes.Canceled:           faultv1.ErrorReason_ERROR_REASON_CANCELLED,
		codes.DeadlineExceeded:   faultv1.ErrorReason_ERROR_REASON_DEADLINE_EXCEEDED,
		codes.InvalidArgument:    faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT,
		codes.OutOfRange:         faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT,
		codes.Unauthenticated:    faultv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED,
		codes.PermissionDenied:   faultv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
		codes.Unimplemented:      faultv1.ErrorReason_ERROR_REASON_NO_SUCH_ENDPOINT,
		codes.ResourceExhausted:  faultv1.ErrorReason_ERROR_REASON_RATE_LIMITED,
		codes.Aborted:            faultv1.ErrorReason_ERROR_REASON_CONFLICT,
		codes.AlreadyExists:      faultv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS,
		codes.Unavailable:        faultv1.ErrorReason_ERROR_REASON_UNAVAILABLE,
		codes.Unknown:            faultv1.ErrorReason_ERROR_REASON_INTERNAL,
		codes.NotFound:           faultv1.ErrorReason_ERROR_REASON_INTERNAL,
		codes.FailedPrecondition: faultv1.ErrorReason_ERROR_REASON_INTERNAL,
	} {
		got := fault.FromStatus(status.Error(code, "said"))
		require.Equal(t, &fault.Error{Code: code, Reason: want, Message: "said"}, got)
	}
	require.Nil(t, fault.FromStatus(nil))
	require.Equal(t, codes.Internal, fault.FromStatus(errors.New("no status")).Code)
}

func TestForeignReasonIsNotTakenForOurs(t *testing.T) {
	t.Parallel()
	ours := fault.New(runNotFound, "gone").GRPCStatus().Proto()
	ours.GetDetails()[0].Value = []byte("\x0a\x0dRUN_NOT_FOUND\x12\x05other")
	got := fault.FromStatus(status.ErrorProto(ours))
	require.Equal(t, faultv1.ErrorReason_ERROR_REASON_INTERNAL, got.Reason)
	require.Equal(t, codes.NotFound, got.Code)
}

func TestOf(t *testing.T) {
	t.Parallel()
	known := fault.New(runNotFound, "there is no run %s", "7")
	cause := errors.New("disk on fire")
	require.Nil(t, fault.Of(nil))
	require.Same(t, known, fault.Of(fmt.Errorf("get: %w", known)))
	require.Equal(t, codes.Canceled, fault.CodeOf(context.Canceled))
	require.Equal(t, codes.DeadlineExceeded, fault.CodeOf(fmt.Errorf("wait: %w", context.DeadlineExceeded)))
	require.Equal(t, codes.OK, fault.CodeOf(nil))
	hidden := fault.Of(cause)
	require.Equal(t, "internal error", hidden.Message)
	require.Equal(t, "internal error: disk on fire", hidden.Error())
	require.ErrorIs(t, hidden, cause)
	require.True(t, fault.Is(fmt.Errorf("get: %w", known), runNotFound))
	require.False(t, fault.Is(cause, runNotFound))
	require.Equal(t, time.Second, fault.Unavailable(cause, "away").RetryAfter)
	require.Equal(t, "the request is invalid", fault.Invalid(inputInvalid).Message)
	require.Equal(t, "empty", fault.Invalid(inputInvalid, fault.Violation{Message: "empty"}).Message)
}
