-- name: PutScope :execrows
-- Takes a key that is free, or free again.
INSERT INTO llm.scope AS s (tenant, key, scope_id, request_digest, expires_at)
VALUES (@tenant, @key, @scope_id, @request_digest, clock_timestamp() + @keep::interval)
ON CONFLICT (tenant, key) DO UPDATE
SET scope_id = excluded.scope_id, request_digest = excluded.request_digest, expires_at = excluded.expires_at
WHERE s.expires_at < clock_timestamp();

-- name: FindScope :one
SELECT scope_id, request_digest FROM llm.scope WHERE tenant = @tenant AND key = @key;

-- name: ForgetScopes :execrows
DELETE FROM llm.scope s USING (
    SELECT o.tenant, o.key FROM llm.scope o WHERE o.expires_at < clock_timestamp() LIMIT @most FOR UPDATE SKIP LOCKED
) old
WHERE s.tenant = old.tenant AND s.key = old.key;
