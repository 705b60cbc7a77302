package store_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/internal/retry"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
	"pawl.internal/services/testkit"
)

const tenant = "acme"

func TestMain(m *testing.M) { testkit.Main(m) }

// bench is a store on a database of its own.
type bench struct {
	t        testing.TB
	database *testkit.Database
	store    *store.Store
	codec    *store.Codec
	window   *store.Window
	ids      *ids.Source
	pools    []*pgxpool.Pool

	mu      sync.Mutex
	entries []store.Entry // guarded by mu
	// source, if set, gets the entries instead.
	source chan store.Entry
}

// setup returns a store with an open window.
func setup(t testing.TB) *bench {
	t.Helper()
	return setupOn(t, testkit.Postgres(t, store.Schema()), true)
}

// replica returns another store on the same database.
func (b *bench) replica() *bench {
	b.t.Helper()
	return setupOn(b.t, b.database, true)
}

func setupOn(t testing.TB, database *testkit.Database, open bool) *bench {
	t.Helper()
	b := &bench{t: t, database: database, window: store.NewWindow(), ids: ids.New(clock.System())}
	var err error
	b.codec, err = store.NewCodec()
	require.NoError(t, err)
	deps := store.Deps{
		Pool: b.pool(6), Control: b.pool(2), Clock: clock.System(), IDs: b.ids, Compile: compile, Codec: b.codec,
		Window: b.window, Publish: b.publish, Random: store.NewRandom(1),
	}
	b.store = store.New(deps, store.Config{Lanes: 2, Lease: 10 * time.Second})
	if open {
		for _, class := range machine.AllClasses() {
			mark, _ := b.window.Waiting(class)
			b.window.Drained(class, mark)
			b.window.Adjust(class, 1_000_000)
		}
	}
	b.run()
	return b
}

func (b *bench) pool(conns int32) *pgxpool.Pool {
	pool, err := pg.Open(b.t.Context(), pg.Config{
		URL: config.NewSecret(b.database.URL), MaxConns: conns, StatementTimeout: 20 * time.Second,
		ConnectTimeout: 5 * time.Second, Settings: pg.ByKey(),
	}, "orchestrator-test")
	require.NoError(b.t, err)
	b.pools = append(b.pools, pool)
	return pool
}

// run lets the store commit until the test ends.
func (b *bench) run() {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.store.Run(ctx) }()
	b.t.Cleanup(func() {
		stop()
		<-ended
		for _, pool := range b.pools {
			pool.Close()
		}
	})
}

func (b *bench) publish(n store.Notices) {
	if b.source != nil {
		for _, e := range n.Entries {
			b.source <- e
		}
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries = append(b.entries, n.Entries...)
}

// taken returns the entries published since the last call.
func (b *bench) taken() []store.Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.entries
	b.entries = nil
	return taken
}

// next waits for an entry of the run and returns it.
func (b *bench) next(run uuid.UUID) store.Ref {
	b.t.Helper()
	var found store.Ref
	testkit.Eventually(b.t, 10*time.Second, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		for i, e := range b.entries {
			if e.RunID == run {
				found = e.Ref
				b.entries = append(b.entries[:i], b.entries[i+1:]...)
				return nil
			}
		}
		return errors.New("no entry of the run was published")
	})
	return found
}

// spec is a pipeline as these tests store it.
type spec struct {
	Name  string
	Steps []stepSpec
	// Callbacks are the events to send.
	Callbacks []string
	NoCalls   bool
	Salt      int
	// MaxSteps and MaxRuns bound what happens at once.
	MaxSteps, MaxRuns int
}

type stepSpec struct {
	Name        string
	FanOut      bool
	Concurrency int
	OnError     machine.OnError
	Attempts    int
	ReadsInput  bool
	Reads       []string
	// Effect says that the step changes the world outside.
	Effect bool
}

