package llmgateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/boot"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/internal/redisconn"
	"pawl.internal/services/internal/telemetry"
	"pawl.internal/services/llmgateway"
	"pawl.internal/services/llmgateway/provider/simulated"
	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	// patience bounds what a test waits for.
	patience = 20 * time.Second
	// leaseTime is the gateways' lease in tests.
	leaseTime = 1500 * time.Millisecond
	apiKey    = "sk-very-secret-0123456789"
)

// bench is what one test works with: stores, providers behind real HTTP servers, and gateways.
type bench struct {
	t        testing.TB
	database *testkit.Database
	redis    redis.UniversalClient
	redisURL string
	prefix   string
	ids      *ids.Source
	orders   *orchestrator
	// log is everything that the gateways wrote.
	log *syncBuffer
	// main and spare are two providers.
	main, spare *upstream
	// change edits the models file.
	change func(string) string
}

// upstream is a simulated provider behind an HTTP server.
type upstream struct {
	*simulated.Provider
	url string
}

func newUpstream(tb testing.TB) *upstream {
	tb.Helper()
	p := simulated.New(simulated.Config{Models: []string{"small", "large"}}, clock.System())
	server := httptest.NewServer(p)
	tb.Cleanup(server.Close)
	tb.Cleanup(p.DeleteFaults) // let go of what is held, or the server cannot close
	return &upstream{Provider: p, url: server.URL + "/v1"}
}

func newBench(tb testing.TB) *bench {
	tb.Helper()
	keys := testkit.Redis(tb)
	b := &bench{
		t: tb, database: testkit.Postgres(tb, llmgateway.Schema()), redis: keys.Client, redisURL: keys.URL, prefix: keys.Prefix,
		ids: ids.New(clock.System()), orders: &orchestrator{spent: map[uuid.UUID]*systemv1.Spend{}, woken: map[uuid.UUID]int{}}, log: &syncBuffer{},
		main: newUpstream(tb), spare: newUpstream(tb), change: func(s string) string { return s },
	}
	tb.Setenv("LLM_KEY", apiKey)
	return b
}

// models writes the models file: route default goes to main/small only, wide has a fallback, long a larger model.
func (b *bench) models() string {
	b.t.Helper()
	content := fmt.Sprintf(`
providers:
  - {name: main, kind: openai, base_url: %s, api_key_env: LLM_KEY, limit_group: account, timeouts: {first_byte: 10s}}
  - {name: spare, kind: openai, base_url: %s}
limits:
  account: {concurrency: 64}
routes:
  default: [{provider: main, model: small}]
  wide:
    - {provider: main, model: small}
    - {provider: spare, model: large}
  long:
    - {provider: main, model: small}
    - {provider: main, model: large, match: [context_too_long, timeout]}
prices:
  - {provider: main, model: small, from: 2026-01-01, input: "0.50", cached_input: "0.05", output: "2.00"}
  - {provider: main, model: large, from: 2026-01-01, input: "1", output: "4"}
  - {provider: spare, model: large, from: 2026-01-01, input: "0.0001", output: "0.000003"}
`, b.main.url, b.spare.url)
	path := filepath.Join(b.t.TempDir(), "models.yaml")
	require.NoError(b.t, os.WriteFile(path, []byte(b.change(content)), 0o600))
	return path
}

// gateway is one replica in a process of its own.
type gateway struct {
	systemv1.GatewayServiceClient
	metrics *prometheus.Registry
	service *llmgateway.Service
	ready   func(context.Context) error
	// kill ends it as kill -9 would, as far as others can see: its lease is not renewed and nothing is stored any more.
	kill func()
	// stop ends it as SIGTERM does, and waits.
	stop func()
}

// unit lets a test kill a gateway that boot has built.
type unit struct {
	*llmgateway.Service
	killed chan struct{}
}

func (u *unit) Run(ctx context.Context) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-u.killed:
			cancel()
		case <-running.Done():
		}
	}()
	err := u.Service.Run(running)
	<-ctx.Done()
	return err
}

func (u *unit) Drain(ctx context.Context) {
	select {
	case <-u.killed:
	default:
		u.Service.Drain(ctx)
	}
}

