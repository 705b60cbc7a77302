-- name: ReadLoad :many
-- Of each class: the steps that were dispatched and are not finished, the slots of living runners, and whether READY steps
-- wait. RUNNING steps are found by their runners, of which each has a row.
SELECT c.class::text AS class, (q.n + r.n)::bigint AS dispatched, r.slots::bigint AS slots,
       EXISTS (SELECT FROM core.step_live l WHERE l.status = 'ready' AND l.class = c.class) AS waiting
FROM (SELECT unnest(@classes::text[]) AS class) c
CROSS JOIN LATERAL (SELECT count(*) AS n FROM core.step_live l WHERE l.status = 'queued' AND l.class = c.class) q
CROSS JOIN LATERAL (
    SELECT coalesce(sum(h.n), 0) AS n,
           coalesce(sum(CASE c.class WHEN 'batch' THEN i.batch_slots ELSE i.interactive_slots END)
                    FILTER (WHERE i.lease_until > now()), 0) AS slots
    FROM core.runner i
    CROSS JOIN LATERAL (
        SELECT count(*) AS n FROM core.step_live l WHERE l.status = 'running' AND l.worker = i.instance AND l.class = c.class
    ) h
) r;

-- name: FindReady :many
-- The READY steps of a class that go next: those of the waiting tenants in turn, beginning behind the tenant that was served
-- last, each tenant's own by priority, begun runs first, age. Tenants are found by skipping through the index, and each
-- contributes a share, so that neither a long backlog of one nor many tenants make the question dear. Behind the last row of a
-- share its tenant may have more.
WITH RECURSIVE turns AS (
    SELECT @last_served::text AS tenant, false AS again, 0 AS turn
    UNION ALL
    SELECT next.tenant, next.again, w.turn + 1
    FROM turns w
    CROSS JOIN LATERAL (
        (SELECT l.tenant, w.again FROM core.step_live l
         WHERE l.status = 'ready' AND l.class = @class AND l.tenant > w.tenant
         ORDER BY l.tenant LIMIT 1)
        UNION ALL
        (SELECT l.tenant, true FROM core.step_live l
         WHERE l.status = 'ready' AND l.class = @class AND NOT w.again
         ORDER BY l.tenant LIMIT 1)
        LIMIT 1
    ) next
    WHERE w.turn < @most AND NOT (next.again AND next.tenant > @last_served)
),
share AS (
    SELECT ((@most::bigint + count(*) - 1) / NULLIF(count(*), 0))::bigint AS n FROM turns WHERE turn > 0
)
SELECT t.tenant::text AS tenant, s.run_id, s.step, s.shard, s.generation, (s.place >= share.n)::boolean AS last_of_share
FROM share, turns t
CROSS JOIN LATERAL (
    SELECT l.run_id, l.step, l.shard, l.generation,
           row_number() OVER (ORDER BY l.priority DESC, l.begun DESC, l.ready_at) AS place
    FROM core.step_live l
    WHERE l.status = 'ready' AND l.class = @class AND l.tenant = t.tenant
    ORDER BY l.priority DESC, l.begun DESC, l.ready_at LIMIT (SELECT n FROM share)
) s
WHERE t.turn > 0
ORDER BY s.place, t.turn LIMIT @most;
