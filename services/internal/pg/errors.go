package pg

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	"pawl.internal/services/internal/fault"
)

// ErrUncertain marks a transaction whose COMMIT was sent and not answered: it may or may not have taken effect.
var ErrUncertain = errors.New("fate of the commit is unknown")

// The SQLSTATEs that mean something to us.
const (
	uniqueViolation      = "23505"
	readOnlyTransaction  = "25006"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	queryCanceled        = "57014"

	classConnection = "08"  // connection exceptions
	classResources  = "53"  // disk full, out of memory, too many connections
	classOperator   = "57P" // the server is starting, stopping, or was told to end the session
	classSystem     = "58"  // the server cannot read or write its files
)

// Fault translates an error of the database into a fault. What is a fault already, and what is not the database's error
// (pgx.ErrNoRows too), is returned as it is.
func Fault(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return ofState(refused.Code, err)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return fault.Of(err)
	case isConnectError(err):
		return away(err)
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Of(err)
	case isLost(err):
		return away(err)
	default:
		return err
	}
}

// ofState is the one place that gives SQLSTATEs a meaning.
func ofState(state string, err error) error {
	switch state {
	case serializationFailure, deadlockDetected, lockNotAvailable:
		return fault.New(faultv1.ErrorReason_ERROR_REASON_CONFLICT, "another change got in between").WithCause(err)
	case queryCanceled:
		return fault.New(faultv1.ErrorReason_ERROR_REASON_CANCELLED, "the database gave the statement up").WithCause(err)
	case uniqueViolation:
		return fault.New(faultv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS, "it exists already").WithCause(err)
	case readOnlyTransaction:
		return away(err)
	}
	for _, class := range []string{classConnection, classResources, classOperator, classSystem} {
		if strings.HasPrefix(state, class) {
			return away(err)
		}
	}
	return fault.Internal(err)
}

func away(err error) *fault.Error { return fault.Unavailable(err, "the database is not available") }

// hasState reports whether the server refused with one of the states.
func hasState(err error, states ...string) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	for _, state := range states {
		if refused.Code == state {
			return true
		}
	}
	return false
}

func isConnectError(err error) bool {
	_, ok := errors.AsType[*pgconn.ConnectError](err)
	return ok
}

// isLost reports whether err is that of a connection which broke, or was closed before anything was sent.
func isLost(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		pgconn.SafeToRetry(err)
}
