-- Elements that stand for NULL: -1 for amounts, the zero time of Go for ends.

-- name: PutPrices :exec
INSERT INTO llm.model_price (
    provider, model, tier, valid_from, valid_to, above_tokens, input, cached_input, cache_write, cache_write_1h, output,
    reasoning, tool_calls, batch_factor)
SELECT unnest(@providers::text[]), unnest(@models::text[]), unnest(@tiers::text[]), unnest(@valid_from::timestamptz[]),
       NULLIF(unnest(@valid_to::timestamptz[]), '0001-01-01Z'), unnest(@above_tokens::bigint[]), unnest(@inputs::numeric[]),
       unnest(@cached_inputs::numeric[]), unnest(@cache_writes::numeric[]), NULLIF(unnest(@cache_writes_1h::numeric[]), -1),
       unnest(@outputs::numeric[]), NULLIF(unnest(@reasonings::numeric[]), -1), unnest(@tool_calls::jsonb[]),
       NULLIF(unnest(@batch_factors::numeric[]), -1)
ON CONFLICT DO NOTHING;

-- name: FindPrices :many
SELECT k.n::integer AS n, p.id
FROM (SELECT unnest(@ns::integer[]) AS n, unnest(@providers::text[]) AS provider, unnest(@models::text[]) AS model,
             unnest(@tiers::text[]) AS tier, unnest(@valid_from::timestamptz[]) AS valid_from,
             NULLIF(unnest(@valid_to::timestamptz[]), '0001-01-01Z') AS valid_to, unnest(@above_tokens::bigint[]) AS above_tokens,
             unnest(@inputs::numeric[]) AS input, unnest(@cached_inputs::numeric[]) AS cached_input,
             unnest(@cache_writes::numeric[]) AS cache_write, NULLIF(unnest(@cache_writes_1h::numeric[]), -1) AS cache_write_1h,
             unnest(@outputs::numeric[]) AS output, NULLIF(unnest(@reasonings::numeric[]), -1) AS reasoning,
             unnest(@tool_calls::jsonb[]) AS tool_calls, NULLIF(unnest(@batch_factors::numeric[]), -1) AS batch_factor) k
JOIN llm.model_price p ON p.provider = k.provider AND p.model = k.model AND p.tier = k.tier
    AND p.valid_from = k.valid_from AND p.valid_to IS NOT DISTINCT FROM k.valid_to AND p.above_tokens = k.above_tokens
    AND p.input = k.input AND p.cached_input = k.cached_input AND p.cache_write = k.cache_write
    AND p.cache_write_1h IS NOT DISTINCT FROM k.cache_write_1h AND p.output = k.output
    AND p.reasoning IS NOT DISTINCT FROM k.reasoning AND p.tool_calls = k.tool_calls
    AND p.batch_factor IS NOT DISTINCT FROM k.batch_factor;
