// Package sdk is the Go client of Pawl.
//
//	client, err := sdk.New("localhost:9090", os.Getenv("PAWL_API_KEY"))
//	run, err := client.CreateRun(ctx, &pawlv1.CreateRunRequest{Pipeline: "document_extract", Input: sdk.JSON(`{"text": "…"}`)})
//	for state, err := range client.Watch(ctx, run.GetRunId()) { … }
//
// A Client has every method of the API's gRPC services. Beside them it takes care of what each caller would have to: the
// API key, a deadline, an idempotency key, repeating calls while the server is away, and errors of one type. It is safe for
// concurrent use.
package sdk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pawlv1 "pawl.internal/gen/pawl/v1"
)

const (
	// defaultTimeout bounds a call whose context has no deadline.
	defaultTimeout = 10 * time.Second
	// maxMessageBytes is the largest message that the server sends.
	maxMessageBytes = 32 << 20

	pingEvery = 30 * time.Second
	pingWait  = 10 * time.Second
)

// Client calls the API. New makes it.
type Client struct {
	pawlv1.RunServiceClient
	pawlv1.DocumentServiceClient
	pawlv1.JobServiceClient
	pawlv1.BatchServiceClient
	pawlv1.PipelineServiceClient
	pawlv1.StatsServiceClient
	pawlv1.ScheduleServiceClient
	pawlv1.TenantServiceClient

	conn *grpc.ClientConn
}

// Option changes how a Client connects.
type Option func(*settings)

type settings struct {
	credentials credentials.TransportCredentials
	timeout     time.Duration
	dial        []grpc.DialOption
}

// WithTransportCredentials sets TLS or another security of the transport. Without it connections are in plain text, which
// is for one's own machine or network.
func WithTransportCredentials(c credentials.TransportCredentials) Option {
	return func(s *settings) { s.credentials = c }
}

// WithTimeout bounds calls whose context has no deadline; the default is 10 s. Watching is never bounded.
func WithTimeout(d time.Duration) Option { return func(s *settings) { s.timeout = d } }

// WithDialOptions adds options of gRPC, such as another dialer.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, options...) }
}

// New returns a client of the server at the address, such as "localhost:9090" or "dns:///intake:9090". It connects in the
// background; Close ends it.
func New(address, apiKey string, options ...Option) (*Client, error) {
	if apiKey == "" {
		return nil, errors.New("an API key is needed")
	}
	s := settings{credentials: insecure.NewCredentials(), timeout: defaultTimeout}
	for _, option := range options {
		option(&s)
	}
	caller := caller{apiKey: apiKey, timeout: s.timeout}
	conn, err := grpc.NewClient(address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(s.credentials),
		grpc.WithUnaryInterceptor(caller.unary),
		grpc.WithStreamInterceptor(caller.stream),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingWait, PermitWithoutStream: true}),
	}, s.dial...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return &Client{
		RunServiceClient:      pawlv1.NewRunServiceClient(conn),
		DocumentServiceClient: pawlv1.NewDocumentServiceClient(conn),
		JobServiceClient:      pawlv1.NewJobServiceClient(conn),
		BatchServiceClient:    pawlv1.NewBatchServiceClient(conn),
		PipelineServiceClient: pawlv1.NewPipelineServiceClient(conn),
		StatsServiceClient:    pawlv1.NewStatsServiceClient(conn),
		ScheduleServiceClient: pawlv1.NewScheduleServiceClient(conn),
		TenantServiceClient:   pawlv1.NewTenantServiceClient(conn),
		conn:                  conn,
	}, nil
}

// Close ends the connection; calls that are under way fail.
func (c *Client) Close() error { return c.conn.Close() }

// JSON is a document of any form, as the API takes it.
func JSON(document string) *pawlv1.JsonValue { return &pawlv1.JsonValue{Json: document} }

// serviceConfig repeats calls while no server takes them. All methods may be repeated: the creating ones have a key. Only
// RetryRun, RerunRun and RetryFailedItems may not: their callers repeat them with the run's etag. Of TenantService only what reads, and what sets
// a state, may: a repeated CreateKey would make a second key.
const serviceConfig = `{
  "loadBalancingConfig": [{"round_robin": {}}],
  "retryThrottling": {"maxTokens": 100, "tokenRatio": 0.1},
  "methodConfig": [
    {"name": [{"service": "pawl.v1.RunService", "method": "RetryRun"}, {"service": "pawl.v1.RunService", "method": "RerunRun"},
      {"service": "pawl.v1.BatchService", "method": "RetryFailedItems"}]},
    {
      "name": [
        {"service": "pawl.v1.RunService"}, {"service": "pawl.v1.DocumentService"},
        {"service": "pawl.v1.JobService"}, {"service": "pawl.v1.BatchService"}, {"service": "pawl.v1.PipelineService"}, {"service": "pawl.v1.StatsService"},
        {"service": "pawl.v1.TenantService", "method": "GetTenant"}, {"service": "pawl.v1.TenantService", "method": "ListTenants"},
        {"service": "pawl.v1.TenantService", "method": "ListKeys"}, {"service": "pawl.v1.TenantService", "method": "RevokeKey"}
      ],
      "retryPolicy": {
        "maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "2s", "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"]
      }
    }
  ]
}`

// caller adds to each call what every caller needs.
type caller struct {
	apiKey  string
	timeout time.Duration
}

func (c caller) unary(
	ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	return errorOf(invoke(c.identified(ctx), method, keyed(req), reply, conn, options...))
}

func (c caller) stream(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
	options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := open(c.identified(ctx), desc, conn, method, options...)
	if err != nil {
		return nil, errorOf(err)
	}
	return errorStream{stream}, nil
}

func (c caller) identified(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.apiKey)
}

// keyed returns the request with an idempotency key of its own if it has a field for one and none in it. The caller's
// message stays as it is, so that the same message sent twice asks twice.
func keyed(req any) any {
	m, ok := req.(proto.Message)
	if !ok {
		return req
	}
	field := m.ProtoReflect().Descriptor().Fields().ByName("idempotency_key")
	if field == nil || m.ProtoReflect().Has(field) {
		return req
	}
	m = proto.Clone(m)
	m.ProtoReflect().Set(field, protoreflect.ValueOfString(rand.Text()))
	return m
}
