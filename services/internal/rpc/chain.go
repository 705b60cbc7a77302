// Package rpc builds every gRPC server and client connection of the system, so that sizes, deadlines, retries, error mapping
// and observation are the same everywhere.
//
// A server passes each call, unary or streaming, through one list of steps (chain); a client gives calls a deadline, hands
// the request id on, repeats what may be repeated, and turns statuses back into faults. What a call does is its handler's.
package rpc

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"pawl.internal/services/internal/fault"
)

// step is one link of the chain: it does its part around next, and may replace the context or the error.
type step func(ctx context.Context, c *call, next func(context.Context) error) error

// call is one RPC on its way through the chain.
type call struct {
	// method is the full name: "/pawl.v1.RunService/GetRun".
	method string
	// request is the message of a unary call; nil for a streaming one.
	request any
	// received checks each message that the client streams; nil when nothing checks them.
	received func(message any) error
}

func (c *call) streaming() bool { return c.request == nil }

type link struct {
	name string
	run  step
}

// chain lists the steps from the outermost to the innermost. Metrics and log stand outside of recovery, so that both see
// the final code while the log still has the cause; nothing of ours runs before the deadline is known to be worth it.
func chain(o ServerOptions) []link {
	return []link{
		{"request_id", requestID(o.IDs)},
		{"metrics", o.Metrics.observe(o.Service, o.Clock)},
		{"access_log", accessLog(o.Log, o.Clock)},
		{"recovery", recovery()},
		{"deadline", deadline()},
		{"authentication", authentication(o.Authenticator)},
		{"validation", validation(o.Validator)},
	}
}

// through runs the call through the links from the i-th on, and then the handler.
func through(ctx context.Context, links []link, c *call, handler func(context.Context) error) error {
	if len(links) == 0 {
		return handler(ctx)
	}
	return links[0].run(ctx, c, func(ctx context.Context) error { return through(ctx, links[1:], c, handler) })
}

func unaryInterceptor(links []link) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		c := &call{method: info.FullMethod, request: req}
		err = through(ctx, links, c, func(ctx context.Context) error {
			resp, err = handler(ctx, req)
			return err
		})
		if err != nil {
			return nil, err
		}
		return resp, nil
	}
}

func streamInterceptor(links []link) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		c := &call{method: info.FullMethod}
		return through(stream.Context(), links, c, func(ctx context.Context) error {
			return handler(srv, &checkedStream{ServerStream: stream, ctx: ctx, received: c.received})
		})
	}
}

// checkedStream gives the handler the context of the chain, and messages only after they were checked.
type checkedStream struct {
	grpc.ServerStream
	ctx      context.Context //nolint:containedctx // a ServerStream carries its context by definition
	received func(message any) error
}

func (s *checkedStream) Context() context.Context { return s.ctx }

// SendMsg gives what gRPC itself says the form of all errors: that the caller has gone is no fault of the handler's.
func (s *checkedStream) SendMsg(m any) error {
	if err := s.ServerStream.SendMsg(m); err != nil {
		return fault.FromStatus(err)
	}
	return nil
}

func (s *checkedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	switch {
	case errors.Is(err, io.EOF):
		return err
	case err != nil:
		return fault.FromStatus(err)
	case s.received == nil:
		return nil
	default:
		return s.received(m)
	}
}
