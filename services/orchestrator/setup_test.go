package orchestrator_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/boot"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/internal/redisconn"
	"pawl.internal/services/internal/stream"
	"pawl.internal/services/orchestrator"
	"pawl.internal/services/orchestrator/store"
	"pawl.internal/services/testkit"
)

const (
	tenant   = "acme"
	patience = 20 * time.Second
)

// testsAtOnce is how many parallel tests run beside each other: most of the time they wait.
const testsAtOnce = "8"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", testsAtOnce); err != nil {
		panic(err)
	}
	testkit.Main(m)
}

// stores are the database and the Redis keys that the replicas of a test share.
type stores struct {
	database *testkit.Database
	redis    *testkit.Keys
	gateway  *gateway
}

func newStores(tb testing.TB) *stores {
	return &stores{database: testkit.Postgres(tb, store.Schema()), redis: testkit.Redis(tb), gateway: &gateway{}}
}

// replica is an orchestrator as boot runs it, reached by gRPC through its real interceptors.
type replica struct {
	*stores
	t      testing.TB
	client systemv1.OrchestratorServiceClient
	ids    *ids.Source
	stop   func()
}

// option changes the configuration of a replica.
type option func(*orchestrator.Config)

func lease(d time.Duration) option { return func(c *orchestrator.Config) { c.Lease = d } }

// setup returns a replica on stores of its own.
func setup(tb testing.TB, options ...option) *replica {
	tb.Helper()
	return newStores(tb).replica(tb, options...)
}

// replica starts an orchestrator that runs until the test ends, or stop is called.
func (s *stores) replica(tb testing.TB, options ...option) *replica {
	tb.Helper()
	cfg := orchestrator.Config{
		Database: pg.Config{URL: config.NewSecret(s.database.URL), MaxConns: 6, StatementTimeout: patience, ConnectTimeout: patience},
		Redis:    redisconn.Config{URL: config.NewSecret(s.redis.URL), Prefix: s.redis.Prefix},
		// Most tests' runners beat once, and a test may take its time on a busy machine.
		Lease: time.Minute, CommitLanes: 2, ControlConns: 3,
	}
	for _, each := range options {
		each(&cfg)
	}
	process := boot.New(boot.Config{}, clock.System(), ids.New(clock.System()), slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	table := []boot.Entry{
		{Name: "llm-gateway", Build: func(context.Context, *boot.Process) (boot.Service, error) { return s.gateway, nil }},
		{Name: orchestrator.Name, Needs: []string{"llm-gateway"}, Build: func(ctx context.Context, p *boot.Process) (boot.Service, error) {
			return orchestrator.Build(ctx, p, cfg)
		}},
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	ended := make(chan error, 1)
	go func() { ended <- boot.Run(ctx, process, table, []string{"llm-gateway", orchestrator.Name}) }()
	r := &replica{stores: s, t: tb, ids: ids.New(clock.System())}
	r.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(tb, <-ended)
	})
	tb.Cleanup(r.stop)
	r.connect(process)
	return r
}

// connect waits until the service answers.
func (r *replica) connect(process *boot.Process) {
	r.t.Helper()
	testkit.Eventually(r.t, patience, func() error {
		connection, err := process.Dial(orchestrator.Name)
		if err != nil {
			return err
		}
		r.client = systemv1.NewOrchestratorServiceClient(connection)
		_, err = r.client.ListPipelines(r.t.Context(), &systemv1.ListPipelinesRequest{Tenant: tenant, Query: &pawlv1.ListPipelinesRequest{}})
		return err
	})
}

// gateway notes what the orchestrator tells it.
type gateway struct {
	systemv1.UnimplementedGatewayServiceServer

	mu      sync.Mutex
	gates   []*systemv1.SetSpendGateRequest_Gate // guarded by mu
	cancels []*systemv1.CancelCallsRequest       // guarded by mu
	// refused, if set, says which calls fail.
	refused func(method string, run []byte) error // guarded by mu
}

// refuse makes calls fail.
func (g *gateway) refuse(refused func(method string, run []byte) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused = refused
}

