package doctor_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/cmd/pawl/doctor"
	"pawl.internal/services/internal/checkup"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/stream"
	"pawl.internal/services/testkit"
)

// corruption is one way in which a promise is broken.
type corruption struct {
	check, name string
	plant       func(c *copied)
	// run is the one that must be named; nil where none is concerned.
	run func(w *world) uuid.UUID
}

// sql plants a corruption by a statement about a run.
func sql(statement string, run func(*world) uuid.UUID) func(*copied) {
	return func(c *copied) { c.exec(statement, run(c.world)) }
}

func asked(w *world) uuid.UUID     { return w.asked }
func broken(w *world) uuid.UUID    { return w.broken }
func judged(w *world) uuid.UUID    { return w.judged }
func cancelled(w *world) uuid.UUID { return w.cancelled }
func queued(w *world) uuid.UUID    { return w.queued }
func queuedFirst(w *world) uuid.UUID {
	if w.other.String() < w.queued.String() {
		return w.other
	}
	return w.queued
}
func nobody(*world) uuid.UUID { return uuid.MustParse("01a22d45-7014-7c49-b8d5-b4685b852580") }

func corruptions() []corruption {
	of := func(check, name, statement string, run func(*world) uuid.UUID) corruption {
		return corruption{check: check, name: name, plant: sql(statement, run), run: run}
	}
	whole := func(check, name, statement string) corruption {
		return corruption{check: check, name: name, plant: func(c *copied) { c.exec(statement) }}
	}
	return slices.Concat([]corruption{
		of("stuck-run", "row gone", `DELETE FROM core.step_live WHERE run_id = $1`, queued),
		of("stuck-run", "nobody asked", `UPDATE core.review SET resolved_at = now() WHERE run_id = $1`, judged),
		of("run-state", "too many steps done", `UPDATE core.pipeline_run SET steps_done = steps_done + 1 WHERE id = $1`, asked),
		of("run-state", "result gone", `DELETE FROM core.pipeline_step_result WHERE run_id = $1 AND step = 'answer'`, asked),
		of("run-state", "result of a failure gone", `DELETE FROM core.pipeline_step_result WHERE run_id = $1 AND step = 'answer'`, broken),
		of("run-state", "row gone", `DELETE FROM core.step_live WHERE run_id = $1`, queued),
		of("run-state", "pipeline gone", `DELETE FROM core.pipeline p USING core.pipeline_run r WHERE r.id = $1 AND p.digest = r.pipeline_digest`, asked),
		of("run-state", "strange step", `UPDATE core.step_live SET step = 'stranger' WHERE run_id = $1`, queued),
		of("timerless-step", "no timer", `UPDATE core.step_live SET status = 'backoff', due_at = NULL WHERE run_id = $1`, queued),
		of("ended-run-live", "row of an ended run", `INSERT INTO core.step_live (run_id, step, generation, tenant, class, status, queued_at)
			VALUES ($1, 'answer', 1, 'acme', 'interactive', 'ready', now())`, asked),
		of("ended-run-live", "row of no run", `INSERT INTO core.step_live (run_id, step, generation, tenant, class, status, queued_at)
			VALUES ($1, 'answer', 1, 'acme', 'interactive', 'ready', now())`, nobody),
		of("review-unasked", "nobody asked", `UPDATE core.review SET resolved_at = now() WHERE run_id = $1`, judged),
		of("review-unasked", "asked for nothing", `INSERT INTO core.review (id, tenant, run_id, step, shard, generation, reason, opened_at)
			VALUES (gen_random_uuid(), 'acme', $1, 'answer', -1, 1, 'low_confidence', now())`, asked),
		of("fence-reused", "same fence", `UPDATE core.step_live SET fence = '01a22d45-7014-7c49-b8d5-b4685b852580' WHERE status = 'queued' AND $1::uuid IS NOT NULL`, queued),
		of("cap-exceeded", "of a tenant", `WITH p AS (
			INSERT INTO core.tenant_policy (tenant, max_concurrent_steps, version, updated_at) VALUES ('acme', 1, 1, now() - interval '1 day'))
			UPDATE core.step_live SET counted = true WHERE status = 'queued' AND $1::uuid IS NOT NULL`, queuedFirst),
		of("cap-exceeded", "of a pipeline", `UPDATE core.step_live SET counted = true, max_steps = 1, line = 'ask', held = true
			WHERE status = 'queued' AND $1::uuid IS NOT NULL`, queuedFirst),
		of("key-exceeded", "two runs", `WITH l AS (UPDATE core.step_live SET max_runs = 1 WHERE status = 'queued' RETURNING run_id)
			INSERT INTO core.key_holder SELECT run_id, 'acme', 'ask', 'k' FROM l WHERE $1::uuid IS NOT NULL`, queuedFirst),
		of("key-exceeded", "no holder", `WITH r AS (UPDATE core.pipeline_run SET concurrency_key = 'k' WHERE id = $1)
			UPDATE core.step_live SET max_runs = 1 WHERE run_id = $1`, queued),
		of("undispatchable-step", "held for nothing", `UPDATE core.step_live SET status = 'ready', held = true WHERE run_id = $1`, queued),
		of("undispatchable-step", "past the line", `UPDATE core.step_live SET status = 'ready', line = 'ask' WHERE run_id = $1`, queued),
		of("payload-missing", "payload gone", `DELETE FROM core.payload WHERE run_id = $1`, asked),
		of("overdue-timer", "due", `UPDATE core.step_live SET status = 'backoff', due_at = now() - interval '1 minute' WHERE run_id = $1`, queued),
		of("overdue-deadline", "passed", `UPDATE core.pipeline_run SET deadline_at = now() - interval '1 minute' WHERE id = $1`, queued),
		of("lost-step", "runner not on record", `UPDATE core.step_live SET status = 'running', due_at = now() + interval '1 hour',
			worker = gen_random_uuid(), fence = gen_random_uuid() WHERE run_id = $1`, queued),
		of("owed-to-gateway", "gate", `INSERT INTO core.spend_gate_owed (run_id, tenant, epoch, open, owed_at) VALUES ($1, 'acme', 1, false, now())`, broken),
		of("owed-to-gateway", "cancel", `INSERT INTO core.call_cancel_owed (run_id, step, generation, owed_at) VALUES ($1, '', 1, now())`, broken),
		of("journal-gap", "entry gone", `DELETE FROM core.run_event WHERE run_id = $1 AND seq = 1`, asked),
		of("terminal-event", "twice", `WITH e AS (UPDATE core.pipeline_run SET seq = seq + 1 WHERE id = $1 RETURNING id, seq)
			INSERT INTO core.run_event (run_id, seq, at, actor, kind, detail) SELECT id, seq, now(), 'system', 'step_finished', '{"status":"done"}' FROM e`, asked),
		of("terminal-event", "never", `UPDATE core.run_event SET detail = '{}' WHERE run_id = $1 AND step = ''`, asked),
		of("idempotency-key", "leads nowhere", `UPDATE core.idempotency SET resource_id = $1 WHERE kind = 'run'`, nobody),
		of("owed-by-nobody", "callback", `INSERT INTO core.callback_owed (subject_id, subject, seq, tenant, event, url, snapshot, owed_at)
			VALUES ($1, 'run', 1, 'acme', 'run.done', 'http://x', '{}', now())`, nobody),
		of("operator-chain", "changed", `UPDATE core.operator_action SET reason = 'another' WHERE run_id = $1`, broken),
		whole("operator-chain", "slipped in", `UPDATE core.operator_action SET previous_hash = '\x00' WHERE seq = 1`),
		whole("operator-chain", "removed", `DELETE FROM core.operator_action WHERE seq = 1`),
		of("purse-sum", "purse", `UPDATE llm.run_spend SET spent = spent + 0.000000000001 WHERE run_id = $1`, asked),
		of("purse-sum", "call", `UPDATE llm.llm_call_log SET cost = cost + 0.000000000001 WHERE run_id = $1`, asked),
		of("purse-sum", "request", `UPDATE llm.llm_try SET cost = cost + 0.000000000001 WHERE run_id = $1`, asked),
		of("purse-reserved", "purse", `UPDATE llm.run_spend SET reserved = 0.000000000001 WHERE run_id = $1`, asked),
		of("purse-reserved", "settled request", `UPDATE llm.llm_try SET reserved = 0.000000000001 WHERE run_id = $1`, asked),
		of("over-budget", "spent", `UPDATE llm.run_spend SET budget = 0.000000000001, reserved = 1 WHERE run_id = $1`, asked),
		of("call-state", "answered and failed", `UPDATE llm.llm_call_log SET state = 'failed' WHERE run_id = $1`, asked),
		of("call-state", "answer gone", `UPDATE llm.llm_try SET answer = NULL WHERE run_id = $1`, asked),
		of("call-state", "request gone", `DELETE FROM llm.llm_try WHERE run_id = $1`, asked),
		of("asked-twice", "two keys", `INSERT INTO llm.llm_call_log (run_id, call_key, tenant, step, shard, generation, ask, class, prompt_version, request, created_at, state, tries)
			SELECT run_id, sha256(call_key), tenant, step, shard, generation, ask, class, prompt_version, request, created_at, 'failed', 0 FROM llm.llm_call_log WHERE run_id = $1`, asked),
		of("spend-booked", "not booked", `UPDATE llm.llm_try SET booked = NULL WHERE run_id = $1`, asked),
		whole("spend-sum", "day", `UPDATE llm.spend_day SET cost = cost + 0.000000000001`),
		whole("spend-sum", "month", `UPDATE llm.spend_sum SET cost = cost + 0.000000000001`),
		whole("spend-sum", "batch", `UPDATE llm.run_spend SET batch_id = run_id`),
		of("call-of-dead", "holder gone", `UPDATE llm.llm_try SET state = 'in_flight' WHERE run_id = $1`, asked),
		of("ambiguous-call", "unknown fate", `UPDATE llm.llm_try SET state = 'ambiguous' WHERE run_id = $1`, asked),
		of("cost-copy", "old", `UPDATE core.pipeline_run SET cost_version = cost_version - 1 WHERE id = $1`, asked),
		of("cost-differs", "by the last digit", `UPDATE core.pipeline_run SET cost_usd = cost_usd + 0.000000000001 WHERE id = $1`, asked),
		of("cost-differs", "newer than its purse", `UPDATE core.pipeline_run SET cost_version = cost_version + 1 WHERE id = $1`, asked),
		of("purse-open", "open", `UPDATE llm.run_spend SET closed_at = NULL WHERE run_id = $1`, cancelled),
		of("purse-closed", "closed", `INSERT INTO llm.run_spend (run_id, tenant, epoch, closed_at) VALUES ($1, 'acme', 1, now())`, queued),
		of("purse-of-nobody", "no run", `INSERT INTO llm.run_spend (run_id, tenant, epoch) VALUES ($1, 'acme', 1)`, nobody),
		whole("schema-version", "behind", `DELETE FROM core.schema_version`),
		whole("partitions", "missing", `DROP TABLE core.step_history_`+time.Now().UTC().AddDate(0, 0, 1).Format("20060102")),
		whole("replicas", "no orchestrator", `DELETE FROM core.replica`),
		whole("replicas", "no step-runner", `DELETE FROM core.runner`),
		whole("replicas", "no gateway", `DELETE FROM llm.replica`),
		{check: "clocks", name: "skew", plant: func(c *copied) {
			c.Clock = &hasty{Clock: clock.Offset(clock.System(), 5*time.Second)}
		}},
		{check: "dead-permits", name: "left behind", plant: func(c *copied) {
			require.NoError(c.t, c.Redis.HSet(c.t.Context(), c.Prefix+":permits:{main}", "group", "{}", "r:somebody", `{"k":[3,0],"e":99}`).Err())
		}},
	}, batchCorruptions(), streamCorruptions())
}

