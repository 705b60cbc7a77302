package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
	"pawl.internal/services/testkit"
)

// chainOf registers a pipeline of two steps with limits.
func (b *bench) chainOf(name string, maxSteps, maxRuns int) {
	b.t.Helper()
	b.register(spec{Name: name, MaxSteps: maxSteps, MaxRuns: maxRuns, Steps: []stepSpec{{Name: "a"}, {Name: "b"}}})
}

// keyed creates a run with a concurrency key.
func (b *bench) keyed(pipeline, key string) uuid.UUID {
	b.t.Helper()
	n := b.newRun(pipeline)
	n.ConcurrencyKey = key
	require.NoError(b.t, b.store.CreateRun(b.t.Context(), n))
	return n.ID
}

// inFlight counts the steps that are dispatched and not finished.
func (b *bench) inFlight() int {
	return b.count(`core.step_live WHERE status IN ('queued', 'running')`)
}

// dispatch is what a dispatcher does: it looks, and asks for all that may go. It returns how many went.
func (b *bench) dispatch(class machine.Class) (went int) {
	b.t.Helper()
	var events []*store.Event
	for _, ref := range b.readyRefs(class) {
		events = append(events, dispatchOf(ref))
	}
	if len(events) == 0 {
		return 0
	}
	for _, err := range b.store.Submit(b.t.Context(), events...) {
		illegal, _ := errors.AsType[*machine.IllegalError](err)
		stale, _ := errors.AsType[*machine.StaleError](err)
		switch {
		case err == nil:
			went++
		case illegal == nil && stale == nil: // those say that another replica was first
			require.ErrorIs(b.t, err, store.ErrCapped)
		}
	}
	return went
}

// dispatchAll dispatches until nothing may go any more: events of one tenant in two groups keep each other off for a moment.
func (b *bench) dispatchAll(class machine.Class) {
	b.t.Helper()
	testkit.Eventually(b.t, 10*time.Second, func() error {
		if b.dispatch(class) > 0 || len(b.readyRefs(class)) > 0 {
			return errors.New("there is more to dispatch")
		}
		return nil
	})
}

func dispatchOf(ref store.Ref) *store.Event {
	return &store.Event{Ref: ref, Dispatch: true, Make: func(r machine.Ref, _ time.Time) machine.Event {
		return machine.Dispatched{Ref: r}
	}}
}

// finish has a runner execute the step that is published of the run.
func (b *bench) finish(run uuid.UUID) { b.submit(b.succeed(b.grant(b.next(run)), `1`)) }

// policy gives the tenant of these tests a policy.
func (b *bench) policy(weight, maxSteps int, version int64) {
	b.t.Helper()
	require.NoError(b.t, b.store.SetTenantPolicy(b.t.Context(), tenant, store.Policy{Weight: weight, MaxSteps: maxSteps}, version))
}

// A step with room under its caps is dispatched in the transaction that makes it READY, as any other.
func TestCapsWithRoomCostNoWait(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.policy(1, 2, 1)
	b.chainOf("capped", 2, 1)
	run := b.keyed("capped", "k")
	require.Equal(t, 1, b.inFlight())
	b.finish(run)
	require.Equal(t, "queued", b.stepStatus(store.Ref{RunID: run, Step: "b", Shard: store.Whole}))
	b.finish(run)
	require.Equal(t, "done", b.status(run))
	require.Zero(t, b.count("core.key_holder"))
}

// No more of a tenant's steps, or of a pipeline's, are dispatched than its cap allows, and who waits is not overtaken by a
// step that becomes READY when there is room again.
func TestCapsOnSteps(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*bench){
		"of a tenant":   func(b *bench) { b.chainOf("p", 0, 0); b.policy(1, 2, 1) },
		"of a pipeline": func(b *bench) { b.chainOf("p", 2, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			prepare(b)
			runs := []uuid.UUID{b.create("p"), b.create("p"), b.create("p"), b.create("p")}
			require.Equal(t, 2, b.inFlight())
			require.Equal(t, "ready", b.stepStatus(store.Ref{RunID: runs[2], Step: "a", Shard: store.Whole}))
			require.Zero(t, b.dispatch(machine.Interactive))

			h := b.grant(b.next(runs[0]))
			require.Zero(t, b.dispatch(machine.Interactive), "RUNNING counts too")
			b.submit(b.succeed(h, `1`))
			b.finish(runs[1])
			late := b.create("p")
			require.Equal(t, "ready", b.stepStatus(store.Ref{RunID: late, Step: "a", Shard: store.Whole}), "others wait longer")
			b.dispatchAll(machine.Interactive)
			require.Equal(t, 2, b.inFlight())
			for _, run := range runs[:2] {
				require.Equal(t, "queued", b.stepStatus(store.Ref{RunID: run, Step: "b", Shard: store.Whole}), "begun runs go first")
			}
		})
	}
}

