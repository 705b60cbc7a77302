-- What sweeps look for. They lock nothing: what they find becomes events. Rows before a bound have had their events already;
-- under an old snapshot their dead versions are not walked again. now() stands still within a statement, so that an index is
-- read no further than to it; each answer begins with a row that tells it.

-- name: FindDue :many
-- Everything whose time has come or comes soon: timers of steps, hard timeouts, deadlines of runs; and steps whose runners'
-- leases have run out. Hard timeouts may have to be held back, and must not keep others from being found. The first row also
-- tells how many replicas live (generation), and how many of them are before the one that asks (shard).
SELECT 'now'::text AS what, '00000000-0000-0000-0000-000000000000'::uuid AS run_id, ''::text AS step,
       count(*) FILTER (WHERE o.instance < @self::uuid)::integer AS shard, count(*)::integer AS generation,
       '00000000-0000-0000-0000-000000000000'::uuid AS fence, now()::timestamptz AS due_at
FROM core.replica o WHERE o.seen_at > now() - @replica_lives::interval OR o.instance = @self
UNION ALL
SELECT t.status, t.run_id, t.step, t.shard, t.generation, '00000000-0000-0000-0000-000000000000', t.due_at
FROM (SELECT l.status, l.run_id, l.step, l.shard, l.generation, l.due_at FROM core.step_live l
      WHERE l.due_at >= @timers_from::timestamptz AND l.due_at <= now() + @ahead::interval AND l.status <> 'running'
      ORDER BY l.due_at LIMIT @most) t
UNION ALL
SELECT t.status, t.run_id, t.step, t.shard, t.generation, coalesce(t.fence, '00000000-0000-0000-0000-000000000000'), t.due_at
FROM (SELECT l.status, l.run_id, l.step, l.shard, l.generation, l.fence, l.due_at FROM core.step_live l
      WHERE l.due_at >= @hard_from::timestamptz AND l.due_at <= now() + @ahead AND l.status = 'running'
      ORDER BY l.due_at LIMIT @most) t
UNION ALL
SELECT 'deadline', d.id, '', -1, 0, '00000000-0000-0000-0000-000000000000', d.deadline_at
FROM (SELECT r.id, r.deadline_at FROM core.pipeline_run r
      WHERE r.finished_at IS NULL AND r.paused_at IS NULL AND r.deadline_at >= @runs_from AND r.deadline_at <= now() + @ahead
        AND r.status <> 'compensating'
      ORDER BY r.deadline_at LIMIT @most) d
UNION ALL
(SELECT 'lost', l.run_id, l.step, l.shard, l.generation, coalesce(l.fence, '00000000-0000-0000-0000-000000000000'), w.lease_until
 FROM core.runner w
 CROSS JOIN LATERAL (
     SELECT h.run_id, h.step, h.shard, h.generation, h.fence FROM core.step_live h
     WHERE h.status = 'running' AND h.worker = w.instance
     ORDER BY h.claimed_at LIMIT @most
 ) l
 WHERE w.lease_until <= now()
 LIMIT @most);

-- name: FindLateEntries :many
-- Steps that have been QUEUED for longer than is usual in their class.
SELECT ''::text AS class, '00000000-0000-0000-0000-000000000000'::uuid AS run_id, ''::text AS step, -1::integer AS shard,
       0::integer AS generation, now()::timestamptz AS at
UNION ALL
SELECT c.class, l.run_id, l.step, l.shard, l.generation, l.queued_at
FROM (SELECT unnest(@classes::text[]) AS class, unnest(@queued_from::timestamptz[]) AS queued_from,
             unnest(@patience::interval[]) AS patience) c
CROSS JOIN LATERAL (
    SELECT s.run_id, s.step, s.shard, s.generation, s.queued_at FROM core.step_live s
    WHERE s.status = 'queued' AND s.class = c.class AND s.queued_at >= c.queued_from AND s.queued_at < now() - c.patience
    ORDER BY s.queued_at LIMIT @most
) l;

-- name: ReadLivingRunners :one
SELECT now()::timestamptz AS now, ARRAY(SELECT instance FROM core.runner WHERE lease_until > now())::uuid[] AS instances;

-- name: PutReplica :one
INSERT INTO core.replica (instance, started_at, seen_at) VALUES (@instance, now(), now())
ON CONFLICT (instance) DO UPDATE SET seen_at = excluded.seen_at
RETURNING seen_at;

-- name: DeleteReplica :exec
DELETE FROM core.replica WHERE instance = @instance;

-- name: DeleteDeadReplicas :exec
DELETE FROM core.replica WHERE seen_at < now() - @kept::interval;

-- name: DeleteEndedHolders :exec
DELETE FROM core.key_holder h
WHERE EXISTS (SELECT FROM core.pipeline_run r WHERE r.id = h.run_id AND r.finished_at IS NOT NULL);

-- name: DeleteDeadRunners :exec
-- The row of a runner stays as long as a step is RUNNING with it: by it the step is found.
DELETE FROM core.runner r
WHERE r.lease_until < now() - @kept::interval
  AND NOT EXISTS (SELECT FROM core.step_live l WHERE l.worker = r.instance AND l.status = 'running');
