-- name: PutRunners :exec
INSERT INTO core.runner AS r (instance, description, interactive_slots, batch_slots, started_at, heartbeat_at, lease_until)
SELECT unnest(@instances::uuid[]), unnest(@descriptions::text[]), unnest(@interactive_slots::integer[]),
       unnest(@batch_slots::integer[]), now.at, now.at, now.at + @lease::interval
FROM (SELECT clock_timestamp() AS at) now
ON CONFLICT (instance) DO UPDATE
SET description = excluded.description, interactive_slots = excluded.interactive_slots, batch_slots = excluded.batch_slots,
    heartbeat_at = excluded.heartbeat_at, lease_until = excluded.lease_until;

-- name: RunnerIsAlive :one
SELECT EXISTS (SELECT FROM core.runner WHERE instance = @instance AND lease_until > clock_timestamp());

-- name: DeleteRunner :exec
DELETE FROM core.runner WHERE instance = @instance;

-- name: ReadHolds :many
SELECT (SELECT clock_timestamp())::timestamptz AS now,
       l.run_id, l.step, l.shard, l.generation, l.status, l.fence, l.due_at
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@steps::text[]) AS step, unnest(@shards::integer[]) AS shard) k
JOIN core.step_live l ON l.run_id = k.run_id AND l.step = k.step AND l.shard = k.shard;
