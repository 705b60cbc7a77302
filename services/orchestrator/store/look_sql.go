package store

// The generator of queries does not know what these two need: a LATERAL in a recursive term that names the recursion, and
// a collation in one.

// findWaitingTenants finds the tenants that have READY steps of a class, in turn, beginning behind the one whose turn was
// last, without those whose caps are used up. They are found by skipping through the indexes, so that a tenant with a long
// backlog costs no more than one with a short one. Lined says that some of the steps are in the lines of pipelines with caps.
//
// $1 is the tenant whose turn was last, $2 the class, $3 how many at most, $4 are those whose caps are used up.
const findWaitingTenants = `
WITH RECURSIVE behind AS (
    SELECT $1::text AS tenant, 0 AS turn
    UNION ALL
    SELECT LEAST(p.tenant, q.tenant)::text, w.turn + 1
    FROM behind w
    LEFT JOIN LATERAL (
        SELECT l.tenant FROM core.step_live l
        WHERE l.status = 'ready' AND NOT l.held AND l.class = $2 AND l.tenant > w.tenant ORDER BY l.tenant LIMIT 1
    ) p ON true
    LEFT JOIN LATERAL (
        SELECT l.tenant FROM core.step_live l
        WHERE l.status = 'ready' AND l.line <> '' AND NOT l.paused AND l.class = $2 AND l.tenant > w.tenant
        ORDER BY l.tenant LIMIT 1
    ) q ON true
    WHERE LEAST(p.tenant, q.tenant) IS NOT NULL AND w.turn < $3::integer + cardinality($4::text[])
), before AS (
    SELECT ''::text AS tenant, 0 AS turn
    UNION ALL
    SELECT LEAST(p.tenant, q.tenant)::text, w.turn + 1
    FROM before w
    LEFT JOIN LATERAL (
        SELECT l.tenant FROM core.step_live l
        WHERE l.status = 'ready' AND NOT l.held AND l.class = $2 AND l.tenant > w.tenant ORDER BY l.tenant LIMIT 1
    ) p ON true
    LEFT JOIN LATERAL (
        SELECT l.tenant FROM core.step_live l
        WHERE l.status = 'ready' AND l.line <> '' AND NOT l.paused AND l.class = $2 AND l.tenant > w.tenant
        ORDER BY l.tenant LIMIT 1
    ) q ON true
    WHERE LEAST(p.tenant, q.tenant) <= $1 AND w.turn < $3::integer + cardinality($4::text[])
)
SELECT t.tenant::text AS tenant,
       EXISTS (SELECT FROM core.step_live l
               WHERE l.status = 'ready' AND l.line <> '' AND NOT l.paused AND l.class = $2 AND l.tenant = t.tenant) AS lined
FROM (SELECT 1 AS lap, b.turn, b.tenant FROM behind b
      UNION ALL
      SELECT 2, b.turn, b.tenant FROM before b) t
WHERE t.turn > 0 AND t.tenant <> ALL ($4::text[])
ORDER BY t.lap, t.turn LIMIT $3`

// findLined finds the READY steps of tenants at the heads of lines. Lines are found by skipping through the index, so that
// one of which nothing may go costs no more than an empty one; those of keys are at most a number, from a key on. Holders are
// the unfinished runs that count against the line's key.
//
// $1 are the tenants, $2 the numbers of their turns, $3 how many steps of each line, $4 and $5 the key and the line to begin
// behind, $6 is the class, $7 how many lines of keys a tenant at most.
const findLined = `
WITH RECURSIVE tenants AS (
    SELECT unnest($1::text[]) AS tenant, unnest($2::integer[]) AS turn, unnest($3::integer[]) AS share,
           unnest($4::text[]) AS from_key, unnest($5::text[]) AS from_line
), unkeyed AS (
    SELECT t.tenant, t.turn, t.share, (''::text COLLATE "C") AS line, 0 AS n FROM tenants t
    UNION ALL
    SELECT u.tenant, u.turn, u.share, l.line, u.n + 1
    FROM unkeyed u
    CROSS JOIN LATERAL (
        SELECT s.line FROM core.step_live s
        WHERE s.status = 'ready' AND s.line <> '' AND NOT s.paused AND s.class = $6 AND s.tenant = u.tenant
          AND s.line_key = '' AND s.line > u.line
        ORDER BY s.line LIMIT 1
    ) l
), keyed AS (
    SELECT t.tenant, t.turn, t.share, (t.from_key COLLATE "C") AS line_key, (t.from_line COLLATE "C") AS line, 0 AS n FROM tenants t
    UNION ALL
    SELECT k.tenant, k.turn, k.share, l.line_key, l.line, k.n + 1
    FROM keyed k
    CROSS JOIN LATERAL (
        SELECT s.line_key, s.line FROM core.step_live s
        WHERE s.status = 'ready' AND s.line <> '' AND NOT s.paused AND s.class = $6 AND s.tenant = k.tenant
          AND (s.line_key, s.line) > (k.line_key, k.line)
        ORDER BY s.line_key, s.line LIMIT 1
    ) l
    WHERE k.n < $7
), lines AS (
    SELECT u.tenant, u.turn, u.share, u.line, (''::text COLLATE "C") AS line_key FROM unkeyed u WHERE u.n > 0
    UNION ALL
    SELECT k.tenant, k.turn, k.share, k.line, k.line_key FROM keyed k WHERE k.n > 0
)
SELECT x.turn::integer AS turn, x.line::text AS line, x.line_key::text AS line_key, h.n::bigint AS holders,
       s.run_id, s.step, s.shard, s.generation, s.priority, s.begun, s.ready_at, s.max_steps, s.max_runs
FROM lines x
CROSS JOIN LATERAL (
    SELECT count(r.id) AS n FROM core.key_holder k JOIN core.pipeline_run r ON r.id = k.run_id AND r.finished_at IS NULL
    WHERE x.line_key <> '' AND k.tenant = x.tenant AND k.pipeline = x.line AND k.key = x.line_key
) h
CROSS JOIN LATERAL (
    SELECT l.run_id, l.step, l.shard, l.generation, l.priority, l.begun, l.ready_at, l.max_steps, l.max_runs FROM core.step_live l
    WHERE l.status = 'ready' AND l.line <> '' AND NOT l.paused AND l.class = $6 AND l.tenant = x.tenant
      AND l.line_key = x.line_key AND l.line = x.line
    ORDER BY l.priority DESC, l.begun DESC, l.ready_at LIMIT x.share
) s
ORDER BY x.turn, s.priority DESC, s.begun DESC, s.ready_at`
