package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// TestI06_PausedWorkerChangesNothing stops processes for longer than their leases, so that others take over what they hold,
// and lets them wake up in the middle of it.
func TestI06_PausedWorkerChangesNothing(t *testing.T) {
	f := start(t, harness.FleetConfig{})
	t.Run("runner", func(t *testing.T) {
		v := endure(t, f.For(t), fault{name: "SIGSTOP of a runner, which wakes when others have its steps, and when they have ended", pace: brisk, strike: staleRunner})
		require.Positive(t, v.startedAgain)
	})
	t.Run("gateway", func(t *testing.T) {
		full(t)
		endure(t, f.For(t), fault{name: "SIGSTOP of a gateway, which wakes when its calls have been given up", pace: brisk, doubts: true, strike: staleGateway})
	})
	// All replicas of them, so that nobody can take over: work stands still, and nobody is taken for dead when it goes on.
	t.Run("orchestrators and intake", func(t *testing.T) {
		full(t)
		v := endure(t, f.For(t), fault{name: "SIGSTOP of all orchestrators, then of intake, for two leases", strike: func(t *testing.T, f *harness.Fleet) {
			pause(t, f, 2*lease, f.Of(serve.Orchestrator)...)
			pause(t, f, 2*lease, f.Of(serve.Intake)...)
		}})
		require.Zero(t, v.startedAgain, "runners were taken for dead because the orchestrators had been away")
	})
}

// staleRunner pauses a runner that waits for answers until others have claimed its steps. The first time it wakes while they
// hold them, the second time after they have ended them.
func staleRunner(t *testing.T, f *harness.Fleet) {
	runner := f.Of(serve.StepRunner)[0]
	for _, ended := range []bool{false, true} {
		held, release := hold(t, f, runner)
		runner.Pause()
		awaitSteps(t, f, held, "others hold", `l.status = 'running' AND l.worker <> h.worker`)
		if ended {
			release()
			awaitSteps(t, f, held, "have ended", `l.run_id IS NULL`)
		}
		runner.Resume()
		harness.Eventually(t, func() error { return runner.Ready(t.Context()) })
		if !ended {
			awaitMetric(t, runner, "pawl_step_runner_stops_total", `reason="fenced"`, 1) // it was told to let go
			release()
		}
	}
}

// staleGateway pauses a gateway with calls in flight until another has judged them, and lets their answers come to it after
// it woke up.
func staleGateway(t *testing.T, f *harness.Fleet) {
	gateway := f.Of(serve.LLMGateway)[0]
	holder := instance(t, f, `SELECT holder FROM llm.replica WHERE description LIKE '%, process ' || $1`, gateway)
	release := f.Provider.Inject(simulated.Fault{Kind: "hold"})
	inFlight := func() (n int, err error) {
		err = f.API.DB.QueryRow(t.Context(), `SELECT count(*) FROM llm.llm_try WHERE holder = $1 AND state = 'in_flight'`, holder).Scan(&n)
		return n, err
	}
	harness.Eventually(t, func() error {
		n, err := inFlight()
		if err == nil && n < fewHeld {
			err = fmt.Errorf("the gateway has %d calls in flight", n)
		}
		return err
	})
	gateway.Pause()
	harness.Eventually(t, func() error {
		n, err := inFlight()
		if err == nil && n > 0 {
			err = fmt.Errorf("%d calls of the paused gateway are not given up", n)
		}
		return err
	})
	gateway.Resume()
	harness.Eventually(t, func() error { return gateway.Ready(t.Context()) })
	release()
}

// fewHeld is the least work that a process must have in its hands for its fault to mean something.
const fewHeld = 5

// heldStep is a step or shard that a runner holds.
type heldStep struct {
	Run, Step string
	Shard     int
	Worker    string
}

// hold makes the provider hold what it is asked from now on, and waits until a runner waits for a few of those answers.
func hold(t *testing.T, f *harness.Fleet, runner *harness.Replica) (held []heldStep, release func()) {
	t.Helper()
	release = f.Provider.Inject(simulated.Fault{Kind: "hold"})
	since := now(t, f)
	worker := instance(t, f, `SELECT instance FROM core.runner WHERE description LIKE '%, process ' || $1`, runner)
	harness.Eventually(t, func() error {
		rows, err := f.API.DB.Query(t.Context(), `
SELECT l.run_id AS run, l.step, l.shard, l.worker FROM core.step_live l JOIN llm.llm_call_log c USING (run_id, step, shard)
WHERE l.worker = $1 AND l.status = 'running' AND c.state = 'in_flight' AND c.created_at > $2`, worker, since)
		if err != nil {
			return err
		}
		held, err = pgx.CollectRows(rows, pgx.RowToStructByName[heldStep])
		if err == nil && len(held) < fewHeld {
			err = fmt.Errorf("the runner holds %d steps", len(held))
		}
		return err
	})
	return held, release
}

// awaitSteps waits until a condition on core.step_live l holds for all steps that were held (h).
func awaitSteps(t *testing.T, f *harness.Fleet, held []heldStep, what, condition string) {
	t.Helper()
	runs, steps, shards, workers := columns(held)
	harness.Eventually(t, func() error {
		var n int
		err := f.API.DB.QueryRow(t.Context(), `
SELECT count(*) FROM unnest($1::uuid[], $2::text[], $3::int[], $4::uuid[]) AS h (run_id, step, shard, worker)
LEFT JOIN core.step_live l USING (run_id, step, shard) WHERE `+condition, runs, steps, shards, workers).Scan(&n)
		if err == nil && n < len(held) {
			err = fmt.Errorf("%d of %d steps %s", n, len(held), what)
		}
		return err
	})
}

func columns(held []heldStep) (runs, steps []string, shards []int, workers []string) {
	for _, h := range held {
		runs, steps, shards, workers = append(runs, h.Run), append(steps, h.Step), append(shards, h.Shard), append(workers, h.Worker)
	}
	return runs, steps, shards, workers
}

// instance finds the id under which a process is known, by its process id.
func instance(t *testing.T, f *harness.Fleet, query string, of *harness.Replica) (id string) {
	t.Helper()
	harness.Eventually(t, func() error { return f.API.DB.QueryRow(t.Context(), query, fmt.Sprint(of.PID())).Scan(&id) })
	return id
}

// pause stops replicas where they stand, for a time, while calls are in flight.
func pause(t *testing.T, f *harness.Fleet, during time.Duration, replicas ...*harness.Replica) {
	t.Helper()
	awaitCalls(t, f)
	for _, r := range replicas {
		r.Pause()
	}
	last(t, during)
	for _, r := range replicas {
		r.Resume()
	}
	for _, r := range replicas {
		harness.Eventually(t, func() error { return r.Ready(t.Context()) })
	}
}

// last lets a fault last for a time, which is part of what it is.
func last(t *testing.T, during time.Duration) {
	t.Helper()
	timer := time.NewTimer(during)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}
