-- What readers ask of a run. Every query carries the tenant.

-- name: ReadRun :one
SELECT id, kind, pipeline, pipeline_version, pipeline_digest, steps_total, output_step, entity_id, document_id, labels,
       not_before, created_at, class, budget_usd, status, state, current_step, steps_done, reason, error,
       coalesce(undo, '')::text AS undo, spend_epoch, seq, cost_usd, version, deadline_at, paused_at, cancel_requested_at,
       started_at, finished_at, updated_at
FROM core.pipeline_run
WHERE id = @id AND tenant = @tenant;
