package orchestrator_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
)

// TestI10_PeopleGoBeforeABatch holds the order of grants: with a batch of five thousand READY steps and both lanes loaded, an
// interactive step is dispatched when it becomes READY, and what a runner's interactive slots get next.
func TestI10_PeopleGoBeforeABatch(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	machines, people := r.batchRunner(8), r.newRunner()
	r.createBatch(tenant, 30)
	r.fill(tenant, 5000)
	r.eventually(16, dispatched)
	for range 40 {
		machines.stored(machines.take().succeeded(`1`))
		run := r.create("chain", `{"text": 1}`)
		require.Equal(t, 1, r.count(`core.step_live WHERE run_id = $1 AND status = 'queued'`, run), "at once, whatever waits")
		w := people.take()
		require.Equal(t, run, runOf(w.Hold.GetStep()), "nothing stands before it")
		people.stored(w.succeeded(`1`))
		w = people.take()
		require.Equal(t, run, runOf(w.Hold.GetStep()))
		people.stored(w.succeeded(`1`))
		w = people.take()
		require.Equal(t, run, runOf(w.Hold.GetStep()))
		people.stored(w.succeeded(`1`))
	}
	require.Equal(t, 40, r.count(`core.pipeline_run WHERE class = 'interactive' AND status = 'done'`))
	require.Greater(t, r.count(`core.step_live WHERE class = 'batch' AND status = 'ready'`), 4900, "the batch has hardly moved")
}

// fill puts READY steps of the class batch beside those that are there: rows alone, which stand for runs that nobody
// executes. They are behind all others of the tenant.
func (r *replica) fill(of string, n int) {
	r.t.Helper()
	r.exec(fmt.Sprintf(`INSERT INTO core.step_live (run_id, step, generation, tenant, class, priority, status, ready_at)
		SELECT gen_random_uuid(), 'first', 1, '%s', 'batch', -100, 'ready', now() + interval '1 hour'
		FROM generate_series(1, %d)`, of, n))
}

// With a hundred thousand READY steps the stream has no more entries than the window, before and while it is worked off.
func TestTheStreamIsBoundedByTheWindow(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	n := r.batchRunner(10)
	r.createBatch(tenant, 40)
	r.fill(tenant, 100_000)
	r.eventually(20, dispatched)
	r.streamHas(20)
	for range 60 {
		n.stored(n.take().succeeded(`1`))
		length, err := r.redis.Client.XLen(t.Context(), r.redis.Prefix+":{steps}:batch").Result()
		require.NoError(t, err)
		require.LessOrEqual(t, length, int64(20))
	}
	r.eventually(20, dispatched)
}

// With ten times the work that there is room for, runs that have begun are finished before others begin: the runs that are
// begun and not finished are never more than the window holds, and end in the order in which they began.
func TestBegunRunsGoFirst(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	n := r.batchRunner(8)
	runs := r.createBatch(tenant, 160)
	r.eventually(16, dispatched)
	var ended []uuid.UUID
	for len(ended) < 60 {
		w := n.take()
		n.stored(w.succeeded(`1`))
		if w.Hold.GetStep().GetStep() == "third" {
			ended = append(ended, runOf(w.Hold.GetStep()))
		}
		begun := r.count(`core.pipeline_run WHERE started_at IS NOT NULL AND finished_at IS NULL`)
		require.LessOrEqual(t, begun, 32, "a window that waits, and one that is behind it")
	}
	place := map[uuid.UUID]int{}
	for i, run := range runs {
		place[run] = i
	}
	for i, run := range ended {
		require.Less(t, place[run], i+33, "%d ended as the %d.", place[run], i)
	}
}

// Tenants get batch steps in proportion to their weights.
func TestWeightsOfTenants(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	r.registerFor("heavy", chain)
	_, err := r.client.SetTenantPolicy(t.Context(), &systemv1.SetTenantPolicyRequest{Tenant: "heavy", Weight: 3, Version: 1})
	require.NoError(t, err)
	n := r.batchRunner(8)
	r.createBatch(tenant, 100)
	r.createBatch("heavy", 100)
	r.eventually(16, dispatched)
	got := map[string]int{}
	for i := range 180 {
		w := n.take()
		n.stored(w.succeeded(`1`))
		if i >= 20 { // the first were dispatched before the other tenant came
			got[w.GetTenant()]++
		}
	}
	require.InDelta(t, 120, got["heavy"], 8, "%v", got)
	_, err = r.client.SetTenantPolicy(t.Context(), &systemv1.SetTenantPolicyRequest{Tenant: "heavy", Weight: 1001, Version: 2})
	require.ErrorContains(t, err, "weight")
}

