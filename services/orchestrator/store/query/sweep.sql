-- What sweeps look for. They lock nothing: what they find becomes events. Where a bound is given, rows before it have had
-- their events already; under an old snapshot their dead versions are not walked again.

-- name: FindDueSteps :many
SELECT l.run_id, l.step, l.shard, l.generation, l.status, l.fence, l.due_at::timestamptz AS due_at
FROM core.step_live l
WHERE l.due_at IS NOT NULL AND l.due_at >= @bound AND l.due_at <= clock_timestamp()
  AND l.status IN ('running', 'backoff', 'waiting')
ORDER BY l.due_at LIMIT @most;

-- name: FindOverdueRuns :many
SELECT r.id, r.deadline_at
FROM core.pipeline_run r
WHERE r.finished_at IS NULL AND r.paused_at IS NULL AND r.deadline_at >= @bound AND r.deadline_at <= clock_timestamp()
  AND r.status <> 'compensating'
ORDER BY r.deadline_at LIMIT @most;

-- name: FindLostSteps :many
SELECT l.run_id, l.step, l.shard, l.generation, l.fence
FROM core.step_live l
WHERE l.status = 'running'
  AND NOT EXISTS (SELECT FROM core.runner r WHERE r.instance = l.worker AND r.lease_until > clock_timestamp())
ORDER BY l.claimed_at LIMIT @most;

-- name: FindUnlistedSteps :many
SELECT l.run_id, l.step, l.shard, l.generation, l.fence
FROM core.step_live l
WHERE l.status = 'running' AND l.worker = @worker AND l.claimed_at < clock_timestamp() - @lease::interval
  AND NOT EXISTS (
    SELECT FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@steps::text[]) AS step,
                        unnest(@shards::integer[]) AS shard) h
    WHERE h.run_id = l.run_id AND h.step = l.step AND h.shard = l.shard);

-- name: FindLateEntries :many
SELECT (SELECT clock_timestamp())::timestamptz AS now, l.run_id, l.step, l.shard, l.generation
FROM core.step_live l
WHERE l.status = 'queued' AND l.class = @class AND l.queued_at < clock_timestamp() - @patience::interval
ORDER BY l.queued_at LIMIT @most;

-- name: ReadRunners :many
SELECT instance, interactive_slots, batch_slots, (lease_until > clock_timestamp())::boolean AS alive FROM core.runner;

-- name: DeleteDeadRunners :exec
DELETE FROM core.runner WHERE lease_until < clock_timestamp() - @kept::interval;

-- name: PutReplica :exec
INSERT INTO core.replica (instance, started_at, seen_at) VALUES (@instance, clock_timestamp(), clock_timestamp())
ON CONFLICT (instance) DO UPDATE SET seen_at = excluded.seen_at;

-- name: DeleteReplicas :exec
DELETE FROM core.replica WHERE instance = @instance OR seen_at < clock_timestamp() - @kept::interval;
