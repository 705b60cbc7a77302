-- name: EnsureTenant :exec
INSERT INTO access.tenant (id, name) VALUES (@id, @name)
ON CONFLICT (id) DO NOTHING;

-- name: FindKey :one
SELECT k.hash, k.tenant, k.role,
       (k.revoked_at IS NOT NULL)::boolean AS revoked,
       coalesce(k.expires_at <= clock_timestamp(), false)::boolean AS expired,
       least(coalesce(extract(epoch FROM k.expires_at - clock_timestamp()), 1e9), 1e9)::double precision AS seconds_left,
       t.disabled, t.submit_rate, t.submit_burst, t.max_queued_runs
FROM access.api_key AS k
JOIN access.tenant AS t ON t.id = k.tenant
WHERE k.prefix = @prefix;

-- name: TouchKeys :exec
-- Several replicas report the use of the same key; it is written once a minute.
UPDATE access.api_key AS k
SET last_used_at = used.at
FROM (SELECT unnest(@prefixes::text[]) AS prefix, unnest(@times::timestamptz[]) AS at) AS used
WHERE k.prefix = used.prefix AND (k.last_used_at IS NULL OR k.last_used_at <= used.at - interval '1 minute');

-- name: EnsureSigningKey :exec
INSERT INTO access.signing_key (purpose, key) VALUES (@purpose, @key)
ON CONFLICT (purpose) DO NOTHING;

-- name: GetSigningKey :one
SELECT key FROM access.signing_key WHERE purpose = @purpose;
