package inspect

import "pawl.internal/services/internal/checkup"

// runChecks are about what holds of runs and their rows at every moment.
func runChecks() []*checkup.Check {
	return []*checkup.Check{
		{
			Name:    "stuck-run",
			Promise: "I08: a run that has not ended has a step that may run, a timer, a claim with a timer, or a person who was asked",
			Means:   "nothing will ever move these runs", Remedy: "cancel them with `pawl runs cancel`, and report them: it is a fault of the program's",
			Severity: checkup.Broken, Find: checkup.OfRuns(stuckRuns),
		},
		{
			Name:     "timerless-step",
			Promise:  "I08: a step that is RUNNING, in BACKOFF or WAITING has a timer",
			Means:    "if its worker or signal never comes, the step waits for ever",
			Remedy:   "cancel the runs with `pawl runs cancel`, and report them: it is a fault of the program's",
			Severity: checkup.Broken, Find: checkup.Query(timerless),
		},
		{
			Name:     "ended-run-live",
			Promise:  "I12: nothing of a run that has ended can be claimed",
			Means:    "a step-runner may still execute a step of a run that is over",
			Remedy:   "report the runs: it is a fault of the program's",
			Severity: checkup.Broken, Find: checkup.Query(liveOfEnded),
		},
		{
			Name:     "review-unasked",
			Promise:  "I08: a step waits for a person exactly while a question to a person is open",
			Means:    "nobody sees that the step waits, or a question is asked that nobody needs answered",
			Remedy:   "cancel or retry the runs, and report them: it is a fault of the program's",
			Severity: checkup.Broken, Find: checkup.Query(unasked),
		},
		{
			Name:     "fence-reused",
			Promise:  "I06: no two claims have the same fence",
			Means:    "a worker could store its outcome for a step that another holds",
			Remedy:   "report the runs: it is a fault of the program's",
			Severity: checkup.Broken, Find: checkup.Query(sameFence),
		},
		{
			Name:     "payload-missing",
			Promise:  "I04: every large document that a run refers to is stored",
			Means:    "the document is lost: steps that need it fail, and readers get an error",
			Remedy:   "restore core.payload from a backup, or start the runs again",
			Severity: checkup.Broken, Find: checkup.OfRuns(lostPayloads),
		},
	}
}

const stuckRuns = `
SELECT r.id::text, r.id, 'is ' || r.status || ' since ' || to_char(r.updated_at, 'YYYY-MM-DD HH24:MI:SS') ||
       CASE WHEN r.current_step = '' THEN '' ELSE ', at step ' || r.current_step END
FROM (SELECT unnest($1::uuid[]) AS id) k
JOIN core.pipeline_run r ON r.id = k.id
WHERE r.status NOT IN ('done', 'failed', 'cancelled') AND NOT EXISTS (
    SELECT FROM core.step_live l WHERE l.run_id = r.id AND (
        l.status IN ('ready', 'queued')
        OR l.status IN ('running', 'backoff', 'waiting') AND l.due_at IS NOT NULL
        OR l.status = 'needs_review' AND EXISTS (
            SELECT FROM core.review v
            WHERE v.run_id = l.run_id AND v.step = l.step AND v.shard = l.shard AND v.resolved_at IS NULL)))`

const timerless = `
SELECT l.run_id || '/' || l.step || '/' || l.shard, l.run_id, 'step ' || l.step || '[' || l.shard || '] is ' || l.status
FROM core.step_live l WHERE l.status IN ('running', 'backoff', 'waiting') AND l.due_at IS NULL`

const liveOfEnded = `
SELECT l.run_id::text, l.run_id, CASE WHEN r.id IS NULL THEN 'does not exist' ELSE 'is ' || r.status END || ' and has ' || l.n || ' live steps'
FROM (SELECT run_id, count(*) AS n FROM core.step_live GROUP BY run_id) l
LEFT JOIN core.pipeline_run r ON r.id = l.run_id
WHERE r.id IS NULL OR r.status IN ('done', 'failed', 'cancelled')`

const unasked = `
SELECT l.run_id || '/' || l.step || '/' || l.shard, l.run_id, 'step ' || l.step || '[' || l.shard || '] waits for a person, and none was asked'
FROM core.step_live l
WHERE l.status = 'needs_review' AND NOT EXISTS (
    SELECT FROM core.review v WHERE v.run_id = l.run_id AND v.step = l.step AND v.shard = l.shard AND v.resolved_at IS NULL)
UNION ALL
SELECT v.id::text, v.run_id, 'a question about step ' || v.step || '[' || v.shard || '] is open, and the step does not wait'
FROM core.review v
WHERE v.resolved_at IS NULL AND NOT EXISTS (
    SELECT FROM core.step_live l
    WHERE l.run_id = v.run_id AND l.step = v.step AND l.shard = v.shard AND l.status = 'needs_review')`

const sameFence = `
SELECT l.fence::text, (array_agg(l.run_id ORDER BY l.run_id))[n.i], 'fence ' || l.fence || ' of step ' || (array_agg(l.step ORDER BY l.run_id))[n.i]
FROM core.step_live l CROSS JOIN generate_series(1, 2) AS n(i)
WHERE l.fence IS NOT NULL GROUP BY l.fence, n.i HAVING count(*) > 1`

const lostPayloads = `
SELECT u.run_id || '/' || u.n, u.run_id, u.what || ' is payload ' || u.n
FROM (
    SELECT r.id AS run_id, r.input_payload AS n, 'the input' AS what
    FROM (SELECT unnest($1::uuid[]) AS id) k JOIN core.pipeline_run r ON r.id = k.id WHERE r.input_payload IS NOT NULL
    UNION ALL
    SELECT s.run_id, s.output_payload, 'the output of ' || s.step || '[' || s.shard || ']'
    FROM (SELECT unnest($1::uuid[]) AS id) k JOIN core.pipeline_step_result s ON s.run_id = k.id WHERE s.output_payload IS NOT NULL
    UNION ALL
    SELECT l.run_id, l.item_payload, 'the item of ' || l.step || '[' || l.shard || ']'
    FROM (SELECT unnest($1::uuid[]) AS id) k JOIN core.step_live l ON l.run_id = k.id WHERE l.item_payload IS NOT NULL
) u
WHERE NOT EXISTS (SELECT FROM core.payload p WHERE p.run_id = u.run_id AND p.n = u.n)`
