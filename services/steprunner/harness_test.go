package steprunner_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/apijson"
	"pawl.internal/services/internal/boot"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/internal/pipeline"
	"pawl.internal/services/internal/redisconn"
	"pawl.internal/services/internal/stream"
	"pawl.internal/services/internal/telemetry"
	"pawl.internal/services/steprunner"
	"pawl.internal/services/steprunner/step"
	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// patience bounds every wait of a test.
const patience = 10 * time.Second

// world is a runner between an orchestrator and a gateway of the test's own, on real Redis and over real gRPC.
type world struct {
	t            testing.TB
	orchestrator *orchestrator
	gateway      *gateway
	keys         *testkit.Keys
	clock        clock.Clock
	config       steprunner.Config
	log          *slog.Logger
	service      *steprunner.Service
	compiler     *pipeline.Compiler
	kinds        map[pipeline.Kind]step.Kind // instead of the usual ones
	stop         func()                      // ends the runner as SIGTERM does, and waits
}

// option changes a world before it starts.
type option func(*world)

func onClock(c clock.Clock) option { return func(w *world) { w.clock = c } }

func onRedis(k *testkit.Keys) option { return func(w *world) { w.keys = k } }

func with(change func(*steprunner.Config)) option { return func(w *world) { change(&w.config) } }

func using(kind pipeline.Kind, does step.Kind) option {
	return func(w *world) { w.kinds = map[pipeline.Kind]step.Kind{kind: does} }
}

func lasting(lease time.Duration) option { return func(w *world) { w.orchestrator.lease = lease } }

// start runs a runner until the test ends.
func start(tb testing.TB, options ...option) *world {
	tb.Helper()
	compiler, err := pipeline.NewCompiler()
	require.NoError(tb, err)
	w := &world{
		t: tb, orchestrator: newOrchestrator(), gateway: &gateway{answer: says("fine")}, clock: clock.System(),
		compiler: compiler, log: slog.New(slog.DiscardHandler),
		config: steprunner.Config{
			InteractiveSlots: 8, BatchSlots: 8, PipelineCache: 16, RPCTimeout: 5 * time.Second, Grace: 100 * time.Millisecond,
		},
	}
	for _, apply := range options {
		apply(w)
	}
	if w.keys == nil {
		w.keys = testkit.Redis(tb)
	}
	w.config.Redis = redisconn.Config{URL: config.NewSecret(w.keys.URL), Prefix: w.keys.Prefix}
	w.run()
	return w
}

// run starts the process and waits until the runner is built.
func (w *world) run() {
	built := make(chan *steprunner.Service, 1)
	table := []boot.Entry{
		{Name: "orchestrator", Build: func(context.Context, *boot.Process) (boot.Service, error) { return w.orchestrator, nil }},
		{Name: "llm-gateway", Build: func(context.Context, *boot.Process) (boot.Service, error) { return w.gateway, nil }},
		{Name: "step-runner", Grace: patience, Build: func(ctx context.Context, p *boot.Process) (boot.Service, error) {
			service, err := steprunner.Build(ctx, p, w.config)
			if err == nil {
				for kind, does := range w.kinds {
					steprunner.Use(service, kind, does)
				}
				built <- service
			}
			return service, err
		}},
	}
	process := boot.New(boot.Config{}, w.clock, ids.New(w.clock), w.log, telemetry.NewRegistry())
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- boot.Run(ctx, process, table, []string{"orchestrator", "llm-gateway", "step-runner"}) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(w.t, <-ended)
	})
	w.t.Cleanup(w.stop)
	select {
	case w.service = <-built:
	case err := <-ended:
		w.t.Fatalf("the runner did not start: %v", err)
	}
}

// eventually waits for something to become so.
func (w *world) eventually(try func() error) {
	w.t.Helper()
	testkit.Eventually(w.t, patience, try)
}

// pipeline stores a pipeline of the steps and returns its digest.
func (w *world) pipeline(steps string) []byte {
	w.t.Helper()
	source := "name: tested\nversion: v1\nsteps:\n" + steps
	compiled, err := w.compiler.Compile("", []byte(source))
	require.NoError(w.t, err)
	w.orchestrator.set(func(o *orchestrator) { o.pipelines[string(compiled.Digest[:])] = source })
	return compiled.Digest[:]
}