// gateway starts a replica; it ends with the test, or before.
func (b *bench) gateway(change func(*llmgateway.Config)) *gateway {
	b.t.Helper()
	cfg := llmgateway.Config{
		Grace: 10 * time.Second,
		Database: pg.Config{
			URL: config.NewSecret(b.database.URL), MaxConns: 8, StatementTimeout: 10 * time.Second, ConnectTimeout: 5 * time.Second,
		},
		Redis:      redisconn.Config{URL: config.NewSecret(b.redisURL), Prefix: b.prefix},
		ModelsFile: b.models(), LogRequests: "masked", Lease: leaseTime, PermitTTL: 600 * time.Millisecond, CommitLanes: 2, ControlConns: 2,
		EconomyGather: 50 * time.Millisecond, EconomyLook: 50 * time.Millisecond, EconomyLeast: time.Second,
		EconomyReserve: 500 * time.Millisecond,
	}
	if change != nil {
		change(&cfg)
	}
	log := slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p := boot.New(boot.Config{}, clock.System(), b.ids, log, telemetry.NewRegistry())
	u := &unit{killed: make(chan struct{})}
	table := []boot.Entry{
		{Name: "orchestrator", Build: func(context.Context, *boot.Process) (boot.Service, error) { return b.orders, nil }},
		{Name: "intake", Build: func(context.Context, *boot.Process) (boot.Service, error) { return access{}, nil }},
		{Name: llmgateway.Name, Grace: 5 * time.Second, Build: func(ctx context.Context, p *boot.Process) (boot.Service, error) {
			s, err := llmgateway.Build(ctx, p, cfg)
			u.Service = s
			return u, err
		}},
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- boot.Run(ctx, p, table, []string{"orchestrator", "intake", llmgateway.Name}) }()
	g := &gateway{metrics: p.Metrics}
	g.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(b.t, <-ended)
	})
	b.t.Cleanup(g.stop)
	g.kill = sync.OnceFunc(func() { close(u.killed) })
	testkit.Eventually(b.t, patience, func() error {
		select {
		case err := <-ended:
			ended <- nil
			b.t.Fatalf("gateway does not start: %v", err)
		default:
		}
		conn, err := p.Dial(llmgateway.Name)
		if err != nil {
			return err
		}
		g.GatewayServiceClient = systemv1.NewGatewayServiceClient(conn)
		_, err = g.GetRoute(b.t.Context(), &systemv1.GetRouteRequest{Name: "default"})
		return err
	})
	g.service, g.ready = u.Service, u.Ready
	return g
}

// flush makes Redis forget what the gateways had there, as FLUSHALL does.
func (b *bench) flush() {
	b.t.Helper()
	keys, err := b.redis.Keys(b.t.Context(), b.prefix+"*").Result()
	require.NoError(b.t, err)
	require.NoError(b.t, b.redis.Del(b.t.Context(), keys...).Err())
}

// question is a question of a run, on the route default.
func (b *bench) question(run uuid.UUID, text string) *systemv1.GenerateRequest {
	return &systemv1.GenerateRequest{
		Step: &systemv1.StepRef{RunId: run[:], Step: "fields", Shard: -1}, Tenant: "acme",
		Class: pawlv1.RunClass_RUN_CLASS_INTERACTIVE, Route: "default",
		Messages:   []*systemv1.Message{{Role: "user", Content: text}},
		Params:     &systemv1.SamplingParams{MaxOutputTokens: proto.Int32(100)},
		LlmTimeout: durationpb.New(15 * time.Second), DeadlineIn: durationpb.New(patience), CallsLeft: 8, FallbackAfter: 1,
		PromptVersion: "v",
	}
}

// story is what a caller hears.
type story struct {
	waiting, granted bool
	answer           *systemv1.Answer
	failure          *systemv1.CallFailure
}

// ask asks and hears the whole story.
func (g *gateway) ask(ctx context.Context, req *systemv1.GenerateRequest) (story, error) {
	stream, err := g.Generate(ctx, req)
	if err != nil {
		return story{}, err
	}
	return hear(stream)
}

func hear(stream grpc.ServerStreamingClient[systemv1.GenerateResponse]) (s story, err error) {
	for {
		news, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		s.waiting = s.waiting || news.GetWaiting() != nil
		s.granted = s.granted || news.GetGranted() != nil
		s.answer, s.failure = news.GetAnswer(), news.GetFailure()
	}
}

// answer asks and insists on an answer.
func (g *gateway) answer(t *testing.T, req *systemv1.GenerateRequest) *systemv1.Answer {
	t.Helper()
	s, err := g.ask(t.Context(), req)
	require.NoError(t, err)
	require.NotNil(t, s.answer, "%v", s.failure)
	return s.answer
}