// batchCorruptions make a batch of a run's own id, with the run as its only item, and break something of it.
func batchCorruptions() []corruption {
	item := func(check, name, columns, values string, run func(*world) uuid.UUID) corruption {
		return corruption{check: check, name: name, run: run, plant: sql(`WITH b AS (
			INSERT INTO core.batch (id, tenant, pipeline, pipeline_version, class, created_at, `+columns+`)
			VALUES ($1, 'acme', 'ask', 'v1', 'batch', now(), `+values+`))
			UPDATE core.pipeline_run SET batch_id = $1 WHERE id = $1`, run)}
	}
	counted := item("batch-count", "cost by the last digit", "label", "''", asked)
	notCosted := counted.plant
	counted.plant = func(c *copied) {
		notCosted(c)
		c.exec(`INSERT INTO core.batch_count (batch_id, status, reason, n, cost_usd, example)
			SELECT id, status, '', 1, cost_usd + 0.000000000001, id FROM core.pipeline_run WHERE id = $1`, c.asked)
	}
	return []corruption{
		item("batch-count", "not counted", "label", "''", asked),
		counted,
		{check: "tenant-count", name: "too many", plant: func(c *copied) {
			c.exec(`INSERT INTO core.tenant_delta (tenant, class, n) VALUES ('acme', 'interactive', 1)`)
		}},
		{check: "tenant-count", name: "not counted", plant: func(c *copied) {
			c.exec(`INSERT INTO core.tenant_delta (tenant, class, n) VALUES ('acme', 'batch', -1)`)
		}},
		item("cancelled-batch-live", "not stopped", "cancel_requested_at", "now()", queued),
		item("batch-ended", "too early", "finished_at", "now()", queued),
		{check: "batch-ended", name: "never", plant: item("", "", "sealed_at", "now()", asked).plant},
		{check: "batch-operation", name: "nobody works on it", plant: item("", "", "operation", "'pause'", queued).plant},
		{check: "batch-of-nobody", name: "batch gone", run: queued, plant: sql(`UPDATE core.pipeline_run SET batch_id = $1 WHERE id = $1`, queued)},
		{check: "batch-of-nobody", name: "callback", plant: sql(`INSERT INTO core.callback_owed
			(subject_id, subject, seq, tenant, event, url, snapshot, owed_at) VALUES ($1, 'batch', 1, 'acme', 'batch.completed', 'http://x', '{}', now())`, nobody)},
		{check: "idempotency-key", name: "batch gone", run: asked, plant: sql(`UPDATE core.idempotency SET kind = 'batch' WHERE resource_id = $1`, asked)},
	}
}

