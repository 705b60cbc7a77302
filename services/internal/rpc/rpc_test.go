package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"buf.build/go/protovalidate"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/internal/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const someRun = "01890000-0000-7000-8000-000000000001"

// service answers GetRun, RetryRun (not idempotent) and Generate with what a test says.
type service struct {
	systemv1.UnimplementedOrchestratorServiceServer
	systemv1.UnimplementedGatewayServiceServer

	getRun   func(context.Context) error
	generate func(grpc.ServerStreamingServer[systemv1.GenerateResponse]) error
	calls    atomic.Int32
}

func (s *service) GetRun(ctx context.Context, _ *systemv1.GetRunRequest) (*systemv1.GetRunResponse, error) {
	s.calls.Add(1)
	return &systemv1.GetRunResponse{Kind: rpc.RequestID(ctx)}, s.getRun(ctx)
}

func (s *service) RetryRun(ctx context.Context, _ *systemv1.RetryRunRequest) (*systemv1.RetryRunResponse, error) {
	s.calls.Add(1)
	return &systemv1.RetryRunResponse{}, s.getRun(ctx)
}

func (s *service) Generate(
	_ *systemv1.GenerateRequest, stream grpc.ServerStreamingServer[systemv1.GenerateResponse],
) error {
	return s.generate(stream)
}

// bundle is a server of this package with clients of both kinds: ours, and a plain one that adds nothing.
type bundle struct {
	*service
	orchestrator systemv1.OrchestratorServiceClient
	gateway      systemv1.GatewayServiceClient
	plain        systemv1.OrchestratorServiceClient
	metrics      *prometheus.Registry
	log          *lockedBuffer
}

// lockedBuffer is a buffer that a server may write while a test reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func setup(tb testing.TB, authenticator rpc.Authenticator) *bundle {
	tb.Helper()
	b := &bundle{service: &service{}, metrics: prometheus.NewRegistry(), log: &lockedBuffer{}}
	b.getRun = func(context.Context) error { return nil }
	validator, err := protovalidate.New()
	require.NoError(tb, err)
	server := rpc.NewServer(rpc.ServerOptions{
		Service: "test", Clock: clock.System(), IDs: ids.New(clock.System()), Metrics: rpc.NewMetrics(b.metrics),
		Log:       slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Validator: validator, Authenticator: authenticator, Grace: time.Second,
	})
	systemv1.RegisterOrchestratorServiceServer(server, b.service)
	systemv1.RegisterGatewayServiceServer(server, b.service)
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	inMemory := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return listener.DialContext(ctx)
	})
	ours, err := rpc.Dial("passthrough:///test", inMemory)
	require.NoError(tb, err)
	plain, err := grpc.NewClient("passthrough:///test", inMemory, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.NoError(tb, ours.Close())
		require.NoError(tb, plain.Close())
		server.Stop()
		require.NoError(tb, <-served)
	})
	b.orchestrator, b.gateway = systemv1.NewOrchestratorServiceClient(ours), systemv1.NewGatewayServiceClient(ours)
	b.plain = systemv1.NewOrchestratorServiceClient(plain)
	return b
}

func (b *bundle) get(ctx context.Context) (*systemv1.GetRunResponse, error) {
	return b.orchestrator.GetRun(ctx, &systemv1.GetRunRequest{Tenant: "t", RunId: someRun})
}

func TestFaultCrossesTheWireAndOnlyTheLogHasTheCause(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.getRun = func(context.Context) error {
		return fmt.Errorf("read: %w", fault.New(faultv1.ErrorReason_ERROR_REASON_RUN_NOT_FOUND, "there is no run 7").
			WithCause(errors.New("deep secret")))
	}
	_, err := b.get(t.Context())
	got, ok := errors.AsType[*fault.Error](err)
	require.True(t, ok)
	require.Equal(t, faultv1.ErrorReason_ERROR_REASON_RUN_NOT_FOUND, got.Reason)
	require.EqualError(t, err, "there is no run 7")
	require.Equal(t, codes.NotFound, status.Code(err))
	require.Contains(t, b.log.String(), "deep secret")
}

