-- What is owed to the gateway.

-- name: ReadGates :many
SELECT run_id, tenant, epoch, open, budget_usd FROM core.spend_gate_owed ORDER BY owed_at LIMIT @most;

-- name: DeleteGates :exec
DELETE FROM core.spend_gate_owed g
USING (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@epochs::integer[]) AS epoch, unnest(@open::boolean[]) AS open) c
WHERE g.run_id = c.run_id AND g.epoch = c.epoch AND g.open = c.open;

-- name: ReadCallCancels :many
SELECT run_id, step, generation FROM core.call_cancel_owed ORDER BY owed_at LIMIT @most;

-- name: DeleteCallCancel :exec
DELETE FROM core.call_cancel_owed WHERE run_id = @run_id AND step = @step AND generation = @generation;