// given is a step that waits to be executed.
type given struct {
	digest     []byte
	step       string
	shard      int32
	class      pawlv1.RunClass
	input      string
	item       string
	outputs    map[string][]byte
	assignment func(*systemv1.Assignment)
}

// add makes a step known to the orchestrator.
func (w *world) add(g given) *systemv1.StepRef {
	run := uuid.New()
	if g.step == "" {
		g.step = "it"
	}
	if g.class == 0 {
		g.class = pawlv1.RunClass_RUN_CLASS_INTERACTIVE
	}
	a := &systemv1.Assignment{
		Tenant: "acme", Class: g.class, PipelineDigest: g.digest, ClaimNo: 1, Attempt: 1, CallsLeft: 8,
		DeadlineIn: durationpb.New(time.Hour), Outputs: g.outputs,
	}
	if g.input != "" {
		a.Input = []byte(g.input)
	}
	if g.item != "" {
		a.Item = []byte(g.item)
	}
	if g.assignment != nil {
		g.assignment(a)
	}
	ref := &systemv1.StepRef{RunId: run[:], Step: g.step, Shard: g.shard}
	w.orchestrator.set(func(o *orchestrator) { o.steps[keyOf(ref)] = a })
	return ref
}

// announce puts the step's entry into the stream of its class.
func (w *world) announce(class pawlv1.RunClass, refs ...*systemv1.StepRef) {
	w.t.Helper()
	entries := make([]stream.Fields, len(refs))
	for i, ref := range refs {
		entries[i] = fieldsOf(ref)
	}
	require.NoError(w.t, w.stream(class).Publish(w.t.Context(), entries))
}

func fieldsOf(ref *systemv1.StepRef) stream.Fields {
	return stream.Fields{
		"run": uuid.UUID(ref.GetRunId()).String(), "step": ref.GetStep(),
		"shard": strconv.Itoa(int(ref.GetShard())), "generation": strconv.Itoa(int(ref.GetGeneration())),
	}
}

// submit adds an interactive step of the whole (not a shard) and announces it.
func (w *world) submit(g given) *systemv1.StepRef {
	w.t.Helper()
	if g.shard == 0 && g.item == "" {
		g.shard = -1
	}
	ref := w.add(g)
	w.announce(max(g.class, pawlv1.RunClass_RUN_CLASS_INTERACTIVE), ref)
	return ref
}

func (w *world) stream(class pawlv1.RunClass) *stream.Stream {
	return stream.Steps(w.keys.Client, w.keys.Prefix, apijson.WordOf(class))
}

// outcome waits until the step's outcome is stored.
func (w *world) outcome(ref *systemv1.StepRef) *systemv1.Outcome {
	w.t.Helper()
	var outcome *systemv1.Outcome
	w.eventually(func() error {
		outcome = see(w.orchestrator, func(o *orchestrator) *systemv1.Outcome { return o.outcomes[keyOf(ref)] })
		if outcome == nil {
			return errors.New("no outcome is stored")
		}
		return nil
	})
	return outcome
}

// clean waits until the stream of a class has no entry left, delivered or not.
func (w *world) clean(class pawlv1.RunClass) {
	w.t.Helper()
	w.eventually(func() error {
		length, err := w.stream(class).Len(context.WithoutCancel(w.t.Context()))
		if err == nil && length != 0 {
			err = fmt.Errorf("%d entries are left", length)
		}
		return err
	})
}

// pending counts the entries that are delivered and not acknowledged.
func (w *world) pending(class pawlv1.RunClass) int64 {
	w.t.Helper()
	key := w.keys.Prefix + ":{steps}:interactive"
	if class == pawlv1.RunClass_RUN_CLASS_BATCH {
		key = w.keys.Prefix + ":{steps}:batch"
	}
	summary, err := w.keys.Client.XPending(w.t.Context(), key, "runners").Result()
	if redis.HasErrorPrefix(err, "NOGROUP") {
		return 0
	}
	require.NoError(w.t, err)
	return summary.Count
}

// ready waits until the runner says that it is, or is not, ready.
func (w *world) ready(want bool) {
	w.t.Helper()
	w.eventually(func() error {
		err := w.service.Ready(w.t.Context())
		if !want && err == nil {
			return errors.New("the runner is ready")
		}
		if !want {
			return nil
		}
		return err
	})
}
