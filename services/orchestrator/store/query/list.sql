-- Lists for readers. Every query carries the tenant and pages by key.

-- name: ListRuns :many
SELECT id, kind, pipeline, pipeline_version, pipeline_digest, steps_total, output_step, entity_id, document_id, labels,
       not_before, created_at, class, budget_usd, status, state, current_step, steps_done, reason, error,
       coalesce(undo, '')::text AS undo, spend_epoch, seq, cost_usd, version, deadline_at, paused_at, cancel_requested_at,
       started_at, finished_at, updated_at
FROM core.pipeline_run
WHERE tenant = @tenant
  AND (sqlc.narg(before)::uuid IS NULL OR id < sqlc.narg(before)::uuid)
  AND (@status::text = '' OR status = @status)
  AND (@pipeline::text = '' OR pipeline = @pipeline)
  AND (@pipeline_version::text = '' OR pipeline_version = @pipeline_version)
  AND (@entity_id::text = '' OR entity_id = @entity_id)
  AND (@class::text = '' OR class = @class)
  AND (@reason::text = '' OR reason = @reason)
ORDER BY id DESC LIMIT @most;

-- name: ListSteps :many
SELECT s.step, s.shard, s.generation, s.status, s.attempt, s.output, s.input_tokens, s.output_tokens, s.cost_usd,
       s.reason, s.error, s.worker, s.queued_at, s.started_at, s.finished_at, s.due_at,
       coalesce(p.bytes, 0)::integer AS bytes, p.content
FROM core.step_state s
LEFT JOIN core.payload p ON p.run_id = s.run_id AND p.n = s.output_payload
WHERE s.run_id = @run_id
ORDER BY s.step, s.shard;

-- name: ListEvents :many
SELECT e.seq, e.at, e.actor, e.kind, e.step, e.shard, e.attempt, e.detail
FROM core.run_event e
WHERE e.run_id = @run_id AND e.seq > @after
ORDER BY e.seq LIMIT @most;

-- name: ListLive :many
-- Of each run the rows that say why it does not move, RUNNING ones first, and since when their runners are lost.
SELECT (SELECT clock_timestamp())::timestamptz AS now, l.*
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id) k
CROSS JOIN LATERAL (
    SELECT s.run_id, s.step, s.shard, s.generation, s.class, s.status, s.attempt, s.failures, s.losses, s.claim_no, s.worker,
           s.reason, s.due_at, s.ready_at, s.queued_at, s.claimed_at, r.lease_until
    FROM core.step_live s
    LEFT JOIN core.runner r ON s.status = 'running' AND r.instance = s.worker
    WHERE s.run_id = k.run_id AND s.status NOT IN ('pending', 'expanded')
    ORDER BY s.status = 'running' DESC, s.step, s.shard LIMIT @most
) l;
