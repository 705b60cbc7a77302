package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// verdict is what a fault has led to.
type verdict struct {
	promise, fault string
	// accepted runs were answered 202; finished ones are done, or ended as the policy on doubtful calls says.
	accepted, finished int
	// startedAgain are attempts beyond the first: work that was begun again and, where it had been paid for, replayed.
	startedAgain int
	// executedTwice are steps and shards that finished more than once, or were begun again after they had finished.
	executedTwice int
	// unexplained are further attempts for which the journal names no cause.
	unexplained int
	// doubtful are requests of unknown fate, each booked at its worst case. paidTwice are the requests that a provider got
	// beyond one a question, and that no such doubt explains.
	doubtful, paidTwice int
	// recovery is how long after the fault the last run ended that had been accepted before.
	recovery time.Duration
}

// judge waits until the system is quiet again and counts.
func judge(t *testing.T, f *harness.Fleet, before simulated.Report, runs []string, what fault) verdict {
	t.Helper()
	v := verdict{promise: t.Name(), fault: what.name, accepted: len(runs)}
	f.API.For(t).AwaitNone("runs have not ended", `SELECT count(*) FROM core.pipeline_run WHERE id = ANY($1) AND finished_at IS NULL`, runs)
	v.finished = count(t, f, finishedQuery, runs)
	v.startedAgain = count(t, f, `SELECT coalesce(sum(greatest(attempt, 1) - 1), 0) FROM core.pipeline_step_result WHERE run_id = ANY($1)`, runs)
	v.executedTwice = f.API.For(t).ExecutedTwice(runs)
	v.unexplained = count(t, f, unexplainedQuery, runs)
	v.doubtful, v.paidTwice = payments(t, f, before, runs)
	require.Equal(t, len(runs), count(t, f, `SELECT count(*) FROM core.pipeline_run WHERE entity_id = $1`, what.name), "a submit made a second run")
	f.API.For(t).AwaitQuiet(runs)
	f.Provider.AwaitInFlight(0)
	requireCallbacks(t, f, runs)
	requireHealthy(t, f)
	if !what.doubts {
		require.Zero(t, v.doubtful, "requests came into doubt, for which this fault is no reason")
	}
	return v
}

// require fails unless nothing was lost and nothing happened twice.
func (v verdict) require(t *testing.T) {
	t.Helper()
	t.Logf("%+v", v)
	require.Equal(t, v.accepted, v.finished, "accepted runs that did not end as they must")
	require.Zero(t, v.executedTwice, "steps that were executed again after they had finished")
	require.Zero(t, v.unexplained, "attempts that nothing explains")
	require.Zero(t, v.paidTwice, "requests that were sent again without a doubt")
}

const (
	// finishedQuery counts the runs that ended well. A run may also end because a call came into doubt a second time: the
	// policy (on_ambiguous: retry) asks once more, not for ever.
	finishedQuery = `
SELECT count(*) FROM core.pipeline_run r WHERE r.id = ANY($1) AND (
    r.status = 'done' AND r.steps_done = r.steps_total
    OR r.status = 'failed' AND r.reason = 'call_ambiguous' AND EXISTS (
        SELECT FROM llm.llm_try t WHERE t.run_id = r.id AND t.state = 'ambiguous' GROUP BY t.call_key HAVING count(*) > 1))`

	// unexplainedQuery counts the attempts beyond the first and beyond those that the journal has a reason for.
	unexplainedQuery = `
SELECT coalesce(sum(greatest(0, r.attempt - 1 - why.n)), 0)
FROM core.pipeline_step_result r, LATERAL (
    SELECT count(*) AS n FROM core.run_event e WHERE e.run_id = r.run_id AND e.step = r.step AND e.shard = r.shard
       AND e.kind IN ('lease_expired', 'failed_transient', 'ambiguous', 'hard_timeout')) AS why
WHERE r.run_id = ANY($1)`

	callbackQuery = `
SELECT count(*) FROM core.pipeline_run r WHERE r.id = ANY($1) AND 1 <> (
    SELECT count(*) FROM core.callback_owed o WHERE o.subject_id = r.id AND o.event = 'run.' || r.status)`
)

func requireCallbacks(t *testing.T, f *harness.Fleet, runs []string) {
	t.Helper()
	require.Zero(t, count(t, f, callbackQuery, runs), "runs do not owe exactly one callback")
}

// requireHealthy fails unless every replica is ready and `pawl doctor` finds nothing.
func requireHealthy(t *testing.T, f *harness.Fleet) {
	t.Helper()
	f.For(t).AwaitReady()
	f.API.For(t).Doctor()
}

// count is the single number that a query about the runs gives.
func count(t *testing.T, f *harness.Fleet, query string, about any) (n int) {
	t.Helper()
	harness.Eventually(t, func() error { return f.API.DB.QueryRow(t.Context(), query, about).Scan(&n) })
	return n
}
