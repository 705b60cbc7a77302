-- What is owed to the gateway. A row is confirmed as it was told: one that was owed anew since has another time.

-- name: ReadGates :many
SELECT g.run_id, g.tenant, g.epoch, g.open, g.budget_usd, g.owed_at
FROM core.spend_gate_owed g
WHERE NOT EXISTS (
    SELECT FROM (SELECT unnest(@but_run_ids::uuid[]) AS run_id, unnest(@but_owed_at::timestamptz[]) AS owed_at) b
    WHERE b.run_id = g.run_id AND b.owed_at = g.owed_at)
ORDER BY g.owed_at LIMIT @most;

-- name: DeleteGates :exec
DELETE FROM core.spend_gate_owed g
USING (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@owed_at::timestamptz[]) AS owed_at) c
WHERE g.run_id = c.run_id AND g.owed_at = c.owed_at;

-- name: ReadCallCancels :many
-- A run's calls are not aborted before its gate is confirmed: else a call could begin afterwards.
SELECT c.run_id, c.step, c.generation, c.owed_at
FROM core.call_cancel_owed c
WHERE NOT EXISTS (SELECT FROM core.spend_gate_owed g WHERE g.run_id = c.run_id)
  AND NOT EXISTS (
    SELECT FROM (SELECT unnest(@but_run_ids::uuid[]) AS run_id, unnest(@but_steps::text[]) AS step,
                        unnest(@but_generations::integer[]) AS generation, unnest(@but_owed_at::timestamptz[]) AS owed_at) b
    WHERE b.run_id = c.run_id AND b.step = c.step AND b.generation = c.generation AND b.owed_at = c.owed_at)
ORDER BY c.owed_at LIMIT @most;

-- name: DeleteCallCancels :exec
DELETE FROM core.call_cancel_owed o
USING (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@steps::text[]) AS step, unnest(@generations::integer[]) AS generation,
              unnest(@owed_at::timestamptz[]) AS owed_at) c
WHERE o.run_id = c.run_id AND o.step = c.step AND o.generation = c.generation AND o.owed_at = c.owed_at;