// failure asks and insists on a failure.
func (g *gateway) failure(t *testing.T, req *systemv1.GenerateRequest) *systemv1.CallFailure {
	t.Helper()
	s, err := g.ask(t.Context(), req)
	require.NoError(t, err)
	require.NotNil(t, s.failure, "%v", s.answer)
	return s.failure
}

// hold makes a provider keep all requests until let go.
func (u *upstream) hold(t *testing.T) (letGo func()) {
	t.Helper()
	id, err := u.Inject(simulated.Fault{Kind: "hold"})
	require.NoError(t, err)
	return func() { require.True(t, u.DeleteFault(id)) }
}

func (u *upstream) inject(t *testing.T, f simulated.Fault) {
	t.Helper()
	_, err := u.Inject(f)
	require.NoError(t, err)
}

// awaitInFlight waits until so many requests are at the provider.
func (u *upstream) awaitInFlight(t *testing.T, n int) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if got := u.Report(0).InFlight; got != n {
			return fmt.Errorf("%d requests are in flight, not %d", got, n)
		}
		return nil
	})
}

func (u *upstream) received() int { return u.Report(0).Received }

// one reads one value from the database.
func one[T any](b *bench, query string, args ...any) (value T) {
	b.t.Helper()
	require.NoError(b.t, b.database.Pool.QueryRow(b.t.Context(), query, args...).Scan(&value))
	return value
}

// eventually waits until a query gives the value.
func eventually[T comparable](b *bench, want T, query string, args ...any) {
	b.t.Helper()
	testkit.Eventually(b.t, patience, func() error {
		var got T
		if err := b.database.Pool.QueryRow(b.t.Context(), query, args...).Scan(&got); err != nil { // perhaps no row yet
			return err
		}
		if got != want {
			return fmt.Errorf("it is %v, not %v", got, want)
		}
		return nil
	})
}

// balanced fails the test unless all figures agree.
func (b *bench) balanced() {
	b.t.Helper()
	require.Zero(b.t, one[int](b, `
		SELECT count(*) FROM llm.run_spend s
		LEFT JOIN (SELECT run_id, sum(cost) AS cost, sum(reserved) AS reserved FROM llm.llm_try GROUP BY run_id) t USING (run_id)
		LEFT JOIN (SELECT run_id, sum(cost) AS cost FROM llm.llm_call_log GROUP BY run_id) c USING (run_id)
		WHERE s.spent <> coalesce(t.cost, 0) OR s.spent <> coalesce(c.cost, 0) OR s.reserved <> coalesce(t.reserved, 0)`))
}

func usd(t *testing.T, amount string) int64 {
	t.Helper()
	p, err := money.Parse(amount)
	require.NoError(t, err)
	return int64(p)
}

// orchestrator is a stand-in for the orchestrator: it remembers what runs have spent.
type orchestrator struct {
	systemv1.UnimplementedOrchestratorServiceServer

	mu    sync.Mutex
	down  bool                          // guarded by mu
	spent map[uuid.UUID]*systemv1.Spend // guarded by mu
	woken map[uuid.UUID]int             // guarded by mu; how often each run's steps were told
}

func (o *orchestrator) WakeSteps(_ context.Context, req *systemv1.WakeStepsRequest) (*systemv1.WakeStepsResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down {
		return nil, errors.New("down")
	}
	for _, step := range req.GetSteps() {
		o.woken[uuid.UUID(step.GetRunId())]++
	}
	return &systemv1.WakeStepsResponse{}, nil
}

func (o *orchestrator) RecordSpend(_ context.Context, req *systemv1.RecordSpendRequest) (*systemv1.RecordSpendResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down {
		return nil, errors.New("down")
	}
	for _, r := range req.GetRuns() {
		id := uuid.UUID(r.GetRunId())
		if r.GetSpend().GetVersion() >= o.spent[id].GetVersion() {
			o.spent[id] = r.GetSpend()
		}
	}
	return &systemv1.RecordSpendResponse{}, nil
}

func (o *orchestrator) setDown(down bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = down
}

func (o *orchestrator) spend(run uuid.UUID) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.spent[run].GetSpentPicoUsd()
}

func (o *orchestrator) Register(r grpc.ServiceRegistrar) {
	systemv1.RegisterOrchestratorServiceServer(r, o)
}
func (o *orchestrator) Run(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
func (o *orchestrator) Ready(context.Context) error   { return nil }
func (o *orchestrator) Drain(context.Context)         {}

// syncBuffer is a log that several gateways write.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
