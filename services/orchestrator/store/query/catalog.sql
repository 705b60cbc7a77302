-- Pipelines and documents.

-- name: InsertPipeline :execrows
INSERT INTO core.pipeline (tenant, name, version, digest, source, steps, created_by)
VALUES (@tenant, @name, @version, @digest, @source, @steps, @created_by)
ON CONFLICT DO NOTHING;

-- name: FindPipeline :one
SELECT name, version, ordinal, digest, source, steps, created_at, created_by
FROM core.pipeline
WHERE tenant = @tenant AND name = @name AND (@version::text = '' OR version = @version)
ORDER BY ordinal DESC LIMIT 1;

-- name: FindPipelineByDigest :one
SELECT name, version, ordinal, digest, source, steps, created_at, created_by
FROM core.pipeline
WHERE tenant = @tenant AND digest = @digest;

-- name: ListPipelines :many
SELECT name, version, ordinal, digest, ''::text AS source, steps, created_at, created_by
FROM core.pipeline
WHERE tenant = @tenant AND name >= @after_name AND (name > @after_name OR ordinal < @after_ordinal)
ORDER BY name, ordinal DESC LIMIT @most;

-- name: InsertDocument :exec
INSERT INTO core.document (id, tenant, external_id, media_type, sha256, bytes, content)
VALUES (@id, @tenant, @external_id, @media_type, @sha256, @bytes, @content);

-- name: InsertKey :execrows
INSERT INTO core.idempotency (tenant, key, request_digest, kind, resource_id, expires_at)
VALUES (@tenant, @key, @request_digest, @kind, @resource_id, clock_timestamp() + @kept::interval)
ON CONFLICT DO NOTHING;

-- name: ReadKey :one
SELECT request_digest, kind, resource_id FROM core.idempotency WHERE tenant = @tenant AND key = @key;

-- name: ReadDocument :one
SELECT id, external_id, media_type, sha256, bytes, created_at,
       (CASE WHEN @with_content::boolean THEN content ELSE ''::bytea END)::bytea AS content
FROM core.document
WHERE tenant = @tenant AND id = @id AND (expires_at IS NULL OR expires_at > clock_timestamp());
