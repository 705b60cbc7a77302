package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"pawl.internal/services/internal/fault"
)

const (
	// defaultTimeout bounds unary calls whose context has no deadline.
	defaultTimeout = 10 * time.Second
	// reconnectMost bounds the wait between attempts to connect, so that a restarted server is found again soon.
	reconnectMost = 2 * time.Second
	connectWait   = 3 * time.Second
)

// Dial returns a connection to the target, spread over all addresses it resolves to: a DNS name (dns:///name:port) or a list
// (ipv4:///127.0.0.1:1,127.0.0.1:2). Connecting happens in the background.
// Methods declared idempotent in their proto are repeated while the server is UNAVAILABLE; errors come back as faults.
func Dial(target string, extra ...grpc.DialOption) (*grpc.ClientConn, error) {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithResolvers(addressList{schemeIPv4}, addressList{schemeIPv6}),
		grpc.WithDefaultServiceConfig(serviceConfig()),
		grpc.WithDisableServiceConfig(),
		grpc.WithUnaryInterceptor(unaryClient),
		grpc.WithStreamInterceptor(streamClient),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessageBytes), grpc.MaxCallSendMsgSize(MaxMessageBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: pingEvery, Timeout: pingWait, PermitWithoutStream: true,
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnectMost,
			},
			MinConnectTimeout: connectWait,
		}),
	}
	conn, err := grpc.NewClient(target, append(options, extra...)...)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", target, err)
	}
	return conn, nil
}

func unaryClient(
	ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultTimeout)
		defer cancel()
	}
	return rebuild(ctx, invoke(handOn(ctx), method, req, reply, conn, options...))
}

func streamClient(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
	options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := open(handOn(ctx), desc, conn, method, options...)
	if err != nil {
		return nil, rebuild(ctx, err)
	}
	return faultStream{ClientStream: stream, caller: ctx}, nil
}

// handOn sends the request's id along with a call.
func handOn(ctx context.Context) context.Context {
	if id := RequestID(ctx); id != "" {
		return metadata.AppendToOutgoingContext(ctx, requestIDHeader, id)
	}
	return ctx
}

// rebuild turns the status that came back into the fault that was sent. A cancellation that is not the caller's own is that
// of a server which stops and cuts its calls off.
func rebuild(caller context.Context, err error) error {
	if err == nil {
		return nil
	}
	e := fault.FromStatus(err)
	if e.Code == codes.Canceled && caller.Err() == nil {
		return fault.Unavailable(err, "the server gave the call up")
	}
	return e
}

// faultStream is a ClientStream whose errors are faults; io.EOF stays io.EOF.
type faultStream struct {
	grpc.ClientStream
	caller context.Context //nolint:containedctx // the stream's own ends with the stream
}

func (s faultStream) RecvMsg(m any) error { return s.rebuild(s.ClientStream.RecvMsg(m)) }

func (s faultStream) SendMsg(m any) error { return s.rebuild(s.ClientStream.SendMsg(m)) }

func (s faultStream) rebuild(err error) error {
	if errors.Is(err, io.EOF) {
		return err
	}
	return rebuild(s.caller, err)
}
