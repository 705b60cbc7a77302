package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/ids"
)

const (
	// deadlineMargin is kept back from a handler's time, so that its answer still reaches the caller.
	deadlineMargin = 20 * time.Millisecond
	// deadlineLeast is the time below which it is not worth to begin.
	deadlineLeast = 50 * time.Millisecond
)

// requestID takes the request's id over from the caller, or draws one, and sends it back with the answer.
func requestID(source *ids.Source) step {
	return func(ctx context.Context, _ *call, next func(context.Context) error) error {
		id := incomingRequestID(ctx)
		if id == "" {
			id = source.V4().String()
		}
		// Not as a header: a failure that comes with headers counts as begun, and clients would not repeat the call. An
		// error here says that there is no transport, which is no reason to refuse.
		_ = grpc.SetTrailer(ctx, metadata.Pairs(requestIDHeader, id))
		return next(WithRequestID(ctx, id))
	}
}

// accessLog writes one line a call, without bodies: at Error when someone must act, Warn when we are degraded, else Debug.
func accessLog(log *slog.Logger, clk clock.Clock) step {
	return func(ctx context.Context, c *call, next func(context.Context) error) error {
		began := clk.Now()
		err := next(ctx)
		level := levelOf(fault.CodeOf(err))
		if !log.Enabled(ctx, level) {
			return err
		}
		attrs := []slog.Attr{
			slog.String("method", c.method), slog.String("request_id", RequestID(ctx)),
			slog.Duration("duration", clk.Now().Sub(began)), slog.String("code", fault.CodeOf(err).String()),
		}
		if err != nil {
			attrs = append(attrs, slog.String("reason", fault.Name(fault.Of(err).Reason)), slog.Any("error", err))
		}
		log.LogAttrs(ctx, level, "rpc", attrs...)
		return err
	}
}

func levelOf(code codes.Code) slog.Level {
	switch code {
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return slog.LevelError
	case codes.Unavailable, codes.DeadlineExceeded:
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}

// recovery turns a panic into an error with its stack as the cause, and every error into a fault.
func recovery() step {
	return func(ctx context.Context, _ *call, next func(context.Context) error) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fault.FromPanic(p)
			}
		}()
		if err := next(ctx); err != nil {
			return fault.Of(err)
		}
		return nil
	}
}

// deadline refuses calls whose time is too short to do anything, and unary calls that have no deadline at all.
func deadline() step {
	return func(ctx context.Context, c *call, next func(context.Context) error) error {
		limit, ok := ctx.Deadline()
		switch {
		case isInfrastructure(c.method), !ok && c.streaming():
			return next(ctx)
		case !ok:
			return fault.New(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT,
				"the call has no deadline: set one, a few seconds are enough")
		case limit.Sub(clock.System().Now()) < deadlineLeast: // deadlines are of the machine's clock
			return fault.New(faultv1.ErrorReason_ERROR_REASON_DEADLINE_TOO_SHORT,
				"less than %v is left of the call's time", deadlineLeast)
		}
		ctx, cancel := context.WithDeadline(ctx, limit.Add(-deadlineMargin))
		defer cancel()
		return next(ctx)
	}
}

// authentication lets the service identify the caller; without an Authenticator everybody may call.
func authentication(a Authenticator) step {
	return func(ctx context.Context, c *call, next func(context.Context) error) error {
		if a == nil || isInfrastructure(c.method) {
			return next(ctx)
		}
		ctx, err := a.Authenticate(ctx, c.method)
		if err != nil {
			return err
		}
		return next(ctx)
	}
}

// validation checks messages against the rules of their schema.
func validation(v protovalidate.Validator) step {
	check := func(message any) error { return Validate(v, message) }
	return func(ctx context.Context, c *call, next func(context.Context) error) error {
		if c.streaming() {
			c.received = check
			return next(ctx)
		}
		if err := check(c.request); err != nil {
			return err
		}
		return next(ctx)
	}
}

// Validate checks a message against the rules of its schema; whoever takes messages apart from calls calls it. The error is a
// fault with every rule that is broken.
func Validate(v protovalidate.Validator, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return nil
	}
	err := v.Validate(m)
	if err == nil {
		return nil
	}
	broken, ok := errors.AsType[*protovalidate.ValidationError](err)
	if !ok {
		return fault.Internal(fmt.Errorf("validate %s: %w", m.ProtoReflect().Descriptor().FullName(), err))
	}
	violations := make([]fault.Violation, len(broken.Violations))
	for i, each := range broken.Violations {
		violations[i] = fault.Violation{
			Field:   protovalidate.FieldPathString(each.Proto.GetField()),
			Message: each.Proto.GetMessage(),
		}
	}
	return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, violations...)
}

// isInfrastructure reports whether the method is one of gRPC's own, which everybody may call without ceremony.
func isInfrastructure(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.") || strings.HasPrefix(method, "/grpc.reflection.")
}
