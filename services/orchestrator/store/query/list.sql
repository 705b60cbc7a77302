-- Lists for readers. Every query carries the tenant, or a run that is known to be the tenant's, and pages by key.

-- name: ListRuns :many
SELECT * FROM core.run_view
WHERE tenant = @tenant AND id < @before
  AND (@pipeline::text = '' OR pipeline = @pipeline)
  AND (@pipeline_version::text = '' OR pipeline_version = @pipeline_version)
  AND (@class::text = '' OR class = @class)
  AND (@reason::text = '' OR reason = @reason)
ORDER BY id DESC LIMIT @most;

-- name: ListRunsByStatus :many
-- The same for one state, of which there may be few among many.
SELECT * FROM core.run_view
WHERE tenant = @tenant AND status = @status AND id < @before
  AND (@pipeline::text = '' OR pipeline = @pipeline)
  AND (@pipeline_version::text = '' OR pipeline_version = @pipeline_version)
  AND (@class::text = '' OR class = @class)
  AND (@reason::text = '' OR reason = @reason)
ORDER BY id DESC LIMIT @most;

-- name: ListRunsByEntity :many
-- The same for one entity, in one state or in all.
SELECT * FROM core.run_view
WHERE tenant = @tenant AND entity_id = @entity_id AND entity_id <> '' AND id < @before
  AND (@status::text = '' OR status = @status)
  AND (@pipeline::text = '' OR pipeline = @pipeline)
  AND (@pipeline_version::text = '' OR pipeline_version = @pipeline_version)
  AND (@class::text = '' OR class = @class)
  AND (@reason::text = '' OR reason = @reason)
ORDER BY id DESC LIMIT @most;

-- name: ListRunsByBatch :many
-- The same for the items of one batch, in one state or in all.
SELECT * FROM core.run_view
WHERE tenant = @tenant AND batch_id = @batch_id::uuid AND id < @before
  AND (@status::text = '' OR status = @status)
  AND (@class::text = '' OR class = @class)
  AND (@reason::text = '' OR reason = @reason)
ORDER BY id DESC LIMIT @most;

-- name: ListSteps :many
-- The steps in the order given, each followed by its shards, from behind a position. The outputs are given as far as they fit
-- together into so many bytes.
SELECT s.step, s.ordinal::integer AS ordinal, s.shard, s.generation, s.status, s.attempt,
       (CASE WHEN s.fits THEN s.output END)::json AS output, s.input_tokens, s.output_tokens, s.cost_usd,
       s.reason, s.error, s.worker, s.queued_at, s.started_at, s.finished_at, s.due_at,
       coalesce(p.bytes, 0)::integer AS bytes, p.content
FROM (
    SELECT o.*, sum(o.output_bytes) OVER (ORDER BY o.ordinal, o.shard) <= @most_bytes::bigint AS fits
    FROM (
        SELECT v.*, k.ordinal
        FROM (SELECT unnest(@steps::text[]) AS step, unnest(@ordinals::integer[]) AS ordinal) k
        JOIN core.step_state v ON v.run_id = @run_id AND v.step = k.step
        WHERE (k.ordinal, v.shard) > (@after_ordinal::integer, @after_shard::integer)
        ORDER BY k.ordinal, v.shard LIMIT @most
    ) o
) s
LEFT JOIN core.payload p ON p.run_id = s.run_id AND p.n = s.output_payload AND s.fits
ORDER BY s.ordinal, s.shard;

-- name: ListStepNames :many
-- The steps of a run whose pipeline this build cannot read.
SELECT DISTINCT step FROM core.step_state WHERE run_id = @run_id ORDER BY step;

-- name: ListEvents :many
SELECT e.seq, e.at, e.actor, e.kind, e.step, e.shard, e.attempt, e.detail
FROM core.run_event e
WHERE e.run_id = @run_id AND e.seq > @after
ORDER BY e.seq LIMIT @most;

-- name: ListLive :many
-- Of each run the rows that are nearest to moving, which say why it does not, and since when their runners are lost.
SELECT (SELECT clock_timestamp())::timestamptz AS now, l.*
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id) k
CROSS JOIN LATERAL (
    SELECT s.run_id, s.step, s.shard, s.generation, s.class, s.status, s.attempt, s.failures, s.losses, s.claim_no, s.worker,
           s.reason, s.due_at, s.ready_at, s.queued_at, s.claimed_at, r.lease_until
    FROM core.step_live s
    LEFT JOIN core.runner r ON s.status = 'running' AND r.instance = s.worker
    WHERE s.run_id = k.run_id AND s.status NOT IN ('pending', 'expanded')
    ORDER BY array_position(ARRAY['running', 'queued', 'ready', 'backoff', 'waiting', 'needs_review'], s.status),
             r.lease_until DESC, s.due_at, s.step, s.shard
    LIMIT @most
) l;

-- name: ReadPermitWaits :many
-- What runners have told of steps that wait for permits, and when.
SELECT w.heartbeat_at, w.permit_waits
FROM (SELECT unnest(@runners::uuid[]) AS instance) k
JOIN core.runner w ON w.instance = k.instance
WHERE w.permit_waits::text <> '[]';
