-- Batches.

-- name: InsertBatch :exec
INSERT INTO core.batch (id, tenant, pipeline, pipeline_version, label, class, priority, labels, callback_url, budget_usd, item_budget_usd,
                        deadline_at, created_by, created_at)
VALUES (@id, @tenant, @pipeline, @pipeline_version, @label, @class, @priority, @labels, @callback_url, @budget_usd, @item_budget_usd,
        clock_timestamp() + sqlc.narg(deadline)::interval, @created_by, clock_timestamp());

-- name: ReadBatch :one
SELECT * FROM core.batch WHERE tenant = @tenant AND id = @id;

-- name: LockBatch :one
-- No item is made while it is held: those who make some hold the batch themselves.
SELECT * FROM core.batch WHERE tenant = @tenant AND id = @id FOR UPDATE;

-- name: HoldBatches :many
-- Nobody decides about the batches until the transaction ends.
SELECT (SELECT clock_timestamp())::timestamptz AS now, b.id, b.deadline_at,
       (b.sealed_at IS NOT NULL OR b.cancel_requested_at IS NOT NULL)::boolean AS closed, (b.paused_at IS NOT NULL)::boolean AS paused
FROM core.batch b WHERE b.id = ANY(@ids::uuid[])
ORDER BY b.id FOR KEY SHARE;

-- name: ListBatches :many
SELECT * FROM core.batch WHERE tenant = @tenant AND id < @before ORDER BY id DESC LIMIT @most;

-- name: CountBatches :many
-- Of each batch its runs by state and reason, those of groups that are not folded yet included.
SELECT c.batch_id, c.status, c.reason, sum(c.n)::bigint AS n, sum(c.cost_usd)::numeric AS cost_usd, max(c.example::text)::uuid AS example
FROM (SELECT batch_id, status, reason, n, cost_usd, example FROM core.batch_count WHERE batch_id = ANY(@ids::uuid[])
      UNION ALL
      SELECT batch_id, status, reason, n, cost_usd, example FROM core.batch_delta WHERE batch_id = ANY(@ids::uuid[])) c
GROUP BY c.batch_id, c.status, c.reason;

-- name: CountRejected :many
SELECT batch_id, count(*) AS n FROM core.batch_rejected WHERE batch_id = ANY(@ids::uuid[]) GROUP BY batch_id;

-- name: InsertRejected :exec
INSERT INTO core.batch_rejected (batch_id, index, custom_id, reason, error)
SELECT @batch_id, unnest(@indexes::integer[]), unnest(@custom_ids::text[]), unnest(@reasons::text[]), unnest(@errors::text[])
ON CONFLICT DO NOTHING;

-- name: SealBatch :exec
UPDATE core.batch SET sealed_at = coalesce(sealed_at, clock_timestamp()) WHERE id = @id;

-- name: DecideBatch :exec
UPDATE core.batch
SET version = version + 1, operation = @operation, operation_no = operation_no + 1, operation_at = clock_timestamp(),
    operation_actor = @actor, operation_reason = @reason, only_reason = @only_reason, raised_usd = @raised_usd,
    after_run = '00000000-0000-0000-0000-000000000000', after_at = 'epoch', worked_until = 'epoch',
    paused_at = CASE @operation WHEN 'pause' THEN clock_timestamp() WHEN 'resume' THEN NULL ELSE paused_at END,
    cancel_requested_at = CASE @operation WHEN 'cancel' THEN clock_timestamp() ELSE cancel_requested_at END
WHERE id = @id;

-- name: TakeBatchOperation :many
-- One operation that nobody works on.
UPDATE core.batch b SET worked_until = clock_timestamp() + @lease::interval
FROM (SELECT o.id FROM core.batch o WHERE o.operation <> '' AND o.worked_until <= clock_timestamp()
      ORDER BY o.worked_until LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) t
WHERE b.id = t.id
RETURNING b.*;

-- name: AdvanceBatchOperation :execrows
-- A decision that came meanwhile has begun from the beginning.
UPDATE core.batch
SET after_run = @after_run, after_at = @after_at, worked_until = 'epoch', operation = CASE WHEN @is_done::boolean THEN '' ELSE operation END
WHERE id = @id AND operation_no = @operation_no;

-- name: FindOpenItems :many
SELECT id FROM core.pipeline_run WHERE batch_id = @batch_id AND finished_at IS NULL AND id > @after ORDER BY id LIMIT @most;

-- name: FindFailedItems :many
SELECT id, finished_at::timestamptz AS finished_at FROM core.pipeline_run
WHERE batch_id = @batch_id AND finished_at IS NOT NULL AND finished_at <= @until::timestamptz
  AND (finished_at, id) > (@after_at::timestamptz, @after::uuid)
  AND status = 'failed' AND (@only_reason::text = '' OR reason = @only_reason)
ORDER BY finished_at, id LIMIT @most;

-- name: FindEndedItems :many
SELECT * FROM core.run_view
WHERE batch_id = @batch_id AND finished_at IS NOT NULL AND (finished_at, id) > (@after_at::timestamptz, @after::uuid)
  AND (NOT @errors_only::boolean OR status <> 'done')
ORDER BY finished_at, id LIMIT @most;

-- name: ListRejected :many
SELECT * FROM core.batch_rejected WHERE batch_id = @batch_id AND index > @after ORDER BY index LIMIT @most;

