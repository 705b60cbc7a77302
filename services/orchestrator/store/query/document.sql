-- What steps are given: the inputs of runs, the outputs of steps with all their shards, the items of shards.

-- name: ReadDocuments :many
SELECT d.kind::text AS kind, d.run_id, d.step, d.shard, d.status::text AS status, d.document,
       coalesce(p.bytes, 0)::integer AS bytes, p.content
FROM (
    SELECT 'input' AS kind, r.id AS run_id, ''::text AS step, -1 AS shard, '' AS status,
           r.input AS document, r.input_payload AS payload
    FROM (SELECT unnest(@input_runs::uuid[]) AS run_id) k
    JOIN core.pipeline_run r ON r.id = k.run_id
    UNION ALL
    SELECT 'output', r.run_id, r.step, r.shard, r.status, r.output, r.output_payload
    FROM (SELECT unnest(@output_runs::uuid[]) AS run_id, unnest(@output_steps::text[]) AS step) k
    JOIN core.pipeline_step_result r ON r.run_id = k.run_id AND r.step = k.step
    UNION ALL
    SELECT 'item', l.run_id, l.step, l.shard, l.status, l.item, l.item_payload
    FROM (SELECT unnest(@item_runs::uuid[]) AS run_id, unnest(@item_steps::text[]) AS step,
                 unnest(@item_shards::integer[]) AS shard) k
    JOIN core.step_live l ON l.run_id = k.run_id AND l.step = k.step AND l.shard = k.shard
) d
LEFT JOIN core.payload p ON p.run_id = d.run_id AND p.n = d.payload
ORDER BY d.run_id, d.step, d.shard;

-- name: MeasureDocuments :many
SELECT 'input'::text AS kind, r.id AS run_id, ''::text AS step, -1 AS shard, r.input_bytes::bigint AS bytes
FROM (SELECT unnest(@input_runs::uuid[]) AS run_id) k
JOIN core.pipeline_run r ON r.id = k.run_id
UNION ALL
SELECT 'output', r.run_id, r.step, -1, sum(r.output_bytes)::bigint
FROM (SELECT unnest(@output_runs::uuid[]) AS run_id, unnest(@output_steps::text[]) AS step) k
JOIN core.pipeline_step_result r ON r.run_id = k.run_id AND r.step = k.step
GROUP BY r.run_id, r.step
UNION ALL
SELECT 'item', l.run_id, l.step, l.shard, coalesce(p.bytes, octet_length(l.item::text), 0)::bigint
FROM (SELECT unnest(@item_runs::uuid[]) AS run_id, unnest(@item_steps::text[]) AS step,
             unnest(@item_shards::integer[]) AS shard) k
JOIN core.step_live l ON l.run_id = k.run_id AND l.step = k.step AND l.shard = k.shard
LEFT JOIN core.payload p ON p.run_id = l.run_id AND p.n = l.item_payload;