func TestForeignErrorsAndPanicsAreInternal(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for _, fn := range []func(context.Context) error{
		func(context.Context) error { return errors.New("deep secret") },
		func(context.Context) error { panic("deep secret") },
	} {
		b.getRun = fn
		_, err := b.get(t.Context())
		require.Equal(t, codes.Internal, fault.CodeOf(err))
		require.EqualError(t, err, "internal error")
	}
	require.Equal(t, 2, strings.Count(b.log.String(), "level=ERROR"))
	require.Contains(t, b.log.String(), "rpc_test.go", "the log has no stack of the panic")
	require.InDelta(t, 2, testutil.ToFloat64(b.counter(t, "GetRun", "Internal")), 0)
}

// counter is the metric of calls of a method that ended with a code.
func (b *bundle) counter(t *testing.T, method, code string) prometheus.Counter {
	t.Helper()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "x", Help: "x"})
	families, err := b.metrics.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := fmt.Sprint(m.GetLabel())
			if family.GetName() == "pawl_rpc_requests_total" && strings.Contains(labels, "/"+method+`"`) &&
				strings.Contains(labels, `"`+code+`"`) {
				c.Add(m.GetCounter().GetValue())
			}
		}
	}
	return c
}

func TestEveryUnaryCallHasADeadline(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	request := &systemv1.GetRunRequest{Tenant: "t", RunId: someRun}
	_, err := b.plain.GetRun(t.Context(), request)
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.ErrorContains(t, err, "no deadline")

	var left time.Duration
	b.getRun = func(ctx context.Context) error {
		limit, ok := ctx.Deadline()
		require.True(t, ok)
		left = limit.Sub(clock.System().Now())
		return nil
	}
	_, err = b.get(t.Context())
	require.NoError(t, err)
	require.Greater(t, left, 9*time.Second)
	require.Less(t, left, 10*time.Second)

	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Millisecond)
	defer cancel()
	b.calls.Store(0)
	_, err = b.plain.GetRun(ctx, request)
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	require.Zero(t, b.calls.Load(), "a call without time was begun")
}

func TestRequestIDGoesAllTheWay(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	got, err := b.get(rpc.WithRequestID(t.Context(), "req-1"))
	require.NoError(t, err)
	require.Equal(t, "req-1", got.GetKind())

	var trailer metadata.MD
	for _, unfit := range []string{"", "two words", strings.Repeat("x", 129)} {
		ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "x-request-id", unfit), time.Minute)
		got, err = b.plain.GetRun(ctx, &systemv1.GetRunRequest{Tenant: "t", RunId: someRun}, grpc.Trailer(&trailer))
		cancel()
		require.NoError(t, err)
		require.NotEqual(t, unfit, got.GetKind())
		require.Len(t, got.GetKind(), 36)
		require.Equal(t, []string{got.GetKind()}, trailer.Get("x-request-id"))
	}
}

func TestInvalidRequestsNeverReachTheHandler(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	_, err := b.orchestrator.GetRun(t.Context(), &systemv1.GetRunRequest{RunId: "7"})
	got, ok := errors.AsType[*fault.Error](err)
	require.True(t, ok)
	require.Equal(t, faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, got.Reason)
	require.Len(t, got.Violations, 2)
	require.Equal(t, "tenant", got.Violations[0].Field)
	require.Equal(t, "run_id", got.Violations[1].Field)
	require.Zero(t, b.calls.Load())

	b.generate = func(grpc.ServerStreamingServer[systemv1.GenerateResponse]) error {
		t.Error("the handler of a stream got an invalid request")
		return nil
	}
	stream, err := b.gateway.Generate(t.Context(), &systemv1.GenerateRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT), err)
}

func TestOnlyIdempotentMethodsAreRepeated(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.getRun = func(context.Context) error {
		if b.calls.Load() < 3 {
			return fault.Unavailable(nil, "away")
		}
		return nil
	}
	_, err := b.get(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 3, b.calls.Load())

	b.calls.Store(0)
	_, err = b.orchestrator.RetryRun(t.Context(), &systemv1.RetryRunRequest{
		Tenant: "t", RunId: someRun, Actor: "a", Reason: "r",
	})
	require.Equal(t, codes.Unavailable, fault.CodeOf(err))
	require.EqualValues(t, 1, b.calls.Load())
}