// In whatever way a step leaves, its place under the cap is free.
func TestEveryWayOfLeavingFreesTheCap(t *testing.T) {
	t.Parallel()
	event := func(make func(c machine.Claim) machine.Event) func(b *bench, h held) {
		return func(b *bench, h held) {
			b.submit(&store.Event{Ref: h.Ref, Make: func(r machine.Ref, _ time.Time) machine.Event { return make(h.claim(r)) }})
		}
	}
	for name, leave := range map[string]func(b *bench, h held){
		"done": func(b *bench, h held) { b.submit(b.succeed(h, `1`)) },
		"failed": event(func(c machine.Claim) machine.Event {
			return machine.FailedPermanent{Attempt: machine.Attempt{Claim: c}, Reason: "bad_request"}
		}),
		"parked": event(func(c machine.Claim) machine.Event {
			return machine.Parked{Attempt: machine.Attempt{Claim: c}, Until: time.Now().Add(time.Hour)}
		}),
		"released": event(func(c machine.Claim) machine.Event { return machine.Released{Claim: c} }),
		"expired": event(func(c machine.Claim) machine.Event {
			return machine.LeaseExpired{Ref: c.Ref, Fence: c.Fence}
		}),
		"cancelled": func(b *bench, h held) {
			b.submit(&store.Event{Ref: store.OfRun(h.RunID), Make: func(machine.Ref, time.Time) machine.Event {
				return machine.CancelRequested{}
			}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.register(spec{Name: "p", MaxSteps: 1, Steps: []stepSpec{{Name: "a"}}})
			first := b.create("p")
			h := b.grant(b.next(first))
			second := b.create("p")
			b.dispatchAll(machine.Interactive)
			require.Equal(t, 1, b.inFlight())
			leave(b, h)
			b.dispatchAll(machine.Interactive)
			require.Equal(t, 1, b.inFlight())
			if name == "released" || name == "expired" { // it goes first again, since its run has begun
				require.Equal(t, "queued", b.stepStatus(h.Ref))
				return
			}
			require.Equal(t, "queued", b.stepStatus(store.Ref{RunID: second, Step: "a", Shard: store.Whole}))
		})
	}
}

// Of the runs of a key only so many are begun and not finished; the others begin in their order. Other keys, runs without a
// key and other pipelines are not concerned.
func TestConcurrencyKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chainOf("p", 0, 1)
	b.chainOf("q", 0, 1)
	first, second, third := b.keyed("p", "k"), b.keyed("p", "k"), b.keyed("p", "k")
	others := []uuid.UUID{b.keyed("p", "other"), b.keyed("p", ""), b.keyed("p", ""), b.keyed("q", "k")}
	b.dispatchAll(machine.Interactive)
	for _, run := range append(others, first) {
		require.Equal(t, "queued", b.stepStatus(store.Ref{RunID: run, Step: "a", Shard: store.Whole}))
	}
	begun := func(run uuid.UUID) bool { return b.count(`core.key_holder WHERE run_id = $1`, run) == 1 }
	require.True(t, begun(first))
	b.finish(first)
	b.dispatchAll(machine.Interactive)
	require.False(t, begun(second), "the first is not finished between its steps")
	b.finish(first)
	b.dispatchAll(machine.Interactive)
	require.True(t, begun(second))
	require.False(t, begun(third))

	cancel := func(run uuid.UUID) {
		b.submit(&store.Event{Ref: store.OfRun(run), Make: func(machine.Ref, time.Time) machine.Event { return machine.CancelRequested{} }})
	}
	cancel(second)
	b.dispatchAll(machine.Interactive)
	require.True(t, begun(third), "a run that is cancelled before its first claim frees the key too")
	b.finish(third)
	b.finish(third)
	require.Equal(t, "done", b.status(third))
}

// Who restarts knows of runs that hold keys: they are in the database. A run that an older program has ended holds none.
func TestKeysAreHeldOverARestart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chainOf("p", 0, 1)
	first, second := b.keyed("p", "k"), b.keyed("p", "k")
	again := b.replica()
	again.dispatchAll(machine.Interactive)
	require.Equal(t, "ready", b.stepStatus(store.Ref{RunID: second, Step: "a", Shard: store.Whole}))
	b.exec(`UPDATE core.pipeline_run SET status = 'done', finished_at = now() WHERE id = $1`, first)
	again.dispatchAll(machine.Interactive)
	require.Equal(t, "queued", b.stepStatus(store.Ref{RunID: second, Step: "a", Shard: store.Whole}))
	require.NoError(t, b.store.Tidy(t.Context()))
	require.Equal(t, 1, b.count("core.key_holder"))
}

