-- name: ReadLoad :many
-- Of each class: the steps that were dispatched and are not finished, the slots of living runners, and whether READY steps
-- wait. RUNNING steps are found by their runners, of which each has a row.
SELECT c.class::text AS class, (q.n + r.n)::bigint AS dispatched, r.slots::bigint AS slots,
       EXISTS (SELECT FROM core.step_live l WHERE l.status = 'ready' AND NOT l.held AND l.class = c.class) AS waiting
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

-- name: FindWaitingTenants :many
-- The tenants that have READY steps of the class, in turn, beginning behind the one that was served last. They are found by
-- skipping through the index, so that a tenant with a long backlog costs no more than one with a short one.
WITH RECURSIVE behind AS (
    SELECT @last_served::text AS tenant, 0 AS turn
    UNION ALL
    SELECT (SELECT l.tenant FROM core.step_live l
            WHERE l.status = 'ready' AND NOT l.held AND l.class = @class AND l.tenant > w.tenant
            ORDER BY l.tenant LIMIT 1), w.turn + 1
    FROM behind w WHERE w.tenant IS NOT NULL AND w.turn < @most
), before AS (
    SELECT ''::text AS tenant, 0 AS turn
    UNION ALL
    SELECT (SELECT l.tenant FROM core.step_live l
            WHERE l.status = 'ready' AND NOT l.held AND l.class = @class AND l.tenant > w.tenant AND l.tenant <= @last_served
            ORDER BY l.tenant LIMIT 1), w.turn + 1
    FROM before w WHERE w.tenant IS NOT NULL AND w.turn < @most
)
SELECT t.tenant::text AS tenant
FROM (SELECT 1 AS lap, b.turn, b.tenant FROM behind b
      UNION ALL
      SELECT 2, b.turn, b.tenant FROM before b) t
WHERE t.turn > 0 AND t.tenant IS NOT NULL
ORDER BY t.lap, t.turn LIMIT @most;

-- name: FindReady :many
-- The READY steps of tenants that go next, of each at most a share, in the tenant's order.
SELECT l.turn::bigint AS turn, l.run_id, l.step, l.shard, l.generation
FROM (
    SELECT t.turn, s.*, row_number() OVER (PARTITION BY t.turn ORDER BY s.priority DESC, s.begun DESC, s.ready_at) AS place
    FROM unnest(@tenants::text[]) WITH ORDINALITY AS t(tenant, turn)
    CROSS JOIN LATERAL (
        SELECT r.run_id, r.step, r.shard, r.generation, r.priority, r.begun, r.ready_at FROM core.step_live r
        WHERE r.status = 'ready' AND NOT r.held AND r.class = @class AND r.tenant = t.tenant
        ORDER BY r.priority DESC, r.begun DESC, r.ready_at LIMIT @share
    ) s
) l
ORDER BY l.place, l.turn;
