package inspect

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"pawl.internal/services/internal/checkup"
)

// The times within which any replica carries out what was decided about batches, and folds their counts.
const (
	// foldTime is how long a batch may have ended, or have been opened again, before its row says so: a look a second.
	foldTime = 3 * time.Second
	// pageTime is how long an operation on a batch may stay at one run: a replica that dies with a page leaves it to another
	// when its lease on the batch has ended.
	pageTime = 30 * time.Second
)

// recountMost bounds the runs that are counted again; they are those of the newest batches.
const recountMost = 1_000_000

// batchChecks are about batches, and about the counts that are kept beside runs.
func batchChecks() []*checkup.Check {
	return []*checkup.Check{
		{
			Name:     "batch-count",
			Promise:  "the counts and the cost of a batch, with the differences that are not folded yet, are those of its runs, to the last digit",
			Means:    "clients see wrong counts of a batch",
			Remedy:   "--repair adds the difference; report it if no older version of the program runs beside this one",
			Severity: checkup.Broken, Find: countBatches,
			Repair: "adds the difference between a recount and the counts",
			Mend:   mendCounts(batchDifferences, mendBatches, recountMost),
		},
		{
			Name:     "tenant-count",
			Promise:  "the unfinished runs that are counted of a tenant and class are those that there are",
			Means:    "submits are refused too early or too late",
			Remedy:   "--repair adds the difference; report it if no older version of the program runs beside this one",
			Severity: checkup.Broken, Find: checkup.Query(tenantCounts),
			Repair: "adds the difference between a recount and the counts",
			Mend:   mendCounts(tenantDifferences, mendTenants),
		},
		{
			Name:     "cancelled-batch-live",
			Promise:  "I12: nothing of a batch that was cancelled can be claimed once the cancel was carried out, which goes on from run to run",
			Means:    "steps of a batch that was stopped may still be executed",
			Remedy:   "see whether an orchestrator runs and can write to PostgreSQL; cancel the runs with `pawl runs cancel`, and report them",
			Severity: checkup.Broken, Settles: pageTime, Find: checkup.Query(liveOfCancelledBatches),
		},
		{
			Name:     "batch-ended",
			Promise:  "a batch has ended exactly when all its items are there and have ended",
			Means:    "clients are told of the end too early, or never",
			Remedy:   "see whether an orchestrator runs and can write to PostgreSQL: its log says what fails",
			Severity: checkup.Broken, Settles: foldTime, Find: checkup.Query(wrongEnds),
		},
		{
			Name:     "batch-operation",
			Promise:  "I08: what was decided about a batch is carried out on its runs, page by page, whoever dies",
			Means:    "the batch is not cancelled, paused, resumed or retried",
			Remedy:   "see whether an orchestrator runs and can write to PostgreSQL: its log says what fails",
			Severity: checkup.Broken, Settles: pageTime, Find: checkup.Query(stuckOperations),
		},
		{
			Name:     "batch-of-nobody",
			Promise:  "I04: what is noted of a batch is of one that exists",
			Means:    "items can never be shown or stopped together: a batch is gone",
			Remedy:   "restore core.batch from a backup",
			Severity: checkup.Broken, Find: checkup.Query(ofNoBatch),
		},
	}
}

// batchDifferences compares the counts of the newest batches, up to $1 runs, with a recount. One statement sees one state of
// the database, and counts change in the transactions of their runs: so a difference is one, also while runs go on.
const batchDifferences = `
WITH told AS (
    SELECT c.batch_id, c.status, c.reason, c.n, c.cost_usd FROM core.batch_count c
    UNION ALL
    SELECT d.batch_id, d.status, d.reason, d.n, d.cost_usd FROM core.batch_delta d
), sized AS (
    SELECT b.id, sum(greatest((SELECT sum(t.n) FROM told t WHERE t.batch_id = b.id), 1)) OVER (ORDER BY b.id DESC) AS runs FROM core.batch b
), looked AS (
    SELECT id FROM sized WHERE runs <= $1 OR id = (SELECT max(id::text)::uuid FROM core.batch)
)
SELECT u.batch_id, u.status, u.reason, sum(u.real) AS real, sum(u.told) AS told, sum(u.real_usd) AS real_usd, sum(u.told_usd) AS told_usd,
       max(u.example::text)::uuid AS example
FROM (
    SELECT r.batch_id, r.status, CASE WHEN r.status IN ('failed', 'cancelled', 'needs_review') THEN r.reason ELSE '' END AS reason,
           1 AS real, 0 AS told, r.cost_usd AS real_usd, 0 AS told_usd, r.id AS example
    FROM looked l JOIN core.pipeline_run r ON r.batch_id = l.id
    UNION ALL
    SELECT t.batch_id, t.status, t.reason, 0, t.n, 0, t.cost_usd, NULL FROM told t JOIN looked l ON l.id = t.batch_id
) u
GROUP BY u.batch_id, u.status, u.reason
HAVING sum(u.real) <> sum(u.told) OR sum(u.real_usd) <> sum(u.told_usd)`

const batchCounts = `
SELECT d.batch_id || '/' || d.status || '/' || d.reason, d.example,
       'batch ' || d.batch_id || ' has ' || d.real || ' runs ' || d.status || CASE WHEN d.reason = '' THEN '' ELSE ' (' || d.reason || ')' END ||
       ' for ' || d.real_usd || ' USD, and its counts say ' || d.told || ' for ' || d.told_usd
FROM (` + batchDifferences + `) d`

