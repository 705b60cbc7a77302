-- name: InsertSchedule :execrows
INSERT INTO access.schedule (tenant, name, id, cron, time_zone, overlap, catch_up, run, created_by, next_at)
VALUES (@tenant, @name, @id, @cron, @time_zone, @overlap, @catch_up, @run, @created_by, @next_at)
ON CONFLICT (tenant, name) DO NOTHING;

-- name: GetSchedule :one
SELECT * FROM access.schedule WHERE tenant = @tenant AND name = @name;

-- name: ListSchedules :many
SELECT * FROM access.schedule WHERE tenant = @tenant AND name > @after ORDER BY name LIMIT @most;

-- name: PauseSchedule :execrows
UPDATE access.schedule SET paused = true WHERE tenant = @tenant AND name = @name;

-- name: ResumeSchedule :execrows
-- Times that have passed are not made up for.
UPDATE access.schedule SET paused = false, next_at = CASE WHEN paused THEN @next_at ELSE next_at END
WHERE tenant = @tenant AND name = @name;

-- name: DeleteSchedule :exec
DELETE FROM access.schedule WHERE tenant = @tenant AND name = @name;

-- name: TakeDueSchedules :many
-- Rows that others take at this moment are theirs.
UPDATE access.schedule s SET taken_until = clock_timestamp() + @lease::interval
FROM (
    SELECT d.tenant, d.name FROM access.schedule d
    WHERE NOT d.paused AND d.next_at <= clock_timestamp() AND d.taken_until <= clock_timestamp()
    ORDER BY d.next_at LIMIT @most FOR UPDATE SKIP LOCKED
) due
WHERE s.tenant = due.tenant AND s.name = due.name
RETURNING sqlc.embed(s), clock_timestamp()::timestamptz AS now;

-- name: PassSchedule :exec
-- Only the schedule that was taken, and only once: it may have been deleted and made anew, or passed by another replica.
UPDATE access.schedule
SET next_at = @next_at, taken_until = 'epoch', last_problem = @problem,
    last_at = CASE WHEN @run_id::uuid = '00000000-0000-0000-0000-000000000000' THEN last_at ELSE @planned END,
    last_run_id = coalesce(NULLIF(@run_id, '00000000-0000-0000-0000-000000000000'::uuid), last_run_id)
WHERE id = @id AND next_at = @planned;

-- name: PutOffSchedule :exec
UPDATE access.schedule SET taken_until = clock_timestamp() + @wait::interval, last_problem = @problem
WHERE id = @id AND next_at = @planned;
