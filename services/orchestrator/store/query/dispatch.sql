-- What is in the streams, by class: the steps that were dispatched and are not finished.

-- name: CountDispatched :many
-- In two parts, since each state has an index of its own.
SELECT d.class, count(*)::integer AS n
FROM (SELECT class FROM core.step_live WHERE status = 'queued'
      UNION ALL
      SELECT class FROM core.step_live WHERE status = 'running') d
GROUP BY d.class;

-- name: FindReady :many
-- The next steps of every tenant that has any, each tenant's in its own order. The tenants are found by skipping through
-- the index, so that a tenant with a long backlog costs no more than one with a short one.
WITH RECURSIVE waiting AS (
    (SELECT l.tenant FROM core.step_live l WHERE l.status = 'ready' AND l.class = @class ORDER BY l.tenant LIMIT 1)
    UNION ALL
    SELECT (SELECT l.tenant FROM core.step_live l
            WHERE l.status = 'ready' AND l.class = @class AND l.tenant > w.tenant ORDER BY l.tenant LIMIT 1)
    FROM waiting w WHERE w.tenant IS NOT NULL
)
SELECT w.tenant, l.run_id, l.step, l.shard, l.generation
FROM waiting w
CROSS JOIN LATERAL (
    SELECT s.run_id, s.step, s.shard, s.generation, s.priority, s.begun, s.ready_at FROM core.step_live s
    WHERE s.status = 'ready' AND s.class = @class AND s.tenant = w.tenant
    ORDER BY s.priority DESC, s.begun DESC, s.ready_at LIMIT @most
) l
WHERE w.tenant IS NOT NULL
ORDER BY w.tenant, l.priority DESC, l.begun DESC, l.ready_at;