func countBatches(ctx context.Context, t *checkup.Target) ([]checkup.Finding, error) {
	return checkup.Query(batchCounts, recountMost)(ctx, t)
}

// tenantDifferences compares the counts of unfinished runs with a recount. Those that wait for a person are not counted.
const tenantDifferences = `
SELECT u.tenant, u.class, sum(u.real) AS real, sum(u.told) AS told
FROM (
    SELECT r.tenant, r.class, 1 AS real, 0 AS told FROM core.pipeline_run r WHERE r.status IN ('queued', 'running', 'compensating')
    UNION ALL
    SELECT c.tenant, c.class, 0, c.n FROM core.tenant_count c
    UNION ALL
    SELECT d.tenant, d.class, 0, d.n FROM core.tenant_delta d
) u
GROUP BY u.tenant, u.class
HAVING sum(u.real) <> sum(u.told)`

const tenantCounts = `
SELECT d.tenant || '/' || d.class, NULL::uuid,
       'tenant ' || d.tenant || ' has ' || d.real || ' unfinished runs of class ' || d.class || ', and its count says ' || d.told
FROM (` + tenantDifferences + `) d`

// A run that was opened again after the cancel, by a person, may go on. The key has the place up to which the cancel is carried
// out, so that one that makes progress is not reported.
const liveOfCancelledBatches = `
SELECT l.run_id || '/' || l.step || '/' || l.shard || '/' || b.after_run, l.run_id,
       'step ' || l.step || '[' || l.shard || '] is ' || l.status || ', and batch ' || b.id || ' was cancelled at ' ||
       to_char(b.cancel_requested_at, 'HH24:MI:SS')
FROM core.batch b
JOIN core.pipeline_run r ON r.batch_id = b.id AND r.finished_at IS NULL
JOIN core.step_live l ON l.run_id = r.id
WHERE b.cancel_requested_at IS NOT NULL AND r.spend_epoch = 1 AND r.status <> 'compensating' AND l.status IN ('ready', 'queued')`

const wrongEnds = `
SELECT 'early/' || r.id, r.id, 'is ' || r.status || ', and its batch ' || b.id || ' has ended at ' || to_char(b.finished_at, 'HH24:MI:SS')
FROM core.batch b
JOIN core.pipeline_run r ON r.batch_id = b.id AND r.finished_at IS NULL
WHERE b.finished_at IS NOT NULL
UNION ALL
SELECT 'never/' || b.id, NULL, 'all items of batch ' || b.id || ' have ended, and it has not'
FROM core.batch b
WHERE b.finished_at IS NULL AND (b.sealed_at IS NOT NULL OR b.cancel_requested_at IS NOT NULL)
  AND NOT EXISTS (SELECT FROM core.pipeline_run r WHERE r.batch_id = b.id AND r.finished_at IS NULL)`

const stuckOperations = `
SELECT b.id || '/' || b.operation_no || '/' || b.after_run || '/' || b.after_at, NULL::uuid,
       b.operation || ' of batch ' || b.id || ' was decided at ' || to_char(b.operation_at, 'HH24:MI:SS') || ', and is at run ' || b.after_run
FROM core.batch b WHERE b.operation <> ''`

const ofNoBatch = `
SELECT u.what || '/' || u.batch_id, u.run_id, u.what || ' of batch ' || u.batch_id
FROM (
    SELECT 'a run' AS what, r.batch_id, max(r.id::text)::uuid AS run_id FROM core.pipeline_run r WHERE r.batch_id IS NOT NULL GROUP BY r.batch_id
    UNION ALL
    SELECT DISTINCT 'a refused item', j.batch_id, NULL::uuid FROM core.batch_rejected j
    UNION ALL
    SELECT 'a count', c.batch_id, NULL FROM core.batch_count c GROUP BY c.batch_id
    UNION ALL
    SELECT 'a callback', o.subject_id, NULL FROM core.callback_owed o WHERE o.subject = 'batch'
) u
WHERE NOT EXISTS (SELECT FROM core.batch b WHERE b.id = u.batch_id)`

// mendOne lets one doctor at a time add differences: two would add them twice.
const mendOne = `SELECT pg_advisory_xact_lock(hashtext('pawl doctor: counts'))`

const (
	mendBatches = `INSERT INTO core.batch_delta (batch_id, status, reason, n, cost_usd, example)
SELECT d.batch_id, d.status, d.reason, d.real - d.told, d.real_usd - d.told_usd, coalesce(d.example, '00000000-0000-0000-0000-000000000000') FROM (`
	mendTenants = `INSERT INTO core.tenant_delta (tenant, class, n) SELECT d.tenant, d.class, d.real - d.told FROM (`
)

// mendCounts returns a repair that adds differences between a recount and what is told. Difference and addition are one
// statement, and what others add meanwhile adds up with it, so nothing has to stand still.
func mendCounts(differences, insert string, args ...any) func(context.Context, *checkup.Target, []checkup.Finding) (int, error) {
	return func(ctx context.Context, t *checkup.Target, _ []checkup.Finding) (mended int, err error) {
		err = pgx.BeginFunc(ctx, t.Pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, mendOne); err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, insert+differences+") d", args...)
			mended = int(tag.RowsAffected())
			return err
		})
		return mended, err
	}
}