func (g *gateway) Register(r grpc.ServiceRegistrar) { systemv1.RegisterGatewayServiceServer(r, g) }

func (g *gateway) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (g *gateway) Ready(context.Context) error { return nil }

func (g *gateway) Drain(context.Context) {}

func (g *gateway) SetSpendGate(_ context.Context, req *systemv1.SetSpendGateRequest) (*systemv1.SetSpendGateResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, gate := range req.GetGates() {
		if g.refused == nil {
			break
		}
		if err := g.refused("SetSpendGate", gate.GetRunId()); err != nil {
			return nil, err
		}
	}
	g.gates = append(g.gates, req.GetGates()...)
	return &systemv1.SetSpendGateResponse{}, nil
}

func (g *gateway) CancelCalls(_ context.Context, req *systemv1.CancelCallsRequest) (*systemv1.CancelCallsResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refused != nil {
		if err := g.refused("CancelCalls", req.GetRunId()); err != nil {
			return nil, err
		}
	}
	g.cancels = append(g.cancels, req)
	return &systemv1.CancelCallsResponse{}, nil
}

// register stores a pipeline.
func (r *replica) register(source string) {
	r.t.Helper()
	_, err := r.client.CreatePipeline(r.t.Context(), &systemv1.CreatePipelineRequest{Tenant: tenant, Source: source, CreatedBy: "test"})
	require.NoError(r.t, err)
}

// chain is a pipeline of transform steps, each of which reads the one before.
const chain = `
name: chain
version: v1
input: {type: object}
steps:
  - {name: first, transform: "${input.text}"}
  - {name: second, transform: "${steps.first.output}"}
  - {name: third, transform: {all: ["${input.text}", "${steps.first.output}"]}}
`

// fan is a pipeline with a fan-out.
const fan = `
name: fan
version: v1
input: {type: object}
steps:
  - {name: parts, for_each: "${input.parts}", concurrency: 2, on_error: continue, transform: "${item}"}
  - {name: whole, transform: "${steps.parts.output}"}
`

// creation is a request for a run under a fresh key.
func (r *replica) creation(pipeline, input string) *systemv1.CreateRunRequest {
	digest := sha256.Sum256([]byte(pipeline + input))
	return &systemv1.CreateRunRequest{
		Tenant: tenant, Idempotency: &systemv1.Idempotency{Key: r.ids.V4().String(), RequestDigest: digest[:]},
		Pipeline: pipeline, Input: []byte(input), Kind: "run",
	}
}

func (r *replica) create(pipeline, input string) uuid.UUID {
	r.t.Helper()
	created, err := r.client.CreateRun(r.t.Context(), r.creation(pipeline, input))
	require.NoError(r.t, err)
	return uuid.MustParse(created.GetRunId())
}

func (r *replica) run(id uuid.UUID) *pawlv1.Run {
	r.t.Helper()
	answer, err := r.client.GetRun(r.t.Context(), &systemv1.GetRunRequest{Tenant: tenant, RunId: id.String()})
	require.NoError(r.t, err)
	return answer.GetRun()
}

// runner is a step-runner of the test's own.
type runner struct {
	*replica
	id    uuid.UUID
	steps *stream.Stream
}

// newRunner returns a runner whose first heartbeat is confirmed.
func (r *replica) newRunner() *runner {
	r.t.Helper()
	n := &runner{replica: r, id: r.ids.V4(), steps: stream.New(r.redis.Client, r.redis.Prefix+":{steps}:interactive", "runners")}
	n.beat()
	return n
}

// beat sends a heartbeat that lists the claims, and returns what must be stopped.
func (n *runner) beat(holds ...*systemv1.Hold) []*systemv1.Stop {
	n.t.Helper()
	answer, err := n.client.Heartbeat(n.t.Context(), &systemv1.HeartbeatRequest{
		RunnerId: n.id[:], Holds: holds, Description: "test",
		Lanes: []*systemv1.LaneSlots{{Class: pawlv1.RunClass_RUN_CLASS_INTERACTIVE, Slots: 100}},
	})
	require.NoError(n.t, err)
	return answer.GetStops()
}

