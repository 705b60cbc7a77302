-- name: ReadLoad :many
-- Of each class: the steps that were dispatched and are not finished, the slots of living runners, and whether READY steps
-- wait, with their tenant alone or in the line of a pipeline with caps. RUNNING steps are found by their runners, of which each has a row.
SELECT c.class::text AS class, (q.n + r.n)::bigint AS dispatched, r.slots::bigint AS slots,
       EXISTS (SELECT FROM core.step_live l WHERE l.status = 'ready' AND NOT l.held AND l.class = c.class) AS waiting,
       EXISTS (SELECT FROM core.step_live l WHERE l.status = 'ready' AND l.line <> '' AND NOT l.paused AND l.class = c.class) AS lined
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
-- The READY steps of tenants that go next, of each at most its share, in the tenant's order. Those in lines are not among
-- them.
SELECT t.turn::bigint AS turn, s.run_id, s.step, s.shard, s.generation, s.priority, s.begun, s.ready_at
FROM (SELECT unnest(@tenants::text[]) AS tenant, unnest(@turns::integer[]) AS turn, unnest(@shares::integer[]) AS share) t
CROSS JOIN LATERAL (
    SELECT r.run_id, r.step, r.shard, r.generation, r.priority, r.begun, r.ready_at FROM core.step_live r
    WHERE r.status = 'ready' AND NOT r.held AND r.class = @class AND r.tenant = t.tenant
    ORDER BY r.priority DESC, r.begun DESC, r.ready_at LIMIT t.share
) s
ORDER BY t.turn, s.priority DESC, s.begun DESC, s.ready_at;

-- name: CountFlight :many
-- The steps that are dispatched, not finished, and count against caps, by tenant and pipeline; all if no tenants are named.
SELECT l.tenant, l.line::text AS line, count(*) AS n FROM core.step_live l
WHERE l.counted AND l.status IN ('queued', 'running') AND (cardinality(@tenants::text[]) = 0 OR l.tenant = ANY (@tenants::text[]))
GROUP BY l.tenant, l.line;

-- name: CountHolders :many
SELECT k.tenant::text AS tenant, k.pipeline::text AS pipeline, k.key::text AS key, count(r.id) AS n
FROM (SELECT unnest(@tenants::text[]) AS tenant, unnest(@pipelines::text[]) AS pipeline, unnest(@keys::text[]) AS key) k
JOIN core.key_holder h ON h.tenant = k.tenant AND h.pipeline = k.pipeline AND h.key = k.key
JOIN core.pipeline_run r ON r.id = h.run_id AND r.finished_at IS NULL
GROUP BY k.tenant, k.pipeline, k.key;

-- name: FindLinesThatWait :many
-- Whether READY steps wait that those of a line must not pass: of the line itself, or, where the tenant is what has the cap,
-- any of the tenant's.
SELECT k.n::integer AS n
FROM (SELECT unnest(@numbers::integer[]) AS n, unnest(@classes::text[]) AS class, unnest(@tenants::text[]) AS tenant,
             unnest(@lines::text[]) AS line, unnest(@line_keys::text[]) AS line_key, unnest(@whole::boolean[]) AS whole) k
WHERE EXISTS (SELECT FROM core.step_live l
              WHERE l.status = 'ready' AND l.line <> '' AND NOT l.paused AND l.class = k.class AND l.tenant = k.tenant
                AND l.line_key = k.line_key AND l.line = k.line)
   OR k.whole AND EXISTS (SELECT FROM core.step_live l
              WHERE l.status = 'ready' AND l.line <> '' AND NOT l.paused AND l.class = k.class AND l.tenant = k.tenant)
   OR k.whole AND EXISTS (SELECT FROM core.step_live l
              WHERE l.status = 'ready' AND NOT l.held AND l.class = k.class AND l.tenant = k.tenant);

-- name: LockCaps :many
-- Takes the locks of tenants' caps that are free, until the end of the transaction, and returns whose they are.
SELECT k.tenant::text AS tenant FROM (SELECT DISTINCT unnest(@tenants::text[]) AS tenant) k
WHERE pg_try_advisory_xact_lock(hashtextextended('core.caps ' || k.tenant, 0));

-- name: ReadTenantPolicies :many
SELECT tenant, weight, coalesce(max_concurrent_steps, 0)::integer AS max_concurrent_steps FROM core.tenant_policy;

-- name: PutTenantPolicy :execrows
INSERT INTO core.tenant_policy AS p (tenant, weight, max_concurrent_steps, version)
VALUES (@tenant, @weight, NULLIF(@max_concurrent_steps::integer, 0), @version)
ON CONFLICT (tenant) DO UPDATE
SET weight = excluded.weight, max_concurrent_steps = excluded.max_concurrent_steps, version = excluded.version,
    updated_at = clock_timestamp()
WHERE excluded.version > p.version;

-- name: CountPolicySteps :exec
-- The steps of a tenant that are dispatched already count against its cap too.
UPDATE core.step_live l SET counted = true
FROM (
    SELECT q.run_id, q.step, q.shard FROM core.step_live q
    WHERE q.status = 'queued' AND q.class IN ('interactive', 'batch') AND q.tenant = @tenant
    UNION ALL
    SELECT r.run_id, r.step, r.shard FROM core.runner i
    JOIN core.step_live r ON r.status = 'running' AND r.worker = i.instance AND r.tenant = @tenant
) f
WHERE l.run_id = f.run_id AND l.step = f.step AND l.shard = f.shard AND NOT l.counted;
