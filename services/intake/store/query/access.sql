-- name: EnsureTenant :exec
INSERT INTO access.tenant (id, name) VALUES (@id, @name)
ON CONFLICT (id) DO NOTHING;

-- name: InsertKey :execrows
INSERT INTO access.api_key (prefix, hash, tenant, role) VALUES (@prefix, @hash, @tenant, @role)
ON CONFLICT (prefix) DO NOTHING;

-- name: FindKey :one
SELECT hash, tenant, role,
       (revoked_at IS NOT NULL)::boolean AS revoked,
       coalesce(expires_at <= clock_timestamp(), false)::boolean AS expired
FROM access.api_key
WHERE prefix = @prefix;

-- name: TouchKeys :exec
-- Several replicas report the use of the same key; the latest wins.
UPDATE access.api_key AS k
SET last_used_at = greatest(k.last_used_at, used.at)
FROM (SELECT unnest(@prefixes::text[]) AS prefix, unnest(@times::timestamptz[]) AS at) AS used
WHERE k.prefix = used.prefix;

-- name: EnsureSigningKey :exec
INSERT INTO access.signing_key (purpose, key) VALUES (@purpose, @key)
ON CONFLICT (purpose) DO NOTHING;

-- name: GetSigningKey :one
SELECT key FROM access.signing_key WHERE purpose = @purpose;