// compile makes of a spec what the store must know; each step needs the one before it.
func compile(source string) (*store.Pipeline, error) {
	var s spec
	if err := json.Unmarshal([]byte(source), &s); err != nil {
		return nil, err
	}
	plan := &machine.Plan{Total: len(s.Steps), Deadline: time.Hour}
	p := &store.Pipeline{Digest: sha256.Sum256([]byte(source)), Name: s.Name, Version: "v1", Callbacks: s.Callbacks, NoCalls: s.NoCalls, Interactive: plan, Batch: plan, MaxSteps: s.MaxSteps, MaxRuns: s.MaxRuns}
	for i, step := range s.Steps {
		compiled := machine.Step{
			Name: step.Name, FanOut: step.FanOut, Concurrency: step.Concurrency, OnError: step.OnError, MaxLost: 3,
			Effect:      step.Effect,
			Retry:       retry.Policy{MaxAttempts: max(step.Attempts, 1), Initial: time.Millisecond, Factor: 1},
			HardTimeout: time.Minute,
		}
		if compiled.OnError == "" {
			compiled.OnError = machine.FailRun
		}
		if i > 0 {
			compiled.Needs = []int{i - 1}
		}
		plan.Steps = append(plan.Steps, compiled)
		reads := store.Inputs{Run: step.ReadsInput, Steps: step.Reads}
		p.Inputs = append(p.Inputs, store.StepInputs{Whole: reads, Shard: reads})
		p.OutputStep = step.Name
	}
	return p, nil
}

// register stores a pipeline.
func (b *bench) register(s spec) {
	b.t.Helper()
	text, err := json.Marshal(s)
	require.NoError(b.t, err)
	digest := sha256.Sum256(text)
	_, err = b.database.Pool.Exec(b.t.Context(),
		`INSERT INTO core.pipeline (tenant, name, version, digest, source) VALUES ($1, $2, 'v1', $3, $4)`,
		tenant, s.Name, digest[:], string(text))
	require.NoError(b.t, err)
}

// chain registers a pipeline of n steps.
func (b *bench) chain(name string, n int) {
	b.t.Helper()
	s := spec{Name: name}
	for i := range n {
		s.Steps = append(s.Steps, stepSpec{Name: string(rune('a' + i))})
	}
	b.register(s)
}

func (b *bench) document(text string) store.Document {
	b.t.Helper()
	d, err := b.codec.Document([]byte(text))
	require.NoError(b.t, err)
	return d
}

// newRun is a run of the pipeline under a fresh key.
func (b *bench) newRun(pipeline string) *store.NewRun {
	id := b.ids.V7()
	digest := sha256.Sum256(id[:])
	return &store.NewRun{
		ID: id, Tenant: tenant, Key: id.String(), RequestDigest: digest[:], Kind: "run", Pipeline: pipeline,
		Input: b.document(`{"text":"hello"}`), Class: machine.Interactive,
	}
}

func (b *bench) create(pipeline string) uuid.UUID {
	b.t.Helper()
	n := b.newRun(pipeline)
	require.NoError(b.t, b.store.CreateRun(b.t.Context(), n))
	return n.ID
}

// held is a claim as its runner knows it.
type held struct {
	store.Ref
	fence   machine.ID
	worker  machine.ID
	claimNo int
}

func (b *bench) draw() machine.ID { return machine.ID(b.ids.V4()) }

// claim submits a claim under the fence.
func (b *bench) claim(ref store.Ref, fence, worker machine.ID) (*store.Event, error) {
	e := &store.Event{Ref: ref, Claim: true, Make: func(r machine.Ref, _ time.Time) machine.Event {
		return machine.Claimed{Ref: r, Fence: fence, Worker: worker}
	}}
	return e, b.store.Submit(b.t.Context(), e)[0]
}

