-- What a group of changes reads and writes, in this order. Keys are joined rather than listed in the condition: so the
-- server looks a row up in the partition of its day, and in no other. Elements of arrays that stand for NULL are turned
-- into it: the zero time of Go, 0 for numbers of tries, -1 for budgets.

-- name: MakePurses :exec
INSERT INTO llm.run_spend (run_id, tenant, budget, epoch, batch_id, outside)
SELECT unnest(@run_ids::uuid[]), unnest(@tenants::text[]), NULLIF(unnest(@budgets::numeric[]), -1), unnest(@epochs::integer[]),
       NULLIF(unnest(@batch_ids::uuid[]), '00000000-0000-0000-0000-000000000000'), unnest(@outside::boolean[])
ON CONFLICT DO NOTHING;

-- name: LockPurses :exec
SELECT 1 FROM (SELECT unnest(@run_ids::uuid[]) AS run_id) k
JOIN llm.run_spend s ON s.run_id = k.run_id AND s.run_id BETWEEN @least_id::uuid AND @most_id::uuid
ORDER BY s.run_id FOR NO KEY UPDATE OF s;

-- name: ReadGroup :many
-- The purses, and with each key its call and that call's requests, as far as they exist: one row a request, in order.
SELECT (SELECT clock_timestamp())::timestamptz AS now,
       s.run_id, s.tenant, s.batch_id, s.budget, s.reserved, s.spent, s.version, s.epoch, s.closed_at, s.outside,
       k.call_key::bytea AS call_key, coalesce(c.state, '')::text AS call_state, coalesce(c.winning_try, 0)::integer AS winning_try,
       coalesce(c.cost, 0)::numeric AS call_cost, coalesce(c.replays, 0)::integer AS replays, c.finished_at,
       coalesce(c.class, '')::text AS class, coalesce(c.origin, '')::text AS origin,
       coalesce(t.try_no, 0)::integer AS try_no,
       coalesce(t.holder, '00000000-0000-0000-0000-000000000000')::uuid AS holder,
       coalesce(t.state, '')::text AS try_state, coalesce(t.reserved, 0)::numeric AS try_reserved,
       coalesce(t.cost, 0)::numeric AS try_cost, coalesce(t.cost_basis, '')::text AS cost_basis, t.booked, t.finished_at AS settled_at,
       coalesce(t.provider, '')::text AS provider, coalesce(t.model, '')::text AS model,
       coalesce(t.input_tokens, 0)::bigint AS input_tokens, coalesce(t.cached_input_tokens, 0)::bigint AS cached_input_tokens,
       coalesce(t.cache_write_tokens, 0)::bigint AS cache_write_tokens,
       coalesce(t.cache_write_1h_tokens, 0)::bigint AS cache_write_1h_tokens,
       coalesce(t.output_tokens, 0)::bigint AS output_tokens, coalesce(t.reasoning_tokens, 0)::bigint AS reasoning_tokens
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@call_keys::bytea[]) AS call_key) k
JOIN llm.run_spend s ON s.run_id = k.run_id AND s.run_id BETWEEN @least_id::uuid AND @most_id::uuid
LEFT JOIN llm.llm_call_log c ON c.run_id = k.run_id AND c.call_key = k.call_key AND c.run_id BETWEEN @least_id::uuid AND @most_id::uuid
LEFT JOIN llm.llm_try t ON t.run_id = c.run_id AND t.call_key = c.call_key AND t.run_id BETWEEN @least_id::uuid AND @most_id::uuid
ORDER BY t.try_no;

-- name: UpdatePurses :exec
UPDATE llm.run_spend s
SET budget = NULLIF(u.budget, -1), reserved = u.reserved, spent = u.spent, version = u.version, epoch = u.epoch,
    closed_at = NULLIF(u.closed_at, '0001-01-01Z'), batch_id = NULLIF(u.batch_id, '00000000-0000-0000-0000-000000000000')
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@budgets::numeric[]) AS budget, unnest(@reserved::numeric[]) AS reserved,
             unnest(@spent::numeric[]) AS spent, unnest(@versions::bigint[]) AS version, unnest(@epochs::integer[]) AS epoch,
             unnest(@closed_at::timestamptz[]) AS closed_at, unnest(@batch_ids::uuid[]) AS batch_id) u
