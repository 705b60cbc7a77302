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

-- name: FindUnbooked :many
-- Calls, from a run on, with requests that were settled by a gateway that knows no spend_day.
SELECT DISTINCT run_id, call_key FROM (
    SELECT t.run_id, t.call_key FROM llm.llm_try t
    WHERE t.state <> 'in_flight' AND t.booked IS DISTINCT FROM t.cost AND t.run_id >= @first
    ORDER BY t.run_id
    LIMIT @most
) u
ORDER BY run_id;

-- name: FoldDays :execrows
-- Into the rows of holder zero, those of gateways that are gone. Who folds has the lock of FoldLock.
WITH gone AS (
    DELETE FROM llm.spend_day s
    WHERE s.holder <> '00000000-0000-0000-0000-000000000000' AND NOT EXISTS (SELECT FROM llm.replica r WHERE r.holder = s.holder)
    RETURNING *
)
INSERT INTO llm.spend_day AS s (
    day, tenant, origin, provider, model, class, holder, lane, calls, answered, unpriced, input_tokens, cached_input_tokens,
    cache_write_tokens, cache_write_1h_tokens, output_tokens, reasoning_tokens, cost)
SELECT g.day, g.tenant, g.origin, g.provider, g.model, g.class, '00000000-0000-0000-0000-000000000000', 0, sum(g.calls),
       sum(g.answered), sum(g.unpriced), sum(g.input_tokens), sum(g.cached_input_tokens), sum(g.cache_write_tokens),
       sum(g.cache_write_1h_tokens), sum(g.output_tokens), sum(g.reasoning_tokens), sum(g.cost)
FROM gone g
GROUP BY g.day, g.tenant, g.origin, g.provider, g.model, g.class
ON CONFLICT (tenant, day, origin, provider, model, class, holder, lane) DO UPDATE
SET calls = s.calls + excluded.calls, answered = s.answered + excluded.answered, unpriced = s.unpriced + excluded.unpriced,
    input_tokens = s.input_tokens + excluded.input_tokens,
    cached_input_tokens = s.cached_input_tokens + excluded.cached_input_tokens,
    cache_write_tokens = s.cache_write_tokens + excluded.cache_write_tokens,
    cache_write_1h_tokens = s.cache_write_1h_tokens + excluded.cache_write_1h_tokens,
    output_tokens = s.output_tokens + excluded.output_tokens,
    reasoning_tokens = s.reasoning_tokens + excluded.reasoning_tokens, cost = s.cost + excluded.cost;

-- name: FoldSums :execrows
WITH gone AS (
    DELETE FROM llm.spend_sum s
    WHERE s.holder <> '00000000-0000-0000-0000-000000000000' AND NOT EXISTS (SELECT FROM llm.replica r WHERE r.holder = s.holder)
    RETURNING *
)
INSERT INTO llm.spend_sum AS s (kind, id, period, holder, lane, cost)
SELECT g.kind, g.id, g.period, '00000000-0000-0000-0000-000000000000', 0, sum(g.cost) FROM gone g GROUP BY g.kind, g.id, g.period
ON CONFLICT (kind, id, period, holder, lane) DO UPDATE SET cost = s.cost + excluded.cost;

-- name: FoldLock :one
SELECT pg_try_advisory_xact_lock(hashtext('llm.spend_day')) AS locked;

-- name: SumSpend :many
-- By the dimensions that are wanted, the dearest first; the others are empty. An empty tenant is every tenant.
SELECT (CASE WHEN @by_day::boolean THEN to_char(s.day, 'YYYY-MM-DD') ELSE '' END)::text AS day,
       (CASE WHEN @by_tenant::boolean THEN s.tenant ELSE '' END)::text AS tenant,
       (CASE WHEN @by_origin::boolean THEN s.origin ELSE '' END)::text AS origin,
       (CASE WHEN @by_provider::boolean THEN s.provider ELSE '' END)::text AS provider,
       (CASE WHEN @by_model::boolean THEN s.model ELSE '' END)::text AS model,
       (CASE WHEN @by_class::boolean THEN s.class ELSE '' END)::text AS class,
       sum(s.calls)::bigint AS calls, sum(s.answered)::bigint AS answered, sum(s.unpriced)::bigint AS unpriced,
       sum(s.input_tokens)::bigint AS input_tokens, sum(s.cached_input_tokens)::bigint AS cached_input_tokens,
       sum(s.cache_write_tokens)::bigint AS cache_write_tokens, sum(s.cache_write_1h_tokens)::bigint AS cache_write_1h_tokens,
       sum(s.output_tokens)::bigint AS output_tokens, sum(s.reasoning_tokens)::bigint AS reasoning_tokens,
       trim_scale(sum(s.cost))::text AS cost
FROM llm.spend_day s
WHERE s.day >= @from_day::date AND s.day <= @to_day::date AND (@tenant::text = '' OR s.tenant = @tenant)
GROUP BY 1, 2, 3, 4, 5, 6
ORDER BY sum(s.cost) DESC, 1, 2, 3, 4, 5, 6
LIMIT @most;

-- name: ListPriced :many
-- Settled requests whose cost follows from counts, or should, in the order of their keys.
SELECT t.run_id, t.call_key, t.try_no, t.provider, t.model, t.tier, t.sent_at, t.cost, t.cost_basis, t.input_tokens,
       t.cached_input_tokens, t.cache_write_tokens, t.cache_write_1h_tokens, t.output_tokens, t.reasoning_tokens, t.tool_calls
FROM llm.llm_try t
WHERE (t.run_id, t.call_key, t.try_no) > (@after_run::uuid, @after_key::bytea, @after_try::integer)
  AND t.state <> 'in_flight' AND t.cost_basis IN ('counted', 'estimated', 'unpriced') AND t.http_status > 0
  AND t.sent_at >= @from_time AND t.sent_at < @to_time
ORDER BY t.run_id, t.call_key, t.try_no
LIMIT @most;

-- name: RecostTries :exec
UPDATE llm.llm_try t
SET cost = u.cost, booked = u.cost, cost_basis = u.cost_basis, price_id = u.price_id, tier = u.tier, cost_split = u.cost_split
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@call_keys::bytea[]) AS call_key, unnest(@try_nos::integer[]) AS try_no,
             unnest(@costs::numeric[]) AS cost, unnest(@cost_bases::text[]) AS cost_basis, unnest(@price_ids::bigint[]) AS price_id,
             unnest(@tiers::text[]) AS tier, unnest(@cost_splits::jsonb[]) AS cost_split) u
WHERE t.run_id = u.run_id AND t.call_key = u.call_key AND t.try_no = u.try_no;

-- name: PutRecosts :exec
INSERT INTO llm.recost AS r (id, at, provider, model, from_day, to_day, requests, before, after)
SELECT @id::uuid, @now, unnest(@providers::text[]), unnest(@models::text[]), @from_day::date, @to_day::date,
       unnest(@requests::bigint[]), unnest(@befores::numeric[]), unnest(@afters::numeric[])
ON CONFLICT (id, provider, model) DO UPDATE
SET requests = r.requests + excluded.requests, before = r.before + excluded.before, after = r.after + excluded.after;
