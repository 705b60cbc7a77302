package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
	"pawl.internal/services/testkit"
)

// ann is who decides in these tests.
func ann() machine.Actor { return machine.Actor{Name: "person:ann", Comment: "looked at it"} }

// review is the event that a person must judge the output.
func (b *bench) review(h held, output string) *store.Event {
	return &store.Event{
		Ref: h.Ref, Report: &store.Report{Worker: uuid.UUID(h.worker), Output: b.document(output)},
		Make: func(r machine.Ref, _ time.Time) machine.Event {
			return machine.ReviewRequested{
				Attempt: machine.Attempt{Claim: h.claim(r)}, Reason: machine.ReasonLowConfidence, Detail: "0.4",
			}
		},
	}
}

func TestReviewIsOpenedAndResolved(t *testing.T) {
	b := setup(t)
	b.chain("chain", 2)
	ref := b.next(b.create("chain"))
	b.submit(b.review(b.grant(ref), `{"amount":1}`))
	require.Equal(t, "needs_review", b.status(ref.RunID))
	require.Equal(t, "needs_review", b.stepStatus(ref))
	require.JSONEq(t, `{"amount":1}`, b.output(ref), "the result so far is kept")
	require.Equal(t, 1, b.count(`core.review WHERE run_id = $1 AND reason = 'low_confidence' AND detail = '0.4' AND resolved_at IS NULL`, ref.RunID))

	corrected := &store.Event{Ref: ref, Report: &store.Report{Output: b.document(`{"amount":2}`)}, Make: func(r machine.Ref, _ time.Time) machine.Event {
		return machine.OperatorCorrect{Actor: ann(), Ref: r}
	}}
	require.Equal(t, machine.Applied, b.submit(corrected))
	require.JSONEq(t, `{"amount":2}`, b.output(ref))
	require.Equal(t, 1, b.count(`core.review WHERE run_id = $1 AND resolved_by = 'person:ann' AND action = 'operator_correct'`, ref.RunID))
	require.Equal(t, 1, b.count(`core.run_event WHERE run_id = $1 AND actor = 'person:ann' AND kind = 'operator_correct'`, ref.RunID))
	require.Equal(t, "b", b.next(ref.RunID).Step)
	require.Equal(t, "running", b.status(ref.RunID))
}

// Two events of one group that write the same result split the group: both take effect, one after the other.
func TestReviewAndDecisionInOneGroup(t *testing.T) {
	b := setup(t)
	b.chain("chain", 1)
	h := b.grant(b.next(b.create("chain")))
	blocker := b.begin()
	_, err := blocker.Exec(t.Context(), `SELECT 1 FROM core.pipeline_run WHERE id = $1 FOR UPDATE`, h.RunID)
	require.NoError(t, err)
	corrected := &store.Event{Ref: h.Ref, Report: &store.Report{Output: b.document(`2`)}, Make: func(r machine.Ref, _ time.Time) machine.Event {
		return machine.OperatorCorrect{Actor: ann(), Ref: r}
	}}
	done := make(chan []error, 1)
	go func() { done <- b.store.Submit(t.Context(), b.review(h, `1`), corrected) }()
	b.awaitWaiting(1)
	require.NoError(t, blocker.Commit(t.Context()))
	require.Equal(t, []error{nil, nil}, <-done)
	require.Equal(t, "done", b.status(h.RunID))
	require.JSONEq(t, `2`, b.output(h.Ref))
	require.Zero(t, b.count(`core.review WHERE run_id = $1 AND resolved_at IS NULL`, h.RunID))
}

func TestRerunKeepsEarlierResults(t *testing.T) {
	b := setup(t)
	b.chain("chain", 2)
	run := b.create("chain")
	b.submit(b.succeed(b.grant(b.next(run)), `"first a"`))
	b.submit(b.succeed(b.grant(b.next(run)), `"first b"`))
	rerun := &store.Event{Ref: store.OfRun(run), Make: func(machine.Ref, time.Time) machine.Event {
		return machine.RerunFrom{Actor: ann(), Step: 1, Generation: 1}
	}}
	require.Equal(t, machine.Applied, b.submit(rerun))
	require.Equal(t, "running", b.status(run))
	require.Equal(t, 1, b.count(`core.step_history WHERE run_id = $1 AND step = 'b' AND output::text = '"first b"' AND generation = 1`, run))
	again := b.next(run)
	require.Equal(t, store.Ref{RunID: run, Step: "b", Shard: store.Whole, Generation: 2}, again)
	b.submit(b.succeed(b.grant(again), `"second b"`))
	require.Equal(t, "done", b.status(run))
	require.JSONEq(t, `"second b"`, b.output(again))
	require.JSONEq(t, `"first a"`, b.output(store.Ref{RunID: run, Step: "a", Shard: store.Whole}))
}

func TestPromotedRunChangesItsLane(t *testing.T) {
	b := setup(t)
	b.register(spec{Name: "fan", Steps: []stepSpec{{Name: "a", FanOut: true, Concurrency: 2}}})
	n := b.newRun("fan")
	n.Class = machine.Batch
	require.NoError(t, b.store.CreateRun(t.Context(), n))
	b.submit(b.expand(b.grant(b.next(n.ID)), `1`, `2`, `3`))
	b.submit(&store.Event{Ref: store.OfRun(n.ID), Make: func(machine.Ref, time.Time) machine.Event {
		return machine.Promoted{Actor: ann(), Class: machine.Interactive}
	}})
	require.Equal(t, 1, b.count(`core.pipeline_run WHERE id = $1 AND class = 'interactive'`, n.ID))
	require.Equal(t, 4, b.count(`core.step_live WHERE run_id = $1 AND class = 'interactive'`, n.ID), "rows that were not loaded too")
	require.Equal(t, 2, b.count(`core.step_live WHERE run_id = $1 AND status = 'ready'`, n.ID), "to be dispatched to the other stream")
}

// The claim of a step that changes the world outside is on disk, with the effect's row, before it is granted: no crash
// makes the effect without a trace.
func TestEffectIsOnRecordBeforeItIsGranted(t *testing.T) {
	server, b := forgetful(t)
	b.register(spec{Name: "outside", Steps: []stepSpec{{Name: "a", Effect: true}}})
	h := b.grant(b.next(b.create("outside")))
	server.Kill()
	require.NoError(t, server.Start(t.Context()))
	testkit.Eventually(t, 10*time.Second, func() error { return b.database.Pool.Ping(t.Context()) })
	require.Equal(t, "running", b.stepStatus(h.Ref))
	var key string
	b.scan(`SELECT key FROM core.effect WHERE run_id = $1 AND state = 'begun'`, []any{h.RunID}, &key)
	require.Equal(t, h.RunID.String()+"/a/-1/1", key)
}