WHERE s.run_id = u.run_id AND s.run_id BETWEEN @least_id::uuid AND @most_id::uuid;

-- name: OweSpend :exec
INSERT INTO llm.spend_owed AS o (run_id, version, since)
SELECT unnest(@run_ids::uuid[]), unnest(@versions::bigint[]), @now
ON CONFLICT (run_id) DO UPDATE SET version = greatest(o.version, excluded.version);

-- name: InsertCalls :exec
INSERT INTO llm.llm_call_log (
    run_id, call_key, tenant, step, shard, generation, ask, class, prompt_version, request, created_at,
    state, tries, winning_try, cost, replays, finished_at, origin)
SELECT unnest(@run_ids::uuid[]), unnest(@call_keys::bytea[]), unnest(@tenants::text[]), unnest(@steps::text[]),
       unnest(@shards::integer[]), unnest(@generations::integer[]), unnest(@asks::integer[]), unnest(@classes::text[]),
       unnest(@prompt_versions::text[]), unnest(@requests::json[]), @now,
       unnest(@states::text[]), unnest(@tries::integer[]), NULLIF(unnest(@winning_tries::integer[]), 0),
       unnest(@costs::numeric[]), 0, NULLIF(unnest(@finished_at::timestamptz[]), '0001-01-01Z'), unnest(@origins::text[]);

-- name: UpdateCalls :exec
UPDATE llm.llm_call_log c
SET state = u.state, tries = u.tries, winning_try = NULLIF(u.winning_try, 0), cost = u.cost, replays = u.replays,
    finished_at = NULLIF(u.finished_at, '0001-01-01Z')
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@call_keys::bytea[]) AS call_key, unnest(@states::text[]) AS state,
             unnest(@tries::integer[]) AS tries, unnest(@winning_tries::integer[]) AS winning_try,
             unnest(@costs::numeric[]) AS cost, unnest(@replays::integer[]) AS replays,
             unnest(@finished_at::timestamptz[]) AS finished_at) u
WHERE c.run_id = u.run_id AND c.call_key = u.call_key AND c.run_id BETWEEN @least_id::uuid AND @most_id::uuid;

-- name: InsertTries :exec
INSERT INTO llm.llm_try (
    run_id, call_key, try_no, provider, model, format, key_id, max_output_tokens, price_id, holder, permit_wait, sent_at,
    state, reserved)
SELECT unnest(@run_ids::uuid[]), unnest(@call_keys::bytea[]), unnest(@try_nos::integer[]), unnest(@providers::text[]),
       unnest(@models::text[]), unnest(@formats::text[]), unnest(@key_ids::text[]), unnest(@max_output_tokens::bigint[]),
       unnest(@price_ids::bigint[]), unnest(@holders::uuid[]), unnest(@permit_waits::interval[]), @now,
       'in_flight', unnest(@reserved::numeric[]);

-- name: SettleTries :exec
UPDATE llm.llm_try t
SET state = u.state, reserved = 0, cost = u.cost, cost_basis = u.cost_basis, http_status = u.http_status, reason = u.reason,
    message = u.message, finish_reason = u.finish_reason, provider_request_id = u.provider_request_id,
    input_tokens = u.input_tokens, cached_input_tokens = u.cached_input_tokens, cache_write_tokens = u.cache_write_tokens,
    output_tokens = u.output_tokens, reasoning_tokens = u.reasoning_tokens, latency = u.latency, answer = u.answer,
    first_byte = NULLIF(u.first_byte, '0'),
    finished_at = @now, cache_write_1h_tokens = u.cache_write_1h_tokens, tool_calls = u.tool_calls, tier = u.tier,
    cost_split = u.cost_split, price_id = coalesce(NULLIF(u.price_id, 0), t.price_id), booked = u.cost
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@call_keys::bytea[]) AS call_key, unnest(@try_nos::integer[]) AS try_no,
             unnest(@states::text[]) AS state, unnest(@costs::numeric[]) AS cost, unnest(@cost_bases::text[]) AS cost_basis,
             unnest(@http_statuses::integer[]) AS http_status, unnest(@reasons::text[]) AS reason,
             unnest(@messages::text[]) AS message, unnest(@finish_reasons::text[]) AS finish_reason,
             unnest(@provider_request_ids::text[]) AS provider_request_id, unnest(@input_tokens::bigint[]) AS input_tokens,
             unnest(@cached_input_tokens::bigint[]) AS cached_input_tokens,
             unnest(@cache_write_tokens::bigint[]) AS cache_write_tokens, unnest(@output_tokens::bigint[]) AS output_tokens,
             unnest(@reasoning_tokens::bigint[]) AS reasoning_tokens, unnest(@latencies::interval[]) AS latency,
             unnest(@first_bytes::interval[]) AS first_byte,
             unnest(@answers::bytea[]) AS answer, unnest(@cache_write_1h_tokens::bigint[]) AS cache_write_1h_tokens,
             unnest(@tool_calls::jsonb[]) AS tool_calls, unnest(@tiers::text[]) AS tier, unnest(@cost_splits::jsonb[]) AS cost_split,
             unnest(@price_ids::bigint[]) AS price_id) u