// capped is chain with a cap of two steps and a key.
const capped = `
name: capped
version: v1
input: {type: object}
concurrency: {max_steps: 2, key: "${input.customer}", max_runs: 1}
steps:
  - {name: first, transform: "${input.text}"}
  - {name: second, transform: "${steps.first.output}"}
`

// A pipeline's caps hold through the whole service, the dispatcher carries on what they hold back, and others pass by.
func TestCapsOfAPipeline(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(capped)
	r.register(chain)
	n := r.newRunner()
	for i := range 12 {
		creation := r.creation("capped", fmt.Sprintf(`{"text": 1, "n": %d}`, i))
		creation.ConcurrencyKey = fmt.Sprint("customer ", i%4)
		_, err := r.client.CreateRun(t.Context(), creation)
		require.NoError(t, err)
	}
	r.eventually(2, `core.step_live WHERE status IN ('queued', 'running')`)
	other := r.create("chain", `{"text": 1}`)
	require.Equal(t, 1, r.count(`core.step_live WHERE run_id = $1 AND status = 'queued'`, other))
	for range 24 + 3 {
		w := n.take()
		require.LessOrEqual(t, r.count(`core.step_live l JOIN core.pipeline_run p ON p.id = l.run_id
			WHERE l.status IN ('queued', 'running') AND p.pipeline = 'capped'`), 2)
		n.stored(w.succeeded(`1`))
	}
	require.Equal(t, 13, r.count(`core.pipeline_run WHERE status = 'done'`))
	require.Zero(t, r.count(`core.key_holder`))
	require.Zero(t, r.count(`core.pipeline_run a JOIN core.pipeline_run b ON a.concurrency_key = b.concurrency_key AND a.id < b.id
		WHERE a.concurrency_key <> '' AND b.started_at < a.finished_at`), "runs of one key never overlapped")
}

// A run of a batch that is promoted goes to the interactive stream, also if it stood in the other already: what is left there
// of it does no harm.
func TestPromotedRuns(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	machines, people := r.batchRunner(8), r.newRunner()
	runs := r.createBatch(tenant, 40)
	r.eventually(16, dispatched)
	r.streamHas(16)
	queued, waiting := runs[0], runs[39]
	for _, run := range []uuid.UUID{queued, waiting} {
		promoted, err := r.client.PromoteRun(t.Context(), &systemv1.PromoteRunRequest{
			Tenant: tenant, RunId: run.String(), Actor: "person:ann", Reason: "the customer waits",
			Class: pawlv1.RunClass_RUN_CLASS_INTERACTIVE,
		})
		require.NoError(t, err)
		require.Equal(t, pawlv1.RunClass_RUN_CLASS_INTERACTIVE, promoted.GetRun().GetClass())
	}
	got := []uuid.UUID{runOf(people.takeAndStore()), runOf(people.takeAndStore())}
	require.ElementsMatch(t, []uuid.UUID{queued, waiting}, got)
	require.Equal(t, 2, r.count(`core.operator_action WHERE action = 'promoted' AND actor = 'person:ann' AND reason <> ''`))
	require.Equal(t, 2, r.count(`core.run_event WHERE kind = 'promoted'`))
	ref := machines.next()
	for runOf(ref) != queued { // its old entry is still there, somewhere among the sixteen
		ref = machines.next()
	}
	_, status := machines.claim(ref)
	require.NotEqual(t, systemv1.ClaimStatus_CLAIM_STATUS_GRANTED, status)

	again, err := r.client.PromoteRun(t.Context(), &systemv1.PromoteRunRequest{
		Tenant: tenant, RunId: queued.String(), Actor: "person:ann", Class: pawlv1.RunClass_RUN_CLASS_INTERACTIVE,
	})
	require.NoError(t, err, "it may be repeated")
	require.Equal(t, pawlv1.RunClass_RUN_CLASS_INTERACTIVE, again.GetRun().GetClass())
	require.Equal(t, 2, r.count(`core.operator_action`))
}

// takeAndStore executes the next step and returns it.
func (n *runner) takeAndStore() *systemv1.StepRef {
	n.t.Helper()
	w := n.take()
	n.stored(w.succeeded(`1`))
	return w.Hold.GetStep()
}