// guard lets callers in that send the right word, and says who they are.
type guard struct{}

type callerKey struct{}

func (guard) Authenticate(ctx context.Context, method string) (context.Context, error) {
	if words := metadata.ValueFromIncomingContext(ctx, "word"); len(words) != 1 || words[0] != "please" {
		return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED, "say the word")
	}
	return context.WithValue(ctx, callerKey{}, method), nil
}

func TestCallersAreIdentifiedBeforeAnythingIsLookedAt(t *testing.T) {
	t.Parallel()
	b := setup(t, guard{})
	_, err := b.orchestrator.GetRun(t.Context(), &systemv1.GetRunRequest{})
	require.Equal(t, codes.Unauthenticated, fault.CodeOf(err))

	var caller any
	b.getRun = func(ctx context.Context) error {
		caller = ctx.Value(callerKey{})
		return nil
	}
	_, err = b.get(metadata.AppendToOutgoingContext(t.Context(), "word", "please"))
	require.NoError(t, err)
	require.Equal(t, "/pawl.system.v1.OrchestratorService/GetRun", caller)
}

func TestStreamsPassTheSameChain(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.generate = func(stream grpc.ServerStreamingServer[systemv1.GenerateResponse]) error {
		if err := stream.Send(&systemv1.GenerateResponse{}); err != nil {
			return err
		}
		if rpc.RequestID(stream.Context()) != "req-2" {
			panic("the request's id is lost")
		}
		return fault.Unavailable(errors.New("deep secret"), "away")
	}
	stream, err := b.gateway.Generate(rpc.WithRequestID(t.Context(), "req-2"), validGenerate())
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	_, err = stream.Recv()
	got, ok := errors.AsType[*fault.Error](err)
	require.True(t, ok)
	require.Equal(t, time.Second, got.RetryAfter)
	require.EqualError(t, err, "away")

	b.generate = func(grpc.ServerStreamingServer[systemv1.GenerateResponse]) error { return nil }
	stream, err = b.gateway.Generate(t.Context(), validGenerate())
	require.NoError(t, err)
	_, err = stream.Recv()
	require.ErrorIs(t, err, io.EOF)
}

// Who leaves a stream while something is sent to them has not met a fault of the server's.
func TestStreamWhoseCallerHasGoneIsNoFaultOfTheServers(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	said := make(chan error, 1)
	b.generate = func(stream grpc.ServerStreamingServer[systemv1.GenerateResponse]) error {
		leave()
		<-stream.Context().Done()
		err := stream.Send(&systemv1.GenerateResponse{})
		said <- err
		return err
	}
	stream, err := b.gateway.Generate(ctx, validGenerate())
	require.NoError(t, err)
	_, err = stream.Recv()
	require.Equal(t, codes.Canceled, fault.CodeOf(err))
	require.Equal(t, codes.Canceled, fault.CodeOf(<-said))
	require.Eventually(t, func() bool { return strings.Contains(b.log.String(), "Generate") }, 5*time.Second, time.Millisecond)
	require.NotContains(t, b.log.String(), "level=ERROR")
}

func validGenerate() *systemv1.GenerateRequest {
	return &systemv1.GenerateRequest{
		Step:   &systemv1.StepRef{RunId: make([]byte, 16), Step: "s", Shard: -1, Generation: 0},
		Tenant: "t", Route: "default", Messages: []*systemv1.Message{{Role: "user", Content: "hi"}},
		LlmTimeout: durationpb.New(time.Minute), DeadlineIn: durationpb.New(time.Minute), CallsLeft: 1,
	}
}

func TestCancellationIsTheCallersOwnOrTheServerIsAway(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.getRun = func(context.Context) error { return context.Canceled }
	_, err := b.get(t.Context())
	require.Equal(t, codes.Unavailable, fault.CodeOf(err))

	ctx, cancel := context.WithCancel(t.Context())
	b.getRun = func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	_, err = b.get(ctx)
	require.Equal(t, codes.Canceled, fault.CodeOf(err))
}

func BenchmarkUnary(b *testing.B) {
	server := setup(b, nil)
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := server.get(b.Context()); err != nil {
				b.Error(err)
			}
		}
	})
}