// Replicas that dispatch beside each other, and create runs meanwhile, never exceed a cap.
func TestCapsHoldOverReplicas(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chainOf("p", 3, 1)
	b.chainOf("q", 0, 0)
	b.policy(1, 5, 1)
	replicas := []*bench{b, b.replica()}
	for _, r := range replicas {
		require.NoError(t, r.store.LoadPolicies(t.Context()))
	}
	exceeded := func() string {
		return b.text(`SELECT coalesce(string_agg(f.what, ', '), '') FROM (
			SELECT 'tenant' AS what FROM core.step_live WHERE status IN ('queued', 'running') HAVING count(*) > 5
			UNION ALL
			SELECT 'pipeline' FROM core.step_live l JOIN core.pipeline_run r ON r.id = l.run_id
			WHERE l.status IN ('queued', 'running') AND r.pipeline = 'p' HAVING count(*) > 3
			UNION ALL
			SELECT 'key ' || r.concurrency_key FROM core.pipeline_run r
			WHERE r.concurrency_key <> '' AND r.finished_at IS NULL
			  AND (r.started_at IS NOT NULL OR EXISTS (SELECT FROM core.step_live l WHERE l.run_id = r.id AND l.status = 'queued'))
			GROUP BY r.concurrency_key HAVING count(*) > 1) f`)
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	var all sync.WaitGroup
	for i, r := range replicas {
		all.Go(func() {
			for n := range 30 {
				name, key := "q", ""
				if n%2 == 0 {
					name, key = "p", fmt.Sprint("key ", n%3)
				}
				run := r.newRun(name)
				run.ConcurrencyKey = key
				if err := r.store.CreateRun(ctx, run); err != nil {
					t.Errorf("replica %d: %v", i, err)
				}
			}
		})
		all.Go(func() { r.serve(ctx, t, exceeded) })
	}
	all.Wait()
	require.Equal(t, 60, b.count(`core.pipeline_run WHERE status = 'done'`))
	require.Zero(t, b.count("core.step_live"))
	require.Zero(t, b.count("core.key_holder"))
}

// serve dispatches, and executes what is dispatched, until all sixty runs of a test are done.
func (b *bench) serve(ctx context.Context, t *testing.T, exceeded func() string) {
	for ctx.Err() == nil && b.count(`core.pipeline_run WHERE status = 'done'`) < 60 {
		b.dispatch(machine.Interactive)
		if what := exceeded(); what != "" {
			t.Errorf("too many at once of %s", what)
			return
		}
		for _, entry := range b.taken() {
			fence, worker := b.draw(), b.draw()
			if e, err := b.claim(entry.Ref, fence, worker); err == nil && e.Answer == machine.Granted {
				b.submit(b.succeed(held{Ref: entry.Ref, fence: fence, worker: worker, claimNo: e.Grant.Row.ClaimNo}, `1`))
			}
		}
	}
}

// text reads one text.
func (b *bench) text(query string, args ...any) (text string) {
	b.t.Helper()
	b.scan(query, args, &text)
	return text
}

// Policies of tenants: an older version changes nothing, and what is dispatched already counts against a new cap.
func TestTenantPolicies(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chainOf("p", 0, 0)
	b.create("p")
	require.Zero(t, b.count("core.step_live WHERE counted"))
	b.policy(5, 1, 3)
	require.Equal(t, 1, b.count("core.step_live WHERE counted"))
	run := b.create("p")
	require.Equal(t, "ready", b.stepStatus(store.Ref{RunID: run, Step: "a", Shard: store.Whole}))
	b.policy(7, 0, 2)
	require.Equal(t, 1, b.count("core.tenant_policy WHERE weight = 5 AND max_concurrent_steps = 1 AND version = 3"))
	b.policy(7, 0, 4)
	require.Equal(t, 1, b.count("core.tenant_policy WHERE weight = 7 AND max_concurrent_steps IS NULL"))
	b.dispatchAll(machine.Interactive)
	require.Equal(t, 2, b.inFlight())
	require.Equal(t, 7, b.weight())
	require.Error(t, b.store.SetTenantPolicy(t.Context(), "x", store.Policy{Weight: store.MaxWeight + 1}, 1), "the schema says so too")
}

// weight is what the look finds of the tenant of these tests.
func (b *bench) weight() int {
	b.waiting("w", tenant, 0, false, 0)
	return b.look(machine.Batch, "", 10).Tenants[0].Weight
}

// Paused steps wait in no line, and take no share.
func TestPausedStepsInLines(t *testing.T) {
	t.Parallel()
	b := closed(t)
	b.chainOf("p", 5, 1)
	run := b.keyed("p", "k")
	decide := func(ev machine.Event) {
		b.submit(&store.Event{Ref: store.OfRun(run), Make: func(machine.Ref, time.Time) machine.Event { return ev }})
	}
	require.Len(t, b.readyRefs(machine.Interactive), 1)
	decide(machine.Paused{})
	require.Empty(t, b.readyRefs(machine.Interactive))
	decide(machine.Resumed{})
	require.Len(t, b.readyRefs(machine.Interactive), 1)
	b.dispatchAll(machine.Interactive)
	require.Equal(t, 1, b.inFlight())
}

// What caps hold back is in nobody's way: with a hundred thousand of a tenant's steps behind used-up caps, the others are found
// at once, and a look touches few pages.
func TestLongLinesCostNoMore(t *testing.T) {
	t.Parallel()
	b := closed(t)
	require.NoError(t, b.store.SetTenantPolicy(t.Context(), "full", store.Policy{Weight: 1, MaxSteps: 1}, 1))
	b.exec(`INSERT INTO core.step_live (run_id, step, generation, tenant, class, status, counted, queued_at)
		VALUES (gen_random_uuid(), 'a', 1, 'full', 'batch', 'queued', true, now())`)
	b.exec(`INSERT INTO core.step_live (run_id, step, generation, tenant, class, status, counted, line, queued_at)
		VALUES (gen_random_uuid(), 'a', 1, 'large', 'batch', 'queued', true, 'p', now())`)
	b.exec(`INSERT INTO core.step_live (run_id, step, generation, tenant, class, status, ready_at, held, line, line_key, max_steps, max_runs)
		SELECT gen_random_uuid(), 'a', 1, CASE i % 2 WHEN 0 THEN 'full' ELSE 'large' END, 'batch', 'ready',
		       now() - i * interval '1 ms', i % 2 = 1, CASE i % 2 WHEN 1 THEN 'p' ELSE '' END,
		       CASE WHEN i % 100 = 1 THEN 'k' ELSE '' END, i % 2, i % 2
		FROM generate_series(1, 100000) i`)
	b.waiting("free", "large", 0, false, 0)
	b.waiting("other", "other", 0, false, 0)
	b.exec(`VACUUM (ANALYZE) core.step_live`)
	names, _ := b.ready("", 50)
	require.Equal(t, []string{"free", "other"}, names)
	require.True(t, b.look(machine.Batch, "", 50).Capped)
	require.Less(t, b.cost("FindWaitingTenants", "''", "'batch'", "50", "ARRAY['full']"), 100)
	require.Less(t, b.cost("FindLined", "ARRAY['large']", "ARRAY[0]", "ARRAY[50]", "ARRAY['']", "ARRAY[E'\\x7f']", "'batch'", "256"), 200)
	require.Less(t, b.cost("CountFlight", "'{}'"), 20)
}

// Where more keys wait than a look tries, all have their turn.
func TestManyKeysTakeTurns(t *testing.T) {
	t.Parallel()
	b := closed(t)
	b.exec(`INSERT INTO core.step_live (run_id, step, generation, tenant, class, status, ready_at, held, line, line_key, max_runs)
		SELECT gen_random_uuid(), 'key ' || i, 1, 'large', 'batch', 'ready', now(), true, 'p', 'key ' || i, 1
		FROM generate_series(1, 1000) i`)
	seen := map[string]bool{}
	var lines store.Lines
	for range 4 {
		look, err := b.store.Ready(t.Context(), machine.Batch, "", 2000, &lines)
		require.NoError(t, err)
		for _, step := range look.Tenants[0].Steps {
			seen[step.Step] = true
		}
	}
	require.Len(t, seen, 1000)
}

// A lock that another transaction holds keeps no group waiting: its steps stay READY, and the dispatcher is told.
func TestABusyCapKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chainOf("p", 5, 0)
	tx := b.begin()
	_, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(hashtextextended('core.caps ' || $1, 0))`, tenant)
	require.NoError(t, pg.Fault(err))
	run := b.create("p")
	require.Equal(t, "ready", b.stepStatus(store.Ref{RunID: run, Step: "a", Shard: store.Whole}))
	require.True(t, b.window.Lined(machine.Interactive))
	require.ErrorIs(t, b.store.Submit(t.Context(), dispatchOf(b.readyRefs(machine.Interactive)[0]))[0], store.ErrCapped)
	require.NoError(t, tx.Rollback(t.Context()))
	b.dispatchAll(machine.Interactive)
	require.Equal(t, 1, b.inFlight())
}
