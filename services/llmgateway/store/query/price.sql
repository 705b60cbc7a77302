-- name: PutPrices :exec
INSERT INTO llm.model_price (provider, model, valid_from, input, cached_input, cache_write, output)
SELECT unnest(@providers::text[]), unnest(@models::text[]), unnest(@valid_from::timestamptz[]), unnest(@inputs::numeric[]),
       unnest(@cached_inputs::numeric[]), unnest(@cache_writes::numeric[]), unnest(@outputs::numeric[])
ON CONFLICT DO NOTHING;

-- name: FindPrices :many
SELECT k.n::integer AS n, p.id
FROM (SELECT unnest(@ns::integer[]) AS n, unnest(@providers::text[]) AS provider, unnest(@models::text[]) AS model,
             unnest(@valid_from::timestamptz[]) AS valid_from, unnest(@inputs::numeric[]) AS input,
             unnest(@cached_inputs::numeric[]) AS cached_input, unnest(@cache_writes::numeric[]) AS cache_write,
             unnest(@outputs::numeric[]) AS output) k
JOIN llm.model_price p ON p.provider = k.provider AND p.model = k.model AND p.tier = 'standard'
    AND p.valid_from = k.valid_from AND p.above_tokens = 0 AND p.input = k.input AND p.cached_input = k.cached_input
    AND p.cache_write = k.cache_write AND p.output = k.output;