// next waits for the next entry of the stream.
func (n *runner) next() *systemv1.StepRef {
	n.t.Helper()
	var ref *systemv1.StepRef
	testkit.Eventually(n.t, patience, func() error {
		messages, err := n.steps.Read(n.t.Context(), n.id.String(), 1, time.Second)
		if err != nil {
			return err
		}
		if len(messages) == 0 {
			return errors.New("the stream is empty")
		}
		require.NoError(n.t, n.steps.Ack(n.t.Context(), messages[0].ID))
		ref, err = refOf(messages[0].Fields)
		return err
	})
	return ref
}

func refOf(fields stream.Fields) (*systemv1.StepRef, error) {
	run, err := uuid.Parse(fields["run"])
	if err != nil {
		return nil, fmt.Errorf("entry %v: %w", fields, err)
	}
	shard, err := strconv.Atoi(fields["shard"])
	if err != nil {
		return nil, fmt.Errorf("entry %v: %w", fields, err)
	}
	generation, err := strconv.Atoi(fields["generation"])
	if err != nil {
		return nil, fmt.Errorf("entry %v: %w", fields, err)
	}
	return &systemv1.StepRef{RunId: run[:], Step: fields["step"], Shard: int32(shard), Generation: int32(generation)}, nil
}

// work is a claimed step.
type work struct {
	*systemv1.Hold
	*systemv1.Assignment
}

// claim claims the step under a fresh fence.
func (n *runner) claim(ref *systemv1.StepRef) (*work, systemv1.ClaimStatus) {
	n.t.Helper()
	fence := n.ids.V4()
	answer, err := n.client.ClaimSteps(n.t.Context(), &systemv1.ClaimStepsRequest{
		RunnerId: n.id[:], Claims: []*systemv1.Claim{{Step: ref, Fence: fence[:]}},
	})
	require.NoError(n.t, err)
	result := answer.GetResults()[0]
	return &work{
		Hold:       &systemv1.Hold{Step: ref, Fence: fence[:], ClaimNo: result.GetAssignment().GetClaimNo()},
		Assignment: result.GetAssignment(),
	}, result.GetStatus()
}

// take waits for the next step that can be claimed, and claims it. An entry may stand in the stream twice.
func (n *runner) take() *work {
	n.t.Helper()
	for {
		if w, status := n.claim(n.next()); status == systemv1.ClaimStatus_CLAIM_STATUS_GRANTED {
			return w
		}
	}
}

func (w *work) outcome() *systemv1.Outcome {
	return &systemv1.Outcome{Step: w.Hold.GetStep(), Fence: w.GetFence(), ClaimNo: w.Hold.GetClaimNo()}
}

func (w *work) succeeded(output string) *systemv1.Outcome {
	o := w.outcome()
	o.Result = &systemv1.Outcome_Succeeded_{Succeeded: &systemv1.Outcome_Succeeded{Output: []byte(output)}}
	return o
}

func (w *work) failed(class systemv1.Outcome_FailureClass, reason string) *systemv1.Outcome {
	o := w.outcome()
	o.Result = &systemv1.Outcome_Failed_{Failed: &systemv1.Outcome_Failed{Class: class, Reason: reason, Message: "in words"}}
	return o
}

// complete sends an outcome and returns the answer.
func (n *runner) complete(o *systemv1.Outcome) *systemv1.CompleteResult {
	n.t.Helper()
	answer, err := n.client.CompleteSteps(n.t.Context(), &systemv1.CompleteStepsRequest{
		RunnerId: n.id[:], Outcomes: []*systemv1.Outcome{o},
	})
	require.NoError(n.t, err)
	return answer.GetResults()[0]
}

// stored sends an outcome that must be stored.
func (n *runner) stored(o *systemv1.Outcome) {
	n.t.Helper()
	result := n.complete(o)
	require.Equal(n.t, systemv1.CompleteStatus_COMPLETE_STATUS_STORED, result.GetStatus(), result.GetMessage())
}

// pico is an amount of money in a message.
func pico(n int64) *int64 { return proto.Int64(n) }
