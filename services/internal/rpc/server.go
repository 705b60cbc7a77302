package rpc

import (
	"context"
	"log/slog"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/ids"
)

const (
	// MaxMessageBytes bounds every message between services.
	MaxMessageBytes = 33 << 20
	// maxCalls bounds the calls under way on one connection; further ones wait at the client.
	maxCalls = 4096
	// connectionAge makes clients connect anew, so that replicas that were added get their share.
	connectionAge = 5 * time.Minute
	// pingLeast is how often a client may ping; clients do so every pingEvery.
	pingLeast = 20 * time.Second
	pingEvery = 30 * time.Second
	pingWait  = 10 * time.Second
)

// Authenticator identifies the caller of a method, before its request is looked at.
type Authenticator interface {
	// Authenticate returns a context that carries the caller's identity, or a fault that refuses the call. The method is
	// the full name: "/pawl.v1.RunService/GetRun".
	Authenticate(ctx context.Context, method string) (context.Context, error)
}

// ServerOptions is what a server needs; all but Authenticator and Grace are required.
type ServerOptions struct {
	// Service is the name under which the server shows in metrics.
	Service   string
	Log       *slog.Logger
	Clock     clock.Clock
	IDs       *ids.Source
	Metrics   *Metrics
	Validator protovalidate.Validator
	// Authenticator may be nil: then everybody who reaches the server may call.
	Authenticator Authenticator
	// Grace is how long calls may go on after their connection has reached its age.
	Grace time.Duration
}

// NewServer returns a server whose calls pass the chain of this package.
func NewServer(o ServerOptions) *grpc.Server {
	links := chain(o)
	return grpc.NewServer(
		grpc.UnaryInterceptor(unaryInterceptor(links)),
		grpc.StreamInterceptor(streamInterceptor(links)),
		grpc.MaxRecvMsgSize(MaxMessageBytes),
		grpc.MaxSendMsgSize(MaxMessageBytes),
		grpc.MaxConcurrentStreams(maxCalls),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingLeast, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: pingEvery, Timeout: pingWait, MaxConnectionAge: connectionAge, MaxConnectionAgeGrace: o.Grace,
		}),
	)
}