func streamCorruptions() []corruption {
	return []corruption{
		{check: "lost-entry", name: "stream gone", run: queued, plant: func(c *copied) {
			require.NoError(c.t, c.Redis.Del(c.t.Context(), c.Prefix+":{steps}:interactive").Err())
		}},
		{check: "unwanted-entry", name: "of an ended run", run: asked, plant: func(c *copied) { c.publish(step(c.asked, "answer")) }},
		{check: "unwanted-entry", name: "of another generation", run: queued, plant: func(c *copied) {
			s := step(c.queued, "keep")
			s.Generation = 2
			c.publish(s)
		}},
		{check: "unwanted-entry", name: "of nothing", plant: func(c *copied) {
			require.NoError(c.t, c.lane().Publish(c.t.Context(), []stream.Fields{{"run": "seven"}}))
		}},
		{check: "dead-consumer", name: "with entries", plant: func(c *copied) {
			got, err := c.lane().Read(c.t.Context(), uuid.NewString(), 2, time.Second)
			require.NoError(c.t, err)
			require.Len(c.t, got, 2)
			c.awaitIdle()
		}},
		{check: "stream-length", name: "piled up", plant: func(c *copied) {
			for range 100 {
				c.publish(step(c.queued, "keep"))
			}
		}},
	}
}

