package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
)

// fanOut is a plan of a fan-out and a step after it.
func fanOut(concurrency int, onError machine.OnError) *machine.Plan {
	step := usual()
	step.FanOut, step.Concurrency, step.OnError = true, concurrency, onError
	return chain(step, usual())
}

func expanded(t *testing.T, plan *machine.Plan, total int) *world {
	t.Helper()
	w := created(t, plan)
	w.must(machine.Expanded{Attempt: w.start(0, whole), Total: total})
	return w
}

func (w *world) shards(n int) []machine.StepStatus {
	states := make([]machine.StepStatus, n)
	for i := range states {
		states[i] = w.status(0, i)
	}
	return states
}

const (
	pending = machine.StepPending
	ready   = machine.StepReady
	done    = machine.StepDone
)

func TestShardsRunAFewAtATime(t *testing.T) {
	t.Parallel()
	w := expanded(t, fanOut(2, machine.FailRun), 4)
	require.Equal(t, machine.StepExpanded, w.status(0, whole))
	require.Equal(t, []machine.StepStatus{ready, ready, pending, pending}, w.shards(4))
	w.finish(0, 1)
	require.Equal(t, []machine.StepStatus{ready, done, ready, pending}, w.shards(4))
	require.Equal(t, 0, w.run.StepsDone, "a fan-out is one step")
	w.finish(0, 0)
	w.finish(0, 3)
	w.finish(0, 2)
	require.Equal(t, machine.StepDone, w.status(0, whole))
	require.Equal(t, machine.StepReady, w.status(1, whole))
	require.Equal(t, 1, w.run.StepsDone)
	require.Equal(t, machine.Shards{Total: 4, Done: 4, Next: 4}, w.run.State.Heads[0].Shards)
}

func TestAFanOutOfNothingIsDone(t *testing.T) {
	t.Parallel()
	w := expanded(t, fanOut(2, machine.FailRun), 0)
	require.Equal(t, machine.StepDone, w.status(0, whole))
	require.Equal(t, machine.StepReady, w.status(1, whole))
}

func TestWhatAFanOutRefuses(t *testing.T) {
	t.Parallel()
	w := created(t, fanOut(2, machine.FailRun))
	held := w.start(0, whole)
	for why, ev := range map[string]machine.Event{
		"at most 10000":       machine.Expanded{Attempt: held, Total: machine.MaxShards + 1},
		"this one -1":         machine.Expanded{Attempt: held, Total: -1},
		"fan-out is expanded": machine.Succeeded{Attempt: held},
	} {
		_, err := w.apply(ev)
		require.ErrorContains(t, err, why)
	}
	w.must(machine.Skipped{Attempt: held})
	_, err := w.apply(machine.Expanded{Attempt: w.start(1, whole), Total: 1})
	require.ErrorContains(t, err, "not a fan-out")
}

func TestAShardThatWaitsLetsTheNextOneRun(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(w *world, held machine.Attempt) machine.StepStatus{
		"in review": func(w *world, held machine.Attempt) machine.StepStatus {
			w.must(machine.ReviewRequested{Attempt: held, Reason: machine.ReasonLowConfidence})
			return machine.StepNeedsReview
		},
		"parked": func(w *world, held machine.Attempt) machine.StepStatus {
			w.must(machine.Parked{Attempt: held, Until: w.now.Add(time.Minute)})
			return machine.StepWaiting
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := expanded(t, fanOut(1, machine.FailRun), 2)
			state := leave(w, w.start(0, 0))
			require.Equal(t, []machine.StepStatus{state, ready}, w.shards(2))
		})
	}
}

func TestAShardInBackoffKeepsItsPlace(t *testing.T) {
	t.Parallel()
	w := expanded(t, fanOut(1, machine.FailRun), 2)
	w.must(machine.FailedTransient{Attempt: w.start(0, 0), Reason: machine.ReasonNetwork})
	require.Equal(t, []machine.StepStatus{machine.StepBackoff, pending}, w.shards(2))
}

func TestAFanOutInReviewStaysExpanded(t *testing.T) {
	t.Parallel()
	w := expanded(t, fanOut(2, machine.ReviewFailure), 2)
	w.must(machine.FailedPermanent{Attempt: w.start(0, 0), Reason: machine.ReasonContentRefused})
	w.finish(0, 1)
	require.Equal(t, machine.StepExpanded, w.status(0, whole))
	require.Equal(t, machine.RunNeedsReview, w.run.Status)
	require.Equal(t, machine.ReasonContentRefused, w.run.Reason)
	w.must(machine.OperatorCorrect{Ref: w.ref(0, 0)})
	require.Equal(t, machine.StepDone, w.status(0, whole))
	require.Equal(t, machine.StepReady, w.status(1, whole))
}

