package doctor

import (
	"context"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/checkup"
	llm "pawl.internal/services/llmgateway/inspect"
	core "pawl.internal/services/orchestrator/inspect"
)

// spendTime is how long the orchestrator's copy of a cost may be old: what a gateway has left untold when it died, another
// looks for every ten seconds, fifteen seconds later.
const spendTime = 26 * time.Second

// acrossChecks hold the orchestrator's schema against the gateway's.
func acrossChecks() []*checkup.Check {
	return []*checkup.Check{
		{
			Name:     "cost-copy",
			Promise:  "I09: the cost that a run shows is what its purse says, to the last digit",
			Means:    "clients see a wrong cost",
			Remedy:   "see whether an LLM gateway and an orchestrator run, and reach each other; --repair has the figures told again",
			Severity: checkup.Broken, Settles: spendTime, Find: checkup.OfRuns(costCopies),
			Repair: "has the gateway tell the orchestrator the purse's figure again",
			Mend:   onRuns(llm.OweSpend),
		},
		{
			Name:     "cost-differs",
			Promise:  "I09: cost and purse of one version are the same amount, and no cost is newer than its purse",
			Means:    "clients see a wrong cost, and no newer figure will put it right",
			Remedy:   "report the runs: it is a fault of the program's, or the two schemas come from different backups",
			Severity: checkup.Broken, Find: checkup.OfRuns(costDiffers),
		},
		{
			Name:     "purse-open",
			Promise:  "I12: the purse of a run that failed or was cancelled is closed, or its closing is owed",
			Means:    "calls of a run that is over may still begin",
			Remedy:   "--repair has it closed",
			Severity: checkup.Broken, Find: checkup.OfRuns(pursesOpen),
			Repair: "owes the gateway the closing again, which the orchestrator tells it",
			Mend:   onRuns(core.OweClosing),
		},
		{
			Name:     "purse-closed",
			Promise:  "I08: the purse of a run that goes on is open, or its opening is owed",
			Means:    "none of the run's model calls can begin",
			Remedy:   "retry the run with `pawl runs retry`, and report it: it is a fault of the program's",
			Severity: checkup.Broken, Find: checkup.OfRuns(pursesClosed),
		},
		{
			Name:     "purse-of-nobody",
			Promise:  "I04: money is spent only for runs that exist",
			Means:    "a run that was paid for is gone: the two schemas may come from different backups",
			Remedy:   "restore both schemas from one backup",
			Severity: checkup.Broken, Find: checkup.Recent(pursesOfNobody),
		},
	}
}

// onRuns carries a repair out for the runs that were found.
func onRuns(mend func(context.Context, *checkup.Target, []uuid.UUID) (int, error)) func(context.Context, *checkup.Target, []checkup.Finding) (int, error) {
	return func(ctx context.Context, t *checkup.Target, found []checkup.Finding) (int, error) {
		ids := make([]uuid.UUID, len(found))
		for i, f := range found {
			ids[i] = f.Run
		}
		return mend(ctx, t, ids)
	}
}

const costCopies = `
SELECT r.id || '/' || r.cost_version, r.id, 'shows ' || r.cost_usd || ' USD (version ' || r.cost_version || '), and has spent ' || s.spent || ' (version ' || s.version || ')'
FROM (SELECT unnest($1::uuid[]) AS id) k
JOIN core.pipeline_run r ON r.id = k.id
JOIN llm.run_spend s ON s.run_id = k.id
WHERE r.cost_version < s.version`

const costDiffers = `
SELECT r.id::text, r.id, 'shows ' || r.cost_usd || ' USD (version ' || r.cost_version || '), and its purse says ' || coalesce(s.spent::text || ' (version ' || s.version || ')', 'nothing: it has none')
FROM (SELECT unnest($1::uuid[]) AS id) k
JOIN core.pipeline_run r ON r.id = k.id
LEFT JOIN llm.run_spend s ON s.run_id = k.id
WHERE r.cost_version > coalesce(s.version, 0) OR r.cost_version = s.version AND r.cost_usd <> s.spent OR s.run_id IS NULL AND r.cost_usd <> 0`

const pursesOpen = `
SELECT r.id::text, r.id, 'is ' || r.status || ', and its purse is open in epoch ' || s.epoch
FROM (SELECT unnest($1::uuid[]) AS id) k
JOIN core.pipeline_run r ON r.id = k.id
JOIN llm.run_spend s ON s.run_id = k.id
WHERE r.status IN ('failed', 'cancelled') AND s.closed_at IS NULL
  AND NOT EXISTS (SELECT FROM core.spend_gate_owed g WHERE g.run_id = k.id)`

// A run whose end is decided is closed already while it awaits its last effects and undoes what it has done.
const pursesClosed = `
SELECT r.id::text, r.id, 'is ' || r.status || ', and its purse is closed since ' || to_char(s.closed_at, 'YYYY-MM-DD HH24:MI:SS')
FROM (SELECT unnest($1::uuid[]) AS id) k
JOIN core.pipeline_run r ON r.id = k.id
JOIN llm.run_spend s ON s.run_id = k.id
WHERE r.status IN ('queued', 'running', 'needs_review') AND s.closed_at IS NOT NULL AND s.epoch >= r.spend_epoch
  AND r.state::text NOT LIKE '%"ending":%'
  AND NOT EXISTS (SELECT FROM core.spend_gate_owed g WHERE g.run_id = k.id)`

const pursesOfNobody = `
SELECT s.run_id::text, s.run_id, 'has spent ' || s.spent || ' USD and does not exist'
FROM (SELECT run_id, spent FROM llm.run_spend WHERE NOT outside ORDER BY run_id DESC LIMIT $1) s
WHERE NOT EXISTS (SELECT FROM core.pipeline_run r WHERE r.id = s.run_id)`
