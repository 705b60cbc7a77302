package inspect

import "pawl.internal/services/internal/checkup"

// capChecks are about what may happen at once, and about who is dispatched at all.
func capChecks() []*checkup.Check {
	return []*checkup.Check{
		{
			Name:     "cap-exceeded",
			Promise:  "no tenant and no pipeline has more steps dispatched than its cap allows",
			Means:    "others get less than their share; it passes when a runner that was taken for dead went on with its steps",
			Remedy:   "nothing if it passes; else report the runs: it is a fault of the program's",
			Severity: checkup.Warning, Find: checkup.Query(capsExceeded),
		},
		{
			Name:     "key-exceeded",
			Promise:  "of the runs of a pipeline with equal concurrency keys no more than max_runs are begun and not finished",
			Means:    "runs that must not overlap do",
			Remedy:   "cancel one of the runs with `pawl runs cancel`, and report them: it is a fault of the program's",
			Severity: checkup.Broken, Find: checkup.Query(keysExceeded),
		},
		{
			Name:     "undispatchable-step",
			Promise:  "I08: a READY step is where the dispatcher looks for it: with its tenant's, in its pipeline's line, or held back with its run",
			Means:    "the step is never dispatched, or past a cap",
			Remedy:   "cancel the runs with `pawl runs cancel`, and report them: it is a fault of the program's",
			Severity: checkup.Broken, Find: checkup.Query(undispatchable),
		},
	}
}

// What was dispatched before a policy was changed, or while a replica did not know of it yet, is not against it.
const capsExceeded = `
SELECT 'tenant/' || l.tenant, min(l.run_id::text)::uuid,
       'is of tenant ' || l.tenant || ', which has ' || count(*) || ' steps dispatched and may have ' || p.max_concurrent_steps
FROM core.step_live l JOIN core.tenant_policy p ON p.tenant = l.tenant
WHERE l.counted AND l.status IN ('queued', 'running') AND l.queued_at > p.updated_at + interval '5 s'
GROUP BY l.tenant, p.max_concurrent_steps HAVING count(*) > p.max_concurrent_steps
UNION ALL
SELECT 'pipeline/' || l.tenant || '/' || l.line, min(l.run_id::text)::uuid,
       'is of pipeline ' || l.line || ', which has ' || count(*) || ' steps dispatched and may have ' || max(l.max_steps)
FROM core.step_live l
WHERE l.counted AND l.status IN ('queued', 'running') AND l.max_steps > 0
GROUP BY l.tenant, l.line HAVING count(*) > max(l.max_steps)`

// The key itself may be personal data.
const keysExceeded = `
SELECT h.tenant || '/' || h.pipeline || '/' || md5(h.key), min(h.run_id::text)::uuid,
       'is one of ' || count(DISTINCT h.run_id) || ' runs of pipeline ' || h.pipeline || ' that are begun with one key'
FROM core.key_holder h
JOIN core.pipeline_run r ON r.id = h.run_id AND r.finished_at IS NULL
JOIN core.step_live l ON l.run_id = h.run_id AND l.max_runs > 0
GROUP BY h.tenant, h.pipeline, h.key HAVING count(DISTINCT h.run_id) > max(l.max_runs)
UNION ALL
SELECT l.run_id || '/' || l.step || '/' || l.shard, l.run_id, 'has a step dispatched and does not count against its key'
FROM core.step_live l
JOIN core.pipeline_run r ON r.id = l.run_id AND r.concurrency_key <> ''
WHERE l.status IN ('queued', 'running') AND l.max_runs > 0 AND NOT EXISTS (SELECT FROM core.key_holder h WHERE h.run_id = l.run_id)`

const undispatchable = `
SELECT l.run_id || '/' || l.step || '/' || l.shard, l.run_id,
       'step ' || l.step || '[' || l.shard || '] is READY, and ' ||
       CASE WHEN l.held THEN 'held back though neither its run nor a cap says so' ELSE 'not in the line of its pipeline' END
FROM core.step_live l
WHERE l.status = 'ready' AND l.held <> (l.paused OR l.line <> '')`
