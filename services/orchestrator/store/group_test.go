package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"pawl.internal/services/internal/fault"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
	"pawl.internal/services/testkit"
)

// fanned returns the claimed shards of a run whose first step is a fan-out over the items.
func (b *bench) fanned(pipeline string, items ...string) (uuid.UUID, []held) {
	b.t.Helper()
	run := b.create(pipeline)
	require.Equal(b.t, machine.Applied, b.submit(b.expand(b.grant(b.next(run)), items...)))
	shards := make([]held, len(items))
	for range items {
		h := b.grant(b.next(run))
		shards[h.Shard] = h
	}
	return run, shards
}

// expand is the event that the step is a fan-out over the items.
func (b *bench) expand(h held, items ...string) *store.Event {
	documents := make([]store.Document, len(items))
	for i, item := range items {
		documents[i] = b.document(item)
	}
	return &store.Event{
		Ref: h.Ref, Report: &store.Report{Worker: uuid.UUID(h.worker), Items: documents},
		Make: func(r machine.Ref, _ time.Time) machine.Event {
			return machine.Expanded{Attempt: machine.Attempt{Claim: h.claim(r)}, Total: len(items)}
		},
	}
}

// awaitWaiting waits until n sessions of the database wait for a lock.
func (b *bench) awaitWaiting(n int) {
	b.t.Helper()
	testkit.Eventually(b.t, 10*time.Second, func() error {
		waiting := b.count(`pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
		if waiting < n {
			return fmt.Errorf("%d sessions wait for a lock instead of %d", waiting, n)
		}
		return nil
	})
}

// begin opens a transaction of the test's own, which ends with the test at the latest.
func (b *bench) begin() pgx.Tx {
	b.t.Helper()
	tx, err := b.database.Pool.Begin(b.t.Context())
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = tx.Rollback(b.t.Context()) })
	return tx
}

// Two replicas finish the last two shards at once: both wait for the run's lock before either has written. The second must
// see what the first has committed, which a statement that locks and reads at once does not.
func TestLastTwoShardsOnTwoReplicas(t *testing.T) {
	one := setup(t)
	two := one.replica()
	one.register(spec{Name: "fan", Steps: []stepSpec{{Name: "a", FanOut: true, Concurrency: 8}, {Name: "b"}}})
	run, shards := one.fanned("fan", `1`, `2`)

	blocker := one.begin()
	_, err := blocker.Exec(t.Context(), `SELECT 1 FROM core.pipeline_run WHERE id = $1 FOR UPDATE`, run)
	require.NoError(t, err)
	var both sync.WaitGroup
	for i, b := range []*bench{one, two} {
		both.Go(func() {
			answer := b.succeed(shards[i], `"done"`)
			require.NoError(t, b.store.Submit(t.Context(), answer)[0])
		})
	}
	one.awaitWaiting(2)
	require.NoError(t, blocker.Commit(t.Context()))
	both.Wait()

	require.Equal(t, "done", one.stepStatus(store.Ref{RunID: run, Step: "a", Shard: store.Whole}))
	require.Equal(t, "queued", one.stepStatus(store.Ref{RunID: run, Step: "b", Shard: store.Whole}))
}

// createMany creates runs together.
func (b *bench) createMany(pipeline string, n int) []uuid.UUID {
	b.t.Helper()
	runs := make([]uuid.UUID, n)
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() { runs[i] = b.create(pipeline) })
	}
	all.Wait()
	return runs
}

// grantMany claims steps together.
func (b *bench) grantMany(holds []held) {
	b.t.Helper()
	events := make([]*store.Event, len(holds))
	for i := range holds {
		h := &holds[i]
		h.fence, h.worker = b.draw(), b.draw()
		events[i] = &store.Event{Ref: h.Ref, Claim: true, Make: func(r machine.Ref, _ time.Time) machine.Event {
			return machine.Claimed{Ref: r, Fence: h.fence, Worker: h.worker}
		}}
	}
	for i, err := range b.store.Submit(b.t.Context(), events...) {
		require.NoError(b.t, err)
		require.Equal(b.t, machine.Granted, events[i].Answer)
		holds[i].claimNo = events[i].Grant.Row.ClaimNo
	}
}

// Events of one run that come together are applied in their order, also where one makes the rows that the next concerns.
func TestEventsOfOneRunInOneGroup(t *testing.T) {
	b := setup(t)
	b.chain("chain", 2)
	run := b.create("chain")
	first := b.grant(b.next(run))
	// The claim of b and its outcome come before b's row exists.
	second := held{Ref: store.Ref{RunID: run, Step: "b", Shard: store.Whole, Generation: 1}, fence: b.draw(), worker: b.draw(), claimNo: 1}
	blocker := b.begin()
	_, err := blocker.Exec(t.Context(), `SELECT 1 FROM core.pipeline_run WHERE id = $1 FOR UPDATE`, run)
	require.NoError(t, err)
	done := make(chan []error, 1)
	go func() {
		done <- b.store.Submit(t.Context(), b.succeed(first, `1`), b.succeed(second, `2`), b.succeed(second, `2`))
	}()
	b.awaitWaiting(1)
	require.NoError(t, blocker.Commit(t.Context()))
	require.Equal(t, []error{nil, nil, nil}, <-done)
	require.Equal(t, "done", b.status(run))
	require.Equal(t, 2, b.count(`core.run_event WHERE run_id = $1 AND kind = 'succeeded'`, run), "the repeated outcome is not journalled")
}

// The database is killed again and again while runs are created and executed. Everybody repeats what was answered
// UNAVAILABLE; afterwards every run is done, and nothing was stored twice.
func TestKilledDatabaseLosesNothing(t *testing.T) {
	const runs = 60
	server := testkit.PrivatePostgres(t)
	b := setupOn(t, testkit.DatabaseAt(t, server.URL(), store.Schema()), true)
	b.chain("chain", 3)

	ended := make(chan uuid.UUID, runs)
	for range runs {
		go func() { ended <- b.executePatiently("chain") }()
	}
	finished := 0
	for kills := 0; finished < runs; {
		<-ended
		finished++
		if finished%15 == 0 && kills < 3 {
			kills++
			server.Kill()
			require.NoError(t, server.Start(t.Context()))
		}
	}
	testkit.Eventually(t, 10*time.Second, func() error { return b.database.Pool.Ping(t.Context()) })
	require.Equal(t, runs, b.count(`core.pipeline_run`))
	require.Equal(t, runs, b.count(`core.pipeline_run WHERE status = 'done' AND steps_done = 3`))
	require.Equal(t, 3*runs, b.count(`core.pipeline_step_result WHERE status = 'done' AND attempt = 1`))
	require.Equal(t, 3*runs, b.count(`core.run_event WHERE kind = 'succeeded'`))
	require.Zero(t, b.count(`core.step_live`))
}

// executePatiently creates a run and executes its steps, repeating every call until it is answered.
func (b *bench) executePatiently(pipeline string) uuid.UUID {
	n := b.newRun(pipeline)
	b.patiently(func() error {
		again := *n
		return b.store.CreateRun(b.t.Context(), &again)
	})
	for _, step := range []string{"a", "b", "c"} {
		h := held{Ref: store.Ref{RunID: n.ID, Step: step, Shard: store.Whole, Generation: 1}, fence: b.draw(), worker: b.draw()}
		b.patiently(func() error {
			e, err := b.claim(h.Ref, h.fence, h.worker)
			if err == nil && e.Answer != machine.Granted {
				return fmt.Errorf("claim of %s: %s", step, e.Answer)
			}
			if err == nil {
				h.claimNo = e.Grant.Row.ClaimNo
			}
			return err
		})
		b.patiently(func() error { return b.store.Submit(b.t.Context(), b.succeed(h, `1`))[0] })
	}
	return n.ID
}

// patiently repeats a call while the database is away.
func (b *bench) patiently(call func() error) {
	for {
		err := call()
		if err == nil {
			return
		}
		if fault.CodeOf(err) != codes.Unavailable {
			b.t.Errorf("the call was refused, and not answered UNAVAILABLE: %v", err)
			return
		}
	}
}
