-- name: FindOwed :many
SELECT o.run_id, s.spent, s.version
FROM llm.spend_owed o
JOIN llm.run_spend s ON s.run_id = o.run_id
WHERE o.since < now() - @age::interval
ORDER BY o.since
LIMIT @most;

-- name: ConfirmSpend :exec
-- Rows are locked in the order in which groups of changes lock them.
WITH confirmed AS (
    SELECT o.run_id
    FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@versions::bigint[]) AS version) u
    JOIN llm.spend_owed o ON o.run_id = u.run_id AND o.version <= u.version
    ORDER BY o.run_id FOR UPDATE OF o
)
DELETE FROM llm.spend_owed o USING confirmed c WHERE o.run_id = c.run_id;