func TestAFailedShardUnderContinueIsNull(t *testing.T) {
	t.Parallel()
	w := expanded(t, fanOut(2, machine.ContinueRun), 2)
	w.must(machine.FailedPermanent{Attempt: w.start(0, 0), Reason: machine.ReasonContentRefused})
	require.Equal(t, []machine.StepStatus{machine.StepFailed, ready}, w.shards(2))
	w.finish(0, 1)
	require.Equal(t, machine.StepDone, w.status(0, whole))
	require.Equal(t, 1, w.run.State.Heads[0].Shards.Failed)
}

func TestAFailedShardEndsTheOthers(t *testing.T) {
	t.Parallel()
	w := expanded(t, fanOut(2, machine.FailRun), 4)
	w.finish(0, 0)
	w.start(0, 1)
	w.must(machine.FailedPermanent{Attempt: w.start(0, 2), Reason: machine.ReasonContentRefused})
	require.Equal(t, machine.RunFailed, w.run.Status)
	require.Equal(t, machine.StepFailed, w.status(0, whole))
	require.Equal(t, []machine.StepStatus{done, machine.StepCancelled, machine.StepFailed, machine.StepCancelled}, w.shards(4))
	require.Equal(t, machine.ReasonContentRefused, w.stored[w.ref(0, whole)].Reason)
}

func TestAFanOutThatIsOpenedAgainKeepsWhatIsFinished(t *testing.T) {
	t.Parallel()
	w := expanded(t, fanOut(2, machine.FailRun), 5)
	w.finish(0, 0)
	w.finish(0, 2)
	failed := w.start(0, 1)
	failed.AsksSpent = 2
	w.must(machine.FailedPermanent{Attempt: failed, Reason: machine.ReasonSchemaMismatch})
	require.Equal(t, machine.RunFailed, w.run.Status)

	w.must(machine.OperatorRetry{Ref: everything()})
	held := w.start(0, whole)
	_, err := w.apply(machine.Expanded{Attempt: held, Total: 4})
	require.ErrorContains(t, err, "had 5 items before, now 4")
	w.must(machine.Expanded{Attempt: held, Total: 5})
	require.Equal(t, []machine.StepStatus{done, ready, done, ready, pending}, w.shards(5))
	require.Equal(t, machine.Shards{Total: 5, Done: 2, Active: 2, Next: 4}, w.run.State.Heads[0].Shards)
	again := w.live[machine.Key{Step: 0, Shard: 1}]
	require.Equal(t, []int{1, 1 << 16, 3}, []int{again.Attempt, again.ClaimNo, again.AskBase}, "its counters go on, and it asks anew")
	for _, shard := range []int{1, 3, 4} {
		w.finish(0, shard)
	}
	require.Equal(t, machine.StepDone, w.status(0, whole))
}

// TestTheLargestFanOut shows that a shard's end costs the same however many there are.
func TestTheLargestFanOut(t *testing.T) {
	t.Parallel()
	plan := fanOut(100, machine.FailRun)
	run := machine.NewRun(plan, machine.Batch, epochStart, time.Time{}, 0)
	rows := machine.NewRows(nil, nil)
	apply := func(ev machine.Event) {
		_, err := machine.Apply(plan, run, rows, ev, epochStart, func() float64 { return 0 })
		require.NoError(t, err)
	}
	ref := func(shard int) machine.Ref {
		return machine.Ref{Key: machine.Key{Step: 0, Shard: shard}, Generation: 1}
	}
	start := func(shard int) machine.Attempt {
		fence := machine.ID{1, byte(shard), byte(shard >> 8)}
		apply(machine.Dispatched{Ref: ref(shard)})
		apply(machine.Claimed{Ref: ref(shard), Fence: fence})
		return machine.Attempt{Claim: machine.Claim{Ref: ref(shard), Fence: fence, ClaimNo: 1}}
	}
	apply(machine.Created{})
	apply(machine.Expanded{Attempt: start(whole), Total: machine.MaxShards})
	for shard := range machine.MaxShards {
		apply(machine.Succeeded{Attempt: start(shard)})
	}
	require.Equal(t, 1, run.StepsDone)
}

// BenchmarkRun measures a run of three steps from creation to its end, rows loaded once: 10 events.
func BenchmarkRun(b *testing.B) {
	plan := chain(usual(), usual(), usual())
	for b.Loop() {
		run := machine.NewRun(plan, machine.Batch, epochStart, time.Time{}, 0)
		rows := machine.NewRows(nil, nil)
		apply := func(ev machine.Event) {
			if _, err := machine.Apply(plan, run, rows, ev, epochStart, func() float64 { return 0 }); err != nil {
				b.Fatal(err)
			}
		}
		apply(machine.Created{})
		for i := range 3 {
			ref := machine.Ref{Key: machine.Key{Step: i, Shard: whole}, Generation: 1}
			apply(machine.Dispatched{Ref: ref})
			apply(machine.Claimed{Ref: ref, Fence: machine.ID{1}})
			apply(machine.Succeeded{Attempt: machine.Attempt{Claim: machine.Claim{Ref: ref, Fence: machine.ID{1}, ClaimNo: 1}}})
		}
		if run.Status != machine.RunDone {
			b.Fatal(run.Status)
		}
	}
}
