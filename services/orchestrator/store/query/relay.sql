-- What is owed to the gateway. A row is confirmed as it was told: one that was owed anew since has another time.

-- name: ReadGates :many
SELECT run_id, tenant, epoch, open, budget_usd, owed_at FROM core.spend_gate_owed ORDER BY owed_at LIMIT @most;

-- name: DeleteGates :exec
DELETE FROM core.spend_gate_owed g
USING (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@owed_at::timestamptz[]) AS owed_at) c
WHERE g.run_id = c.run_id AND g.owed_at = c.owed_at;

-- name: ReadCallCancels :many
-- A run's calls are not aborted before its gate is confirmed: else a call could begin afterwards.
SELECT c.run_id, c.step, c.generation, c.owed_at
FROM core.call_cancel_owed c
WHERE NOT EXISTS (SELECT FROM core.spend_gate_owed g WHERE g.run_id = c.run_id)
ORDER BY c.owed_at LIMIT @most;

-- name: DeleteCallCancels :exec
DELETE FROM core.call_cancel_owed o
USING (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@steps::text[]) AS step, unnest(@generations::integer[]) AS generation,
              unnest(@owed_at::timestamptz[]) AS owed_at) c
WHERE o.run_id = c.run_id AND o.step = c.step AND o.generation = c.generation AND o.owed_at = c.owed_at;
