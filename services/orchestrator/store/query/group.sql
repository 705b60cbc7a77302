-- What a group of events reads, in this order. Keys are joined rather than listed in the condition: so the server looks a
-- run up in the partition of its day, and in no other.

-- name: LockRuns :exec
SELECT 1 FROM (SELECT unnest(@ids::uuid[]) AS id) k
JOIN core.pipeline_run r ON r.id = k.id
ORDER BY r.id FOR NO KEY UPDATE OF r;

-- name: ReadRuns :many
SELECT (SELECT clock_timestamp())::timestamptz AS now,
       r.id, r.tenant, r.pipeline_digest, r.entity_id, r.labels, r.callback_url, r.not_before, r.created_at,
       r.class, r.priority, r.budget_usd, r.status, r.state, r.current_step, r.steps_done, r.reason, r.error,
       coalesce(r.undo, '')::text AS undo, r.spend_epoch, r.cost_usd, r.cost_version, r.seq, r.payloads, r.bytes, r.version,
       r.deadline_at, r.paused_at, r.cancel_requested_at, r.started_at, r.finished_at, r.concurrency_key, r.batch_id,
       (r.concurrency_key <> '' AND EXISTS (SELECT FROM core.key_holder h WHERE h.run_id = r.id))::boolean AS seated
FROM (SELECT unnest(@ids::uuid[]) AS id) k
JOIN core.pipeline_run r ON r.id = k.id;

-- name: ReadLive :many
SELECT l.run_id, l.step, l.shard, l.generation, l.class, l.status, l.attempt, l.failures, l.losses, l.calls, l.ask_base,
       l.ambiguous_ok, l.unsure, l.claim_no, l.fence, l.last_fence, l.worker, l.reason, l.error,
       l.due_at, l.ready_at, l.queued_at, l.claimed_at
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@steps::text[]) AS step, unnest(@shards::integer[]) AS shard) k
JOIN core.step_live l ON l.run_id = k.run_id AND l.step = k.step AND l.shard = k.shard;

-- name: FindPendingShards :many
SELECT l.run_id, l.step, l.shard
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@steps::text[]) AS step, unnest(@first_shards::integer[]) AS shard,
             unnest(@counts::integer[]) AS n) w
CROSS JOIN LATERAL (
    SELECT p.run_id, p.step, p.shard FROM core.step_live p
    WHERE p.run_id = w.run_id AND p.step = w.step AND p.shard >= w.shard AND p.status = 'pending'
    ORDER BY p.shard LIMIT w.n
) l;

-- name: FindPendingShardsBackwards :many
SELECT l.run_id, l.step, l.shard
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@steps::text[]) AS step, unnest(@last_shards::integer[]) AS shard,
             unnest(@counts::integer[]) AS n) w
CROSS JOIN LATERAL (
    SELECT p.run_id, p.step, p.shard FROM core.step_live p
    WHERE p.run_id = w.run_id AND p.step = w.step AND p.shard BETWEEN 0 AND w.shard AND p.status = 'pending'
    ORDER BY p.shard DESC LIMIT w.n
) l;

-- name: FindReviews :many
SELECT run_id, step, shard FROM core.step_live WHERE run_id = ANY(@run_ids::uuid[]) AND status = 'needs_review';

-- name: FindBegun :many
SELECT l.run_id, l.step, l.shard
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@steps::text[]) AS step) w
JOIN core.step_live l ON l.run_id = w.run_id AND l.step = w.step
WHERE l.status = 'running' OR l.unsure;

-- name: ReadResults :many
SELECT r.run_id, r.step, r.shard, r.generation, r.status, r.reason, r.fence, r.attempt, r.claim_no, r.ask_base
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@steps::text[]) AS step, unnest(@shards::integer[]) AS shard) k
JOIN core.pipeline_step_result r ON r.run_id = k.run_id AND r.step = k.step AND r.shard = k.shard;

-- name: ReadShardResults :many
SELECT r.run_id, r.step, r.shard, r.generation, r.status, r.reason, r.fence, r.attempt, r.claim_no, r.ask_base
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@steps::text[]) AS step) k
JOIN core.pipeline_step_result r ON r.run_id = k.run_id AND r.step = k.step
WHERE r.shard >= 0;
