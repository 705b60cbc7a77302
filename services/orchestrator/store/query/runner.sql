-- name: PutRunners :exec
INSERT INTO core.runner AS r (
    instance, description, interactive_slots, batch_slots, permit_waits, started_at, heartbeat_at, lease_until)
SELECT unnest(@instances::uuid[]), unnest(@descriptions::text[]), unnest(@interactive_slots::integer[]),
       unnest(@batch_slots::integer[]), unnest(@permit_waits::json[]), now.at, now.at, now.at + @lease::interval
FROM (SELECT clock_timestamp() AS at) now
ON CONFLICT (instance) DO UPDATE
SET description = excluded.description, interactive_slots = excluded.interactive_slots, batch_slots = excluded.batch_slots,
    permit_waits = excluded.permit_waits, heartbeat_at = excluded.heartbeat_at, lease_until = excluded.lease_until;

-- name: RunnerIsAlive :one
SELECT EXISTS (SELECT FROM core.runner WHERE instance = @instance AND lease_until > clock_timestamp());

-- name: EndLease :exec
UPDATE core.runner SET lease_until = clock_timestamp() WHERE instance = @instance;

-- name: ReadHolds :many
SELECT (SELECT clock_timestamp())::timestamptz AS now,
       l.run_id, l.step, l.shard, l.generation, l.status, l.fence, l.due_at
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@steps::text[]) AS step, unnest(@shards::integer[]) AS shard) k
JOIN core.step_live l ON l.run_id = k.run_id AND l.step = k.step AND l.shard = k.shard;

-- name: FindUnlistedSteps :many
-- Steps that are RUNNING with a runner for longer than an age and that it does not list. The first row tells the time.
SELECT '00000000-0000-0000-0000-000000000000'::uuid AS run_id, ''::text AS step, -1::integer AS shard, 0::integer AS generation,
       '00000000-0000-0000-0000-000000000000'::uuid AS fence, now()::timestamptz AS at
UNION ALL
SELECT l.run_id, l.step, l.shard, l.generation, coalesce(l.fence, '00000000-0000-0000-0000-000000000000'), l.claimed_at
FROM core.step_live l
WHERE l.status = 'running' AND l.worker = @worker::uuid AND l.claimed_at >= @claimed_from::timestamptz
  AND l.claimed_at < now() - @age::interval
  AND NOT EXISTS (
    SELECT FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@steps::text[]) AS step,
                        unnest(@shards::integer[]) AS shard) h
    WHERE h.run_id = l.run_id AND h.step = l.step AND h.shard = l.shard);
