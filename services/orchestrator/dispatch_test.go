package orchestrator_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/stream"
	"pawl.internal/services/testkit"
)

// batchRunner returns a runner with so many slots for steps of the class batch.
func (r *replica) batchRunner(slots int32) *runner {
	r.t.Helper()
	n := &runner{replica: r, id: r.ids.V4(), steps: stream.New(r.redis.Client, r.redis.Prefix+":{steps}:batch", "runners")}
	_, err := r.client.Heartbeat(r.t.Context(), &systemv1.HeartbeatRequest{
		RunnerId: n.id[:], Lanes: []*systemv1.LaneSlots{{Class: pawlv1.RunClass_RUN_CLASS_BATCH, Slots: slots}},
	})
	require.NoError(r.t, err)
	return n
}

// createBatch creates runs of the class batch.
func (r *replica) createBatch(tenant string, n int) []uuid.UUID {
	r.t.Helper()
	runs := make([]uuid.UUID, n)
	for i := range runs {
		creation := r.creation("chain", `{"text": 1}`)
		creation.Tenant, creation.Class = tenant, pawlv1.RunClass_RUN_CLASS_BATCH
		created, err := r.client.CreateRun(r.t.Context(), creation)
		require.NoError(r.t, err)
		runs[i] = uuid.MustParse(created.GetRunId())
	}
	return runs
}

func (r *replica) registerFor(tenant, source string) {
	r.t.Helper()
	_, err := r.client.CreatePipeline(r.t.Context(), &systemv1.CreatePipelineRequest{Tenant: tenant, Source: source})
	require.NoError(r.t, err)
}

// streamHas waits until the stream of the class batch has n entries.
func (r *replica) streamHas(n int64) {
	r.t.Helper()
	testkit.Eventually(r.t, patience, func() error {
		length, err := r.redis.Client.XLen(r.t.Context(), r.redis.Prefix+":{steps}:batch").Result()
		if err == nil && length != n {
			err = fmt.Errorf("the stream has %d entries", length)
		}
		return err
	})
}

const dispatched = `core.step_live WHERE class = 'batch' AND status IN ('queued', 'running')`

// The backlog waits in PostgreSQL: no more is dispatched than the window holds, and what ends makes room at once.
func TestBacklogWaitsInPostgreSQL(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	// So many slots that twice as many are more than one runner gets through in 100 ms, one step after the other.
	n := r.batchRunner(40)
	r.createBatch(tenant, 120)
	r.eventually(80, dispatched)
	r.eventually(40, `core.step_live WHERE class = 'batch' AND status = 'ready'`)
	r.streamHas(80)
	for range 360 {
		n.stored(n.take().succeeded(`1`))
		require.LessOrEqual(t, r.count(dispatched), 80)
	}
	require.Equal(t, 120, r.count(`core.pipeline_run WHERE status = 'done'`))
	require.Zero(t, r.count(`core.step_live`))
}

// Runs that have begun go before those that have not, and tenants take turns.
func TestTurnsOfTenantsAndRuns(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	r.registerFor("small", chain)
	n := r.batchRunner(8)
	r.createBatch(tenant, 60)
	r.eventually(16, dispatched)
	small := r.createBatch("small", 4)
	var finished []uuid.UUID
	// Sixteen are in the stream already. Then every second step is the small tenant's, until it has none.
	for len(finished) < len(small) {
		w := n.take()
		n.stored(w.succeeded(`1`))
		run := runOf(w.Hold.GetStep())
		if w.GetTenant() == "small" && w.Hold.GetStep().GetStep() == "third" {
			finished = append(finished, run)
		}
	}
	require.ElementsMatch(t, small, finished)
	steps := r.count(`core.pipeline_step_result`)
	require.Less(t, steps, 100, "the large tenant has a hundred and eighty")
	begun := r.count(`core.pipeline_run WHERE tenant = $1 AND started_at IS NOT NULL`, tenant)
	require.Less(t, begun, 30, "the large tenant's own begun runs go first")
}

// Steps that are READY, and that no replica speaks for any more, are found.
func TestReadyStepsOfADeadReplicaAreDispatched(t *testing.T) {
	t.Parallel()
	stores := newStores(t)
	r := stores.replica(t)
	r.register(chain)
	run := r.create("chain", `{"text": 1}`)
	r.published(run)
	require.NoError(t, r.redis.Client.Del(t.Context(), r.interactive()).Err())
	r.exec(`UPDATE core.step_live SET status = 'ready', queued_at = NULL`)
	r.published(run)
	require.Equal(t, 1, r.count(`core.step_live WHERE status = 'queued'`))
}

// Two replicas share one window, and no step is dispatched twice.
func TestReplicasShareTheWindow(t *testing.T) {
	t.Parallel()
	stores := newStores(t)
	r := stores.replica(t)
	other := stores.replica(t)
	r.register(chain)
	n := r.batchRunner(8)
	r.createBatch(tenant, 20)
	other.createBatch(tenant, 20)
	m := other.batchRunner(8)
	m.client = other.client
	for i := range 120 {
		by := []*runner{n, m}[i%2]
		by.stored(by.take().succeeded(`1`))
	}
	require.Equal(t, 40, r.count(`core.pipeline_run WHERE status = 'done'`))
	require.Zero(t, r.count(`core.pipeline_step_result WHERE attempt <> 1`))
	r.streamHas(0)
}
