package chaos

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
)

// TestI04_StepsOfALostRunnerBeginAgainSoon measures how long the steps of a runner stand still when it dies, and when it is
// told to end and does not wait for them.
func TestI04_StepsOfALostRunnerBeginAgainSoon(t *testing.T) {
	f := start(t, harness.FleetConfig{Env: []string{"PAWL_STEP_RUNNER_GRACE=0s"}})
	t.Run("killed", func(t *testing.T) {
		v := endure(t, f.For(t), fault{name: "kill -9 of a runner", pace: brisk, strike: func(t *testing.T, f *harness.Fleet) {
			requireBegunAgain(t, f, "kill -9 of a runner until its steps are begun again", syscall.SIGKILL, lease+2*time.Second)
		}})
		require.Positive(t, v.startedAgain)
	})
	t.Run("terminated", func(t *testing.T) {
		endure(t, f.For(t), fault{name: "SIGTERM of a runner that hands its steps back", pace: brisk, strike: func(t *testing.T, f *harness.Fleet) {
			requireBegunAgain(t, f, "SIGTERM of a runner until its steps are begun again", syscall.SIGTERM, time.Second)
		}})
	})
}

// requireBegunAgain ends a runner that holds steps, and fails unless others have claimed them all within a time, by
// PostgreSQL's clock.
func requireBegunAgain(t *testing.T, f *harness.Fleet, what string, signal syscall.Signal, within time.Duration) {
	t.Helper()
	runner := f.Of(serve.StepRunner)[0]
	held, release := hold(t, f, runner)
	struck := now(t, f)
	restarted(t, []*harness.Replica{runner}, func(r *harness.Replica) { r.Signal(signal) })
	awaitSteps(t, f, held, "are begun again", `l.status = 'running' AND l.worker <> h.worker`)
	if signal == syscall.SIGTERM {
		awaitSteps(t, f, held, "have cost no attempt", `l.attempt = 1`)
	}
	stood := stoodStill(t, f, held, struck)
	release()
	figure := timing{what: what, n: len(stood), median: stood[len(stood)/2], longest: stood[len(stood)-1], bound: within}
	t.Logf("%+v", figure)
	suite.addTiming(figure)
	require.LessOrEqual(t, figure.longest, within)
}

// stoodStill returns how long after a time each of the steps was claimed, in order.
func stoodStill(t *testing.T, f *harness.Fleet, held []heldStep, since time.Time) (stood []time.Duration) {
	t.Helper()
	runs, steps, shards, _ := columns(held)
	rows, err := f.API.DB.Query(t.Context(), `
SELECT l.claimed_at FROM unnest($1::uuid[], $2::text[], $3::int[]) AS h (run_id, step, shard) JOIN core.step_live l USING (run_id, step, shard)`,
		runs, steps, shards)
	require.NoError(t, err)
	claimed, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	require.NoError(t, err)
	require.Len(t, claimed, len(held))
	for _, at := range claimed {
		stood = append(stood, at.Sub(since))
	}
	slices.Sort(stood)
	return stood
}