-- name: InsertBatchDeltas :exec
INSERT INTO core.batch_delta (batch_id, status, reason, n, cost_usd, example)
SELECT unnest(@batch_ids::uuid[]), unnest(@statuses::text[]), unnest(@reasons::text[]), unnest(@ns::bigint[]),
       unnest(@costs_usd::numeric[]), unnest(@examples::uuid[]);

-- name: InsertTenantDeltas :exec
INSERT INTO core.tenant_delta (tenant, class, n)
SELECT unnest(@tenants::text[]), unnest(@classes::text[]), unnest(@ns::bigint[]);

-- name: FoldBatchDeltas :many
-- Rows that another replica folds at this moment are its. Returned are the batches concerned.
WITH folded AS (
    DELETE FROM core.batch_delta WHERE id IN (SELECT d.id FROM core.batch_delta d ORDER BY d.id LIMIT @most FOR UPDATE SKIP LOCKED)
    RETURNING batch_id, status, reason, n, cost_usd, example
)
INSERT INTO core.batch_count AS c (batch_id, status, reason, n, cost_usd, example)
SELECT batch_id, status, reason, sum(n), sum(cost_usd), max(example::text)::uuid FROM folded
GROUP BY batch_id, status, reason ORDER BY batch_id, status, reason
ON CONFLICT (batch_id, status, reason) DO UPDATE
SET n = c.n + excluded.n, cost_usd = c.cost_usd + excluded.cost_usd,
    example = CASE WHEN excluded.n > 0 THEN excluded.example ELSE c.example END
RETURNING batch_id;

-- name: FoldTenantDeltas :exec
WITH folded AS (
    DELETE FROM core.tenant_delta WHERE id IN (SELECT d.id FROM core.tenant_delta d ORDER BY d.id LIMIT @most FOR UPDATE SKIP LOCKED)
    RETURNING tenant, class, n
)
INSERT INTO core.tenant_count AS c (tenant, class, n)
SELECT tenant, class, sum(n) FROM folded GROUP BY tenant, class ORDER BY tenant, class
ON CONFLICT (tenant, class) DO UPDATE SET n = c.n + excluded.n;

-- name: CountBacklog :many
SELECT c.tenant, c.class, sum(c.n)::bigint AS n
FROM (SELECT tenant, class, n FROM core.tenant_count UNION ALL SELECT tenant, class, n FROM core.tenant_delta) c
GROUP BY c.tenant, c.class HAVING sum(c.n) > 0;

-- name: EndBatches :many
-- The batches whose last item has ended; those that another transaction holds are left for the next time.
UPDATE core.batch b SET finished_at = clock_timestamp(), callbacks = b.callbacks + 1
FROM (SELECT o.id FROM core.batch o
      WHERE o.finished_at IS NULL AND (o.sealed_at IS NOT NULL OR o.cancel_requested_at IS NOT NULL)
        AND NOT EXISTS (SELECT FROM core.pipeline_run r WHERE r.batch_id = o.id AND r.finished_at IS NULL)
      FOR NO KEY UPDATE SKIP LOCKED) e
WHERE b.id = e.id
RETURNING b.*;

-- name: ReopenBatches :exec
-- Batches of which items were retried after all had ended.
UPDATE core.batch b SET finished_at = NULL
WHERE b.id = ANY(@ids::uuid[]) AND b.finished_at IS NOT NULL
  AND EXISTS (SELECT FROM core.pipeline_run r WHERE r.batch_id = b.id AND r.finished_at IS NULL);

-- name: OweBatchCallback :exec
INSERT INTO core.callback_owed (subject_id, subject, seq, tenant, event, url, snapshot, owed_at)
VALUES (@batch_id, 'batch', @seq, @tenant, 'batch.completed', @url, @snapshot, clock_timestamp())
ON CONFLICT DO NOTHING;

-- name: PaceBatches :exec
-- How many items ended in a minute, over the last looks, of which one in ten seconds counts; older ones count less and less.
UPDATE core.batch b
SET pace_at = clock_timestamp(), pace_ended = u.ended,
    per_minute = CASE WHEN b.pace_at IS NULL THEN NULL ELSE
        coalesce(0.6 * b.per_minute, 0) + CASE WHEN b.per_minute IS NULL THEN 1 ELSE 0.4 END
        * greatest(u.ended - b.pace_ended, 0) * 60 / extract(epoch FROM clock_timestamp() - b.pace_at) END
FROM (SELECT c.batch_id, coalesce(sum(c.n) FILTER (WHERE c.status IN ('done', 'failed', 'cancelled')), 0)::bigint AS ended
      FROM core.batch_count c WHERE c.batch_id = ANY(@ids::uuid[]) GROUP BY c.batch_id) u
WHERE b.id = u.batch_id AND (b.pace_at IS NULL OR b.pace_at < clock_timestamp() - interval '10 seconds');

-- name: ReadClock :one
SELECT clock_timestamp()::timestamptz;

-- name: BatchBudgets :many
SELECT id, budget_usd FROM core.batch WHERE id = ANY(@ids::uuid[]);

-- name: LookAtBatches :one
-- Whether there is something to carry out, and something to fold.
SELECT EXISTS (SELECT FROM core.batch WHERE operation <> '' AND worked_until <= clock_timestamp())::boolean AS work,
       (EXISTS (SELECT FROM core.batch_delta) OR EXISTS (SELECT FROM core.tenant_delta))::boolean AS deltas;
