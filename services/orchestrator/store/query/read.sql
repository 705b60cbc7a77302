-- What readers ask of a run. Every query carries the tenant.

-- name: ReadRun :one
SELECT * FROM core.run_view WHERE id = @id AND tenant = @tenant;
