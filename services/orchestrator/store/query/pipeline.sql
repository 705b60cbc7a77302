-- name: ReadPipelines :many
SELECT p.digest, p.source
FROM (SELECT unnest(@tenants::text[]) AS tenant, unnest(@digests::bytea[]) AS digest) k
JOIN core.pipeline p ON p.tenant = k.tenant AND p.digest = k.digest;
