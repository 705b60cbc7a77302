-- name: PutBudget :exec
INSERT INTO llm.budget (kind, id, amount, set_at) VALUES (@kind, @id, @amount, clock_timestamp())
ON CONFLICT (kind, id) DO UPDATE SET amount = excluded.amount, set_at = excluded.set_at;

-- name: DropBudget :exec
DELETE FROM llm.budget WHERE kind = @kind AND id = @id;

-- name: FindBudget :many
SELECT amount, set_at FROM llm.budget WHERE kind = @kind AND id = @id;

-- name: ListBudgets :many
-- Every tenant's, and those of the batches.
SELECT kind, id, amount FROM llm.budget WHERE kind = 'tenant_month'
UNION ALL
SELECT b.kind, b.id, b.amount FROM (SELECT unnest(@batches::text[]) AS id) k JOIN llm.budget b ON b.kind = 'batch' AND b.id = k.id;

-- name: SumBudgets :many
-- What was spent of each budget in its period, by this clock: the month, or a batch's whole life.
SELECT k.n::integer AS n, (CASE WHEN k.kind = 'batch' THEN '1970-01-01' ELSE m.month END)::date AS period,
       coalesce(s.cost, 0)::numeric AS spent
FROM (SELECT date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC')::date AS month) m
CROSS JOIN (SELECT unnest(@ns::integer[]) AS n, unnest(@kinds::text[]) AS kind, unnest(@ids::text[]) AS id) k
LEFT JOIN LATERAL (
    SELECT sum(p.cost) AS cost FROM llm.spend_sum p
    WHERE p.kind = k.kind AND p.id = k.id AND p.period = CASE WHEN k.kind = 'batch' THEN '1970-01-01' ELSE m.month END
) s ON true;

-- name: SumReserved :many
-- The worst cases of what other gateways and the economy lane have in flight, by tenant and batch.
SELECT s.tenant, s.batch_id, sum(t.reserved)::numeric AS reserved
FROM (SELECT r.holder FROM llm.replica r WHERE r.holder <> @holder UNION ALL SELECT @lane_holder::uuid) h
JOIN llm.llm_try t ON t.holder = h.holder AND t.state = 'in_flight'
JOIN llm.run_spend s ON s.run_id = t.run_id
GROUP BY s.tenant, s.batch_id;
