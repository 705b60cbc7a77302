-- Tenants, their keys, and what administrators did. Every query about keys carries the tenant.

-- name: InsertTenant :execrows
INSERT INTO access.tenant (id, name, weight, submit_rate, submit_burst, max_queued_runs, max_concurrent_steps)
VALUES (@id, @name, @weight, sqlc.narg('submit_rate'), sqlc.narg('submit_burst'), sqlc.narg('max_queued_runs'), sqlc.narg('max_concurrent_steps'))
ON CONFLICT (id) DO NOTHING;

-- name: GetTenant :one
SELECT * FROM access.tenant WHERE id = @id;

-- name: LockTenant :one
SELECT * FROM access.tenant WHERE id = @id FOR UPDATE;

-- name: ListTenants :many
SELECT * FROM access.tenant
WHERE id > @after AND (@wanted::text = '' OR id = @wanted)
ORDER BY id LIMIT @most;

-- name: UpdateTenant :one
UPDATE access.tenant
SET name = @name, weight = @weight, submit_rate = sqlc.narg('submit_rate'), submit_burst = sqlc.narg('submit_burst'),
    max_queued_runs = sqlc.narg('max_queued_runs'), max_concurrent_steps = sqlc.narg('max_concurrent_steps'),
    disabled = @disabled, version = version + 1, updated_at = clock_timestamp()
WHERE id = @id
RETURNING *;

-- name: ListPoliciesOwed :many
SELECT id, weight, max_concurrent_steps, version FROM access.tenant
WHERE policy_confirmed_version < version
ORDER BY id LIMIT @most;

-- name: ConfirmPolicy :exec
UPDATE access.tenant SET policy_confirmed_version = greatest(policy_confirmed_version, @version)
WHERE id = @id;

-- name: InsertKey :execrows
INSERT INTO access.api_key (prefix, hash, tenant, role, expires_at, note, created_by)
VALUES (@prefix, @hash, @tenant, @role, sqlc.narg('expires_at'), @note, @created_by)
ON CONFLICT (prefix) DO NOTHING;

-- name: GetKey :one
SELECT * FROM access.api_key WHERE tenant = @tenant AND prefix = @prefix;

-- name: LockKey :one
SELECT * FROM access.api_key WHERE tenant = @tenant AND prefix = @prefix FOR UPDATE;

-- name: ListKeys :many
-- The first page begins at the end of all time.
SELECT * FROM access.api_key
WHERE tenant = @tenant AND (created_at, prefix) < (@before_time::timestamptz, @before_prefix::text)
ORDER BY created_at DESC, prefix DESC LIMIT @most;

-- name: RevokeKey :exec
UPDATE access.api_key SET revoked_at = clock_timestamp() WHERE tenant = @tenant AND prefix = @prefix;

-- name: EndKey :exec
-- A key's life is only ever shortened.
UPDATE access.api_key SET expires_at = least(expires_at, @until) WHERE tenant = @tenant AND prefix = @prefix;

-- name: CountAdminKeys :one
SELECT count(*) FROM access.api_key
WHERE tenant = @tenant AND role = 'admin' AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp());

-- name: Now :one
SELECT clock_timestamp()::timestamptz;

-- name: InsertAction :exec
INSERT INTO access.admin_action (actor, action, tenant, before, after, reason)
VALUES (@actor, @action, @tenant, sqlc.narg('before'), sqlc.narg('after'), @reason);
