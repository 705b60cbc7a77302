-- What readers ask of a run. Every query carries the tenant.

-- name: ReadRun :one
SELECT * FROM core.run_view WHERE id = @id AND tenant = @tenant;

-- name: TookDecision :one
-- Whether the person has taken just this decision about that version of the run.
SELECT EXISTS (
    SELECT FROM core.operator_action a
    WHERE a.run_id = @run_id AND a.actor = @actor AND a.action = @action AND a.step = @step AND a.shard = @shard
      AND a.reason = @reason AND a.before->>'version' = @version::text AND coalesce(a.after->>'asked', '') = @asked::text
);

-- name: LastDecision :many
SELECT actor, action, at FROM core.operator_action WHERE run_id = @run_id ORDER BY seq DESC LIMIT 1;
