package inspect

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"pawl.internal/services/internal/checkup"
)

// The times within which the orchestrator acts by itself.
const (
	// sweepTime is how long a timer or deadline may be due: a look a second, and its group.
	sweepTime = 2 * time.Second
	// relayTime is how long something may be owed to the gateway while that answers: the relay looks every five seconds.
	relayTime = 8 * time.Second
)

// UsualLease stands for the lease of step-runners while none of them tells it; it is the default of the flag.
const UsualLease = 10 * time.Second

// timeChecks are about what is acted on within a time. Nobody is expired by a judge that has just come back, so what leases
// are about may take one more lease.
func timeChecks() []*checkup.Check {
	return []*checkup.Check{
		{
			Name:     "overdue-timer",
			Promise:  "I08: what waits for a time is woken within two seconds of it",
			Means:    "retries, wake-ups and hard timeouts do not happen",
			Remedy:   "see whether an orchestrator runs and can write to PostgreSQL: its log says what fails",
			Severity: checkup.Broken, Settles: sweepTime, Find: checkup.Query(overdueTimers),
		},
		{
			Name:     "overdue-deadline",
			Promise:  "I08: a run past its deadline is ended within two seconds",
			Means:    "runs go on that should have ended",
			Remedy:   "see whether an orchestrator runs and can write to PostgreSQL: its log says what fails",
			Severity: checkup.Broken, Settles: sweepTime, Find: checkup.Query(overdueDeadlines),
		},
		{
			Name:     "lost-step",
			Promise:  "I04: a step whose runner is gone is taken from it within a lease and two seconds",
			Means:    "the step is not executed by anybody, until its hard timeout",
			Remedy:   "see whether an orchestrator runs: leases expire only while it can write to PostgreSQL without a break",
			Severity: checkup.Broken, Settles: UsualLease + sweepTime, Find: lostSteps,
		},
		{
			Name:     "owed-to-gateway",
			Promise:  "I12: the gateway is told at once which purses to close and which calls to abort",
			Means:    "calls of runs that have ended may still begin or go on",
			Remedy:   "see whether an orchestrator and an LLM gateway run, and reach each other",
			Severity: checkup.Broken, Settles: relayTime, Find: checkup.Query(owedLong),
		},
	}
}

const overdueTimers = `
SELECT l.run_id || '/' || l.step || '/' || l.shard || '/' || l.due_at, l.run_id,
       'step ' || l.step || '[' || l.shard || '] is ' || l.status || ', and was due at ' || to_char(l.due_at, 'HH24:MI:SS.MS')
FROM core.step_live l
WHERE l.due_at <= now() - interval '1 second' AND l.status IN ('running', 'backoff', 'waiting')
ORDER BY l.due_at`

// A run whose end is decided awaits its running outside effects, past its deadline too.
const overdueDeadlines = `
SELECT r.id || '/' || r.deadline_at, r.id, 'is ' || r.status || ', and was to end at ' || to_char(r.deadline_at, 'HH24:MI:SS.MS')
FROM core.pipeline_run r
WHERE r.finished_at IS NULL AND r.paused_at IS NULL AND r.deadline_at <= now() - interval '1 second'
  AND r.status IN ('queued', 'running') AND r.state::text NOT LIKE '%"ending":%'
ORDER BY r.deadline_at`

const owedLong = `
SELECT 'gate/' || g.run_id || '/' || g.owed_at, g.run_id, CASE WHEN g.open THEN 'opening' ELSE 'closing' END || ' of the purse is owed since ' || to_char(g.owed_at, 'HH24:MI:SS')
FROM core.spend_gate_owed g
UNION ALL
SELECT 'cancel/' || c.run_id || '/' || c.step || '/' || c.owed_at, c.run_id, 'abort of calls is owed since ' || to_char(c.owed_at, 'HH24:MI:SS')
FROM core.call_cancel_owed c`

const stepsOfGone = `
SELECT l.run_id || '/' || l.step || '/' || l.shard || '/' || l.claim_no, l.run_id,
       'step ' || l.step || '[' || l.shard || '] is RUNNING with runner ' || coalesce(l.worker::text, 'none') ||
       CASE WHEN w.instance IS NULL THEN ', which is not on record' ELSE ', whose lease ended at ' || to_char(w.lease_until, 'HH24:MI:SS') END
FROM core.step_live l
LEFT JOIN core.runner w ON w.instance = l.worker
WHERE l.status = 'running' AND (w.instance IS NULL OR w.lease_until <= now())`

const longestLease = `SELECT max(lease_until - heartbeat_at) FROM core.runner WHERE lease_until > heartbeat_at`

func lostSteps(ctx context.Context, t *checkup.Target) (found []checkup.Finding, err error) {
	err = t.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var lease *time.Duration
		if err := tx.QueryRow(ctx, longestLease).Scan(&lease); err != nil {
			return err
		}
		found, err = checkup.Ask(ctx, tx, stepsOfGone)
		for i := range found {
			if lease != nil && *lease > 0 {
				found[i].Settles = *lease + sweepTime
			}
		}
		return err
	})
	return found, err
}