// grant claims the step, which must be free.
func (b *bench) grant(ref store.Ref) held {
	b.t.Helper()
	h := held{Ref: ref, fence: b.draw(), worker: b.draw()}
	e, err := b.claim(ref, h.fence, h.worker)
	require.NoError(b.t, err)
	require.Equal(b.t, machine.Granted, e.Answer)
	h.claimNo = e.Grant.Row.ClaimNo
	return h
}

func (h held) claim(r machine.Ref) machine.Claim {
	return machine.Claim{Ref: r, Fence: h.fence, ClaimNo: h.claimNo, Worker: h.worker}
}

// succeed is the event that the step has ended with an output.
func (b *bench) succeed(h held, output string) *store.Event {
	return &store.Event{
		Ref:    h.Ref,
		Report: &store.Report{Worker: uuid.UUID(h.worker), Output: b.document(output)},
		Make: func(r machine.Ref, _ time.Time) machine.Event {
			return machine.Succeeded{Attempt: machine.Attempt{Claim: h.claim(r)}}
		},
	}
}

func (b *bench) submit(e *store.Event) machine.Answer {
	b.t.Helper()
	require.NoError(b.t, b.store.Submit(b.t.Context(), e)[0])
	return e.Answer
}

// scan reads one row of the database.
func (b *bench) scan(query string, args []any, into ...any) {
	b.t.Helper()
	require.NoError(b.t, b.database.Pool.QueryRow(b.t.Context(), query, args...).Scan(into...), query)
}

// status returns the state of the run.
func (b *bench) status(run uuid.UUID) (status string) {
	b.t.Helper()
	b.scan(`SELECT status FROM core.pipeline_run WHERE id = $1`, []any{run}, &status)
	return status
}

// stepStatus returns the state of a step or shard, as readers see it.
func (b *bench) stepStatus(ref store.Ref) (status string) {
	b.t.Helper()
	b.scan(`SELECT status FROM core.step_state WHERE run_id = $1 AND step = $2 AND shard = $3`,
		[]any{ref.RunID, ref.Step, ref.Shard}, &status)
	return status
}

func (b *bench) count(query string, args ...any) (n int) {
	b.t.Helper()
	b.scan("SELECT count(*) FROM "+query, args, &n)
	return n
}

func TestRunGoesThroughItsSteps(t *testing.T) {
	b := setup(t)
	b.chain("chain", 3)
	run := b.create("chain")
	require.Equal(t, "queued", b.status(run))
	for i, step := range []string{"a", "b", "c"} {
		ref := b.next(run)
		require.Equal(t, store.Ref{RunID: run, Step: step, Shard: store.Whole, Generation: 1}, ref)
		h := b.grant(ref)
		require.Equal(t, "running", b.status(run))
		require.Equal(t, machine.Applied, b.submit(b.succeed(h, `{"n": 1}`)))
		require.Equal(t, i+1, b.count(`core.pipeline_step_result WHERE run_id = $1 AND status = 'done'`, run))
	}
	require.Equal(t, "done", b.status(run))
	require.Zero(t, b.count(`core.step_live WHERE run_id = $1`, run))
}

func TestPartitionsAreMadeAhead(t *testing.T) {
	b := setup(t)
	today := time.Now()
	require.NoError(t, b.store.MakePartitions(t.Context(), today))
	require.NoError(t, b.store.MakePartitions(t.Context(), today.AddDate(0, 0, 1)), "those of before are there")
	b.chain("chain", 1)
	run := b.create("chain")
	var partition, options string
	b.scan(`SELECT tableoid::regclass::text FROM core.pipeline_run WHERE id = $1`, []any{run}, &partition)
	require.Equal(t, "core.pipeline_run_"+today.UTC().Format("20060102"), partition)
	b.scan(`SELECT array_to_string(reloptions, ',') FROM pg_class WHERE oid = $1::regclass`, []any{partition}, &options)
	require.Contains(t, options, "fillfactor=60")
	b.grant(b.next(run))
	require.Equal(t, "running", b.status(run))
}