// awaitIdle waits until the consumers have been silent for longer than the lease.
func (c *copied) awaitIdle() {
	testkit.Eventually(c.t, patience, func() error {
		consumers, err := c.lane().Consumers(c.t.Context())
		if err == nil && slices.ContainsFunc(consumers, func(c stream.Consumer) bool { return c.Idle < 50*time.Millisecond }) {
			err = errNotIdle
		}
		return err
	})
}

// Every check finds what breaks its promise, names the run, and finds nothing where services have worked and nobody broke
// anything. Repairs put right what was found.
func TestDoctorFindsEveryCorruption(t *testing.T) {
	t.Parallel()
	w := makeWorld(t)
	t.Run("nothing is found where nothing is broken", func(t *testing.T) {
		found := w.copy(t).examine()
		delete(found, "durability") // servers of tests do without fsync
		delete(found, "connections")
		delete(found, "old-snapshot")
		delete(found, "redis-persistence")
		require.Empty(t, found, "%v", slices.Collect(maps.Keys(found)))
	})
	for _, each := range corruptions() {
		t.Run(each.check+": "+each.name, func(t *testing.T) {
			c := w.copy(t)
			each.plant(c)
			result := c.examine()[each.check]
			require.NotNil(t, result, "%s finds nothing", each.check)
			if each.run != nil {
				named := func(f checkup.Finding) bool { return f.Run == each.run(w) }
				require.True(t, slices.ContainsFunc(result.Findings, named), "%s does not name run %s: %+v", each.check, each.run(w), result.Findings)
			}
			c.mend(result)
		})
	}
	requireAllCovered(t)
}

// mend repairs what a check has found, and looks again: what is added by the orchestrator or gateway later is owed now.
func (c *copied) mend(r *checkup.Result) {
	c.t.Helper()
	if r.Check.Mend == nil {
		return
	}
	checkup.Mend(c.t.Context(), c.Target, []*checkup.Result{r}, func(*checkup.Check) bool { return true })
	require.NoError(c.t, r.MendErr)
	require.Equal(c.t, len(r.Findings), r.Mended)
	if r.Name == "cost-copy" { // a gateway takes it from there
		c.exec(`DELETE FROM llm.spend_owed WHERE run_id = $1 AND version > 0`, c.asked)
		return
	}
	require.NotContains(c.t, c.examine(), r.Name, "it was repaired")
}

// requireAllCovered fails when a check has no corruption here, and is not one of those that TestServerChecks is for.
func requireAllCovered(t *testing.T) {
	t.Helper()
	checks, err := doctor.Checks()
	require.NoError(t, err)
	covered := map[string]bool{
		"postgres-version": true, "durability": true, "connections": true, "old-snapshot": true,
		"redis-version": true, "redis-eviction": true, "redis-persistence": true,
	}
	for _, each := range corruptions() {
		covered[each.check] = true
	}
	for _, c := range checks {
		require.True(t, covered[c.Name], "no test plants what %s is to find", c.Name)
	}
}
