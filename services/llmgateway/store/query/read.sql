-- name: FindCalls :many
-- One row a key, also for keys that are not taken.
SELECT k.n::integer AS n, (SELECT clock_timestamp())::timestamptz AS now,
       coalesce(s.spent, 0)::numeric AS spent, coalesce(s.version, 0)::bigint AS version,
       coalesce(c.state, '')::text AS state, coalesce(c.cost, 0)::numeric AS cost,
       coalesce(a.input_tokens, 0)::bigint AS input_tokens,
       coalesce(a.output_tokens, 0)::bigint AS output_tokens, coalesce(a.ambiguous_targets, '{}')::text[] AS ambiguous_targets,
       coalesce(a.in_lane, false)::boolean AS in_lane, coalesce(a.lane_tries, 0)::bigint AS lane_tries,
       coalesce(w.provider, '')::text AS provider, coalesce(w.model, '')::text AS model, coalesce(w.format, '')::text AS format,
       coalesce(w.http_status, 0)::integer AS http_status, coalesce(w.cached_input_tokens, 0)::bigint AS cached_input_tokens,
       coalesce(w.answer, '')::bytea AS answer
FROM (SELECT unnest(@ns::integer[]) AS n, unnest(@run_ids::uuid[]) AS run_id, unnest(@call_keys::bytea[]) AS call_key) k
LEFT JOIN llm.run_spend s ON s.run_id = k.run_id
LEFT JOIN llm.llm_call_log c ON c.run_id = k.run_id AND c.call_key = k.call_key
LEFT JOIN LATERAL (
    SELECT sum(t.input_tokens) AS input_tokens, sum(t.output_tokens) AS output_tokens,
           array_agg(t.provider || '/' || t.model) FILTER (WHERE t.state = 'ambiguous') AS ambiguous_targets,
           count(*) FILTER (WHERE t.holder = 'ec000000-0000-0000-0000-000000000000') AS lane_tries,
           bool_or(t.state = 'in_flight' AND t.holder = 'ec000000-0000-0000-0000-000000000000') AS in_lane
    FROM llm.llm_try t WHERE t.run_id = c.run_id AND t.call_key = c.call_key
) a ON true
LEFT JOIN llm.llm_try w ON w.run_id = c.run_id AND w.call_key = c.call_key AND w.try_no = c.winning_try;

-- name: CountAmbiguous :one
SELECT count(*)::integer AS requests
FROM llm.llm_call_log c
JOIN llm.llm_try t ON t.run_id = c.run_id AND t.call_key = c.call_key AND t.state = 'ambiguous'
WHERE c.run_id = @run_id AND c.step = @step AND c.shard = @shard AND c.generation = @generation;

-- name: ListCalls :many
SELECT call_key, step, shard, state, cost, replays, created_at, finished_at, prompt_version
FROM llm.llm_call_log WHERE run_id = @run_id AND tenant = @tenant
ORDER BY created_at, call_key;

-- name: ListTries :many
SELECT call_key, try_no, provider, model, http_status, reason, input_tokens, cached_input_tokens, output_tokens,
       cost, provider_request_id, latency, permit_wait, sent_at
FROM llm.llm_try WHERE run_id = @run_id
ORDER BY call_key, try_no;

-- name: FindCancelled :many
SELECT s.run_id, ''::text AS step, 0 AS generation, s.closed_at::timestamptz AS at
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id) k
JOIN llm.run_spend s ON s.run_id = k.run_id
WHERE s.closed_at IS NOT NULL
UNION ALL
SELECT x.run_id, x.step, x.generation, x.at
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id) k
JOIN llm.cancelled_step x ON x.run_id = k.run_id;

-- name: PutCancelledStep :exec
INSERT INTO llm.cancelled_step (run_id, step, generation, at) VALUES (@run_id, @step, @generation, clock_timestamp())
ON CONFLICT (run_id, step, generation) DO UPDATE SET at = excluded.at;