WHERE t.run_id = u.run_id AND t.call_key = u.call_key AND t.try_no = u.try_no AND t.run_id BETWEEN @least_id::uuid AND @most_id::uuid;

-- name: BookDays :exec
-- Amounts and counts are added; those of corrections may be negative.
INSERT INTO llm.spend_day AS s (
    day, tenant, origin, provider, model, class, holder, lane, calls, answered, unpriced, input_tokens, cached_input_tokens,
    cache_write_tokens, cache_write_1h_tokens, output_tokens, reasoning_tokens, cost)
SELECT unnest(@days::date[]), unnest(@tenants::text[]), unnest(@origins::text[]), unnest(@providers::text[]),
       unnest(@models::text[]), unnest(@classes::text[]), @holder::uuid, @lane::integer, unnest(@calls::bigint[]),
       unnest(@answered::bigint[]), unnest(@unpriced::bigint[]), unnest(@input_tokens::bigint[]),
       unnest(@cached_input_tokens::bigint[]), unnest(@cache_write_tokens::bigint[]),
       unnest(@cache_write_1h_tokens::bigint[]), unnest(@output_tokens::bigint[]), unnest(@reasoning_tokens::bigint[]),
       unnest(@costs::numeric[])
ON CONFLICT (tenant, day, origin, provider, model, class, holder, lane) DO UPDATE
SET calls = s.calls + excluded.calls, answered = s.answered + excluded.answered, unpriced = s.unpriced + excluded.unpriced,
    input_tokens = s.input_tokens + excluded.input_tokens,
    cached_input_tokens = s.cached_input_tokens + excluded.cached_input_tokens,
    cache_write_tokens = s.cache_write_tokens + excluded.cache_write_tokens,
    cache_write_1h_tokens = s.cache_write_1h_tokens + excluded.cache_write_1h_tokens,
    output_tokens = s.output_tokens + excluded.output_tokens,
    reasoning_tokens = s.reasoning_tokens + excluded.reasoning_tokens, cost = s.cost + excluded.cost;

-- name: BookSums :exec
INSERT INTO llm.spend_sum AS s (kind, id, period, holder, lane, cost)
SELECT unnest(@kinds::text[]), unnest(@ids::text[]), unnest(@periods::date[]), @holder::uuid, @lane::integer,
       unnest(@costs::numeric[])
ON CONFLICT (kind, id, period, holder, lane) DO UPDATE SET cost = s.cost + excluded.cost;

-- name: MarkBooked :exec
UPDATE llm.llm_try t
SET booked = t.cost
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@call_keys::bytea[]) AS call_key, unnest(@try_nos::integer[]) AS try_no) u
WHERE t.run_id = u.run_id AND t.call_key = u.call_key AND t.try_no = u.try_no AND t.run_id BETWEEN @least_id::uuid AND @most_id::uuid;

-- name: MarkCorrected :exec
UPDATE llm.llm_call_log c
SET corrected_at = @now
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@call_keys::bytea[]) AS call_key) u
WHERE c.run_id = u.run_id AND c.call_key = u.call_key AND c.run_id BETWEEN @least_id::uuid AND @most_id::uuid;
