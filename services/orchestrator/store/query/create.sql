-- name: ResolvePipelines :many
SELECT (SELECT clock_timestamp())::timestamptz AS now, k.n::integer AS n, p.digest
FROM (SELECT unnest(@numbers::integer[]) AS n, unnest(@tenants::text[]) AS tenant, unnest(@names::text[]) AS name,
             unnest(@versions::text[]) AS version) k
LEFT JOIN LATERAL (
    SELECT v.digest FROM core.pipeline v
    WHERE v.tenant = k.tenant AND v.name = k.name AND (k.version = '' OR v.version = k.version)
    ORDER BY v.ordinal DESC LIMIT 1
) p ON true;

-- name: InsertKeys :many
INSERT INTO core.idempotency (tenant, key, request_digest, kind, resource_id, expires_at)
SELECT unnest(@tenants::text[]), unnest(@keys::text[]), unnest(@request_digests::bytea[]), unnest(@kinds::text[]),
       unnest(@resource_ids::uuid[]), @expires_at
ON CONFLICT DO NOTHING
RETURNING tenant, key;

-- name: ReadRunKeys :many
SELECT i.tenant, i.key, i.request_digest, i.kind, i.resource_id, coalesce(r.status, '')::text AS status
FROM (SELECT unnest(@tenants::text[]) AS tenant, unnest(@keys::text[]) AS key) k
JOIN core.idempotency i ON i.tenant = k.tenant AND i.key = k.key
LEFT JOIN core.pipeline_run r ON r.id = i.resource_id;
