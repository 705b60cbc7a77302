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
LEFT JOIN llm.run_spend s ON s.run_id = k.run_id AND s.run_id BETWEEN @least_id::uuid AND @most_id::uuid
LEFT JOIN llm.llm_call_log c ON c.run_id = k.run_id AND c.call_key = k.call_key AND c.run_id BETWEEN @least_id::uuid AND @most_id::uuid
LEFT JOIN LATERAL (
    SELECT sum(t.input_tokens) AS input_tokens, sum(t.output_tokens) AS output_tokens,
           array_agg(t.provider || '/' || t.model) FILTER (WHERE t.state = 'ambiguous') AS ambiguous_targets,
           count(*) FILTER (WHERE t.holder = 'ec000000-0000-0000-0000-000000000000') AS lane_tries,
           bool_or(t.state = 'in_flight' AND t.holder = 'ec000000-0000-0000-0000-000000000000') AS in_lane
    FROM llm.llm_try t
    WHERE t.run_id = c.run_id AND t.call_key = c.call_key AND t.run_id BETWEEN @least_id::uuid AND @most_id::uuid
) a ON true
LEFT JOIN llm.llm_try w ON w.run_id = c.run_id AND w.call_key = c.call_key AND w.try_no = c.winning_try
  AND w.run_id BETWEEN @least_id::uuid AND @most_id::uuid;

-- name: CountAmbiguous :one
SELECT count(*)::integer AS requests
FROM llm.llm_call_log c
JOIN llm.llm_try t ON t.run_id = c.run_id AND t.call_key = c.call_key AND t.state = 'ambiguous'
WHERE c.run_id = @run_id AND c.step = @step AND c.shard = @shard AND c.generation = @generation;

-- name: ListCalls :many
SELECT call_key, step, shard, generation, ask, class, state, cost, replays, created_at, finished_at, prompt_version, corrected_at
FROM llm.llm_call_log WHERE run_id = @run_id AND tenant = @tenant
ORDER BY created_at, call_key;

-- name: ListTries :many
SELECT call_key, try_no, provider, model, format, key_id, state, http_status, reason, message, finish_reason, input_tokens,
       cached_input_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost, cost_basis, provider_request_id, latency,
       first_byte, permit_wait, sent_at
FROM llm.llm_try WHERE run_id = @run_id
ORDER BY call_key, try_no;

-- name: GetRequest :many
-- What was asked, if it is the tenant's; at most one row.
SELECT request FROM llm.llm_call_log WHERE run_id = @run_id AND call_key = @call_key AND tenant = @tenant;

-- name: ListBodies :many
SELECT try_no, answer FROM llm.llm_try WHERE run_id = @run_id AND call_key = @call_key AND answer IS NOT NULL;

-- name: ListAnswers :many
-- Requests that were settled with an answer, in the order of their keys. Of runs only those in a range: ids are ordered by the
-- time at which runs were made.
SELECT run_id, call_key, try_no, provider, model, format, sent_at, state, http_status, reason, message, finish_reason,
       provider_request_id, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost, cost_basis,
       latency, first_byte, max_output_tokens, answer
FROM llm.llm_try
WHERE (run_id, call_key, try_no) > (@after_run::uuid, @after_key::bytea, @after_try::integer) AND run_id <= @last_run::uuid
  AND state IN ('answered', 'failed') AND http_status > 0 AND answer IS NOT NULL
ORDER BY run_id, call_key, try_no
LIMIT @most;

-- name: TakeCorrected :many
-- A corrected answer goes to one question, so that a step which has no use for it asks anew.
UPDATE llm.llm_call_log c
SET corrected_for = @ask::integer
FROM (SELECT unnest(@call_keys::bytea[]) AS call_key) k
WHERE c.run_id = @run_id AND c.call_key = k.call_key AND c.corrected_at IS NOT NULL AND c.state = 'answered'
  AND coalesce(c.corrected_for, @ask) = @ask
RETURNING c.call_key;

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
