-- name: RenewLease :one
WITH renewed AS (
    INSERT INTO llm.replica AS r (holder, description, started_at, lease_until)
    SELECT @holder, @description, now.at, now.at + @lease::interval FROM (SELECT clock_timestamp() AS at) now
    ON CONFLICT (holder) DO UPDATE SET lease_until = excluded.lease_until
)
SELECT count(*)::integer AS others FROM llm.replica o WHERE o.holder <> @holder AND o.lease_until > clock_timestamp();

-- name: EndLease :exec
DELETE FROM llm.replica WHERE holder = @holder;

-- name: FindOrphans :many
SELECT t.run_id, t.call_key, t.try_no
FROM llm.replica r
JOIN llm.llm_try t ON t.holder = r.holder AND t.state = 'in_flight'
WHERE r.lease_until < clock_timestamp()
LIMIT @most;

-- name: ForgetReplicas :exec
-- A transaction that was begun under a lease has long ended by then, one way or the other.
DELETE FROM llm.replica WHERE lease_until < clock_timestamp() - interval '1 hour';
