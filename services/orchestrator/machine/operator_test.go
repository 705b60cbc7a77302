package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
)

// inReview is a run of two steps whose first waits for a person.
func inReview(t *testing.T) *world {
	t.Helper()
	w := created(t, chain(usual(), usual()))
	held := w.start(0, whole)
	held.Calls, held.AsksSpent = 2, 1
	w.must(machine.ReviewRequested{Attempt: held, Reason: machine.ReasonLowConfidence, Detail: "0.4"})
	require.Equal(t, []machine.OpenReview{{Ref: held.Ref, Reason: machine.ReasonLowConfidence, Detail: "0.4"}}, effectsOf[machine.OpenReview](w))
	require.Equal(t, machine.StepNeedsReview, w.stored[held.Ref].Status, "the result so far is kept")
	return w
}

var ann = machine.Actor{Name: "person:ann", Comment: "checked"}

func TestOperatorRetry(t *testing.T) {
	t.Parallel()
	for name, ref := range map[string]machine.Ref{
		"this one": {Key: machine.Key{Step: 0, Shard: whole}, Generation: 1}, "all": everything(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := inReview(t)
			w.must(machine.OperatorRetry{Actor: ann, Ref: ref})
			l := w.live[machine.Key{Step: 0, Shard: whole}]
			require.Equal(t, machine.StepReady, l.Status)
			require.Equal(t, []int{0, 0, 0}, []int{l.Failures, l.Losses, l.Calls}, "counters start anew")
			require.Equal(t, 2, l.AskBase, "the next question is a new one")
			require.Equal(t, ann, effectsOf[machine.CloseReview](w)[0].Actor)
			require.Equal(t, ann, effectsOf[machine.Journal](w)[0].Actor)
			_, err := w.apply(machine.OperatorRetry{Actor: ann, Ref: ref})
			require.Error(t, err)
		})
	}
}

func TestOperatorRetryNeedsMoneyWhenItWasThat(t *testing.T) {
	t.Parallel()
	step := usual()
	step.OnError = machine.ReviewFailure
	w := created(t, chain(step))
	w.must(machine.BudgetExceeded{Attempt: w.start(0, whole)})
	_, err := w.apply(machine.OperatorRetry{Ref: w.ref(0, whole)})
	require.ErrorContains(t, err, "raise the budget first")
	w.must(machine.OperatorRetry{Ref: w.ref(0, whole), BudgetRaised: true})
}

func TestOperatorCorrect(t *testing.T) {
	t.Parallel()
	w := inReview(t)
	w.must(machine.OperatorCorrect{Actor: ann, Ref: w.ref(0, whole)})
	require.Equal(t, machine.StepDone, w.status(0, whole))
	require.Zero(t, w.stored[w.ref(0, whole)].Fence, "no claim has brought this result")
	require.Equal(t, machine.StepReady, w.status(1, whole))

	w = inReview(t)
	w.must(machine.OperatorCorrect{Actor: ann, Ref: w.ref(0, whole), Input: true})
	require.Equal(t, machine.StepReady, w.status(0, whole))
	w.finish(0, whole)
	_, err := w.apply(machine.OperatorCorrect{Actor: ann, Ref: w.ref(0, whole)})
	require.Error(t, err, "what is finished is not corrected")
}

func TestOperatorClose(t *testing.T) {
	t.Parallel()
	w := inReview(t)
	w.must(machine.OperatorClose{Actor: ann})
	require.Equal(t, machine.RunFailed, w.run.Status)
	require.Equal(t, machine.ReasonClosedByOperator, w.run.Reason)
	require.Equal(t, machine.StepCancelled, w.stored[w.ref(0, whole)].Status)
	require.Len(t, effectsOf[machine.CloseReviews](w), 1)
}

func TestAFailedRunIsOpenedAgain(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual(), usual(), usual()))
	w.finish(0, whole)
	w.must(machine.FailedPermanent{Attempt: w.start(1, whole), Reason: machine.ReasonAuth})
	w.now = w.now.Add(24 * time.Hour)
	w.must(machine.OperatorRetry{Actor: ann, Ref: everything()})
	require.Equal(t, machine.RunRunning, w.run.Status)
	require.Equal(t, []machine.StepStatus{done, ready, pending}, []machine.StepStatus{w.status(0, whole), w.status(1, whole), w.status(2, whole)})
	require.Equal(t, []machine.OpenSpend{{Epoch: 2}}, effectsOf[machine.OpenSpend](w))
	l := w.live[machine.Key{Step: 1, Shard: whole}]
	require.Equal(t, l.ReadyAt.Add(time.Hour), w.run.DeadlineAt, "a new deadline")
	require.Equal(t, []int{1, 1 << 16, 1, 0}, []int{l.Attempt, l.ClaimNo, l.AskBase, l.Failures})
	w.finish(1, whole)
	w.finish(2, whole)
	require.Equal(t, machine.RunDone, w.run.Status)
}

func TestWhichFailedRunsAreNotOpenedAgain(t *testing.T) {
	t.Parallel()
	w := created(t, undoable(effect(), usual()))
	w.finish(0, whole)
	w.must(machine.FailedPermanent{Attempt: w.start(1, whole), Reason: machine.ReasonAuth})
	w.finish(2, whole)
	_, err := w.apply(machine.OperatorRetry{Ref: everything()})
	require.ErrorContains(t, err, "effects were undone")

	w = created(t, chain(usual()))
	w.must(machine.BudgetExceeded{Attempt: w.start(0, whole)})
	_, err = w.apply(machine.OperatorRetry{Ref: everything()})
	require.ErrorContains(t, err, "raise the budget first")
	w.must(machine.OperatorRetry{Ref: everything(), BudgetRaised: true})
}

func TestRerunFrom(t *testing.T) {
	t.Parallel()
	plan := chain(usual(), usual(), usual(), usual())
	plan.Steps[3].Needs = []int{0}
	w := created(t, plan)
	for _, i := range []int{0, 1, 2, 3} {
		w.finish(i, whole)
	}
	w.must(machine.RerunFrom{Actor: ann, Step: 1, Generation: 1})
	require.Equal(t, machine.RunRunning, w.run.Status)
	require.Equal(t, []machine.StepStatus{done, ready, pending, done}, []machine.StepStatus{
		w.status(0, whole), w.status(1, whole), w.status(2, whole), w.status(3, whole),
	})
	require.Equal(t, 2, w.run.StepsDone)
	require.Equal(t, []machine.ArchiveResults{{Step: 1}, {Step: 2}}, effectsOf[machine.ArchiveResults](w))
	require.Len(t, effectsOf[machine.OpenSpend](w), 1)
	l := w.live[machine.Key{Step: 1, Shard: whole}]
	require.Equal(t, []int{2, 0, 0}, []int{l.Generation, l.Attempt, l.AskBase}, "all starts anew")
	w.finish(1, whole)
	w.finish(2, whole)
	require.Equal(t, machine.RunDone, w.run.Status)
}

func TestRerunUndoesEffectsFirst(t *testing.T) {
	t.Parallel()
	w := created(t, undoable(usual(), effect(), usual()))
	w.finish(0, whole)
	w.finish(1, whole)
	w.finish(2, whole)
	w.must(machine.RerunFrom{Step: 1, Generation: 1})
	require.Equal(t, machine.RunCompensating, w.run.Status)
	w.finish(3, whole)
	require.Equal(t, machine.RunRunning, w.run.Status)
	require.Equal(t, machine.StepReady, w.status(1, whole))
	require.Equal(t, 2, w.run.State.Heads[1].Generation)
	w.finish(1, whole)
	w.must(machine.FailedPermanent{Attempt: w.start(2, whole), Reason: machine.ReasonAuth})
	require.Equal(t, 2, w.live[machine.Key{Step: 3, Shard: whole}].Generation, "the new effect has an undo of its own")
	w.finish(3, whole)
	require.Equal(t, machine.UndoneAll, w.run.Undo)
}

func TestWhatRerunRefuses(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual(), effect(), usual()))
	w.finish(0, whole)
	w.finish(1, whole)
	_, err := w.apply(machine.RerunFrom{Step: 0, Generation: 1})
	require.ErrorContains(t, err, "not possible in state running")
	w.must(machine.FailedPermanent{Attempt: w.start(2, whole), Reason: machine.ReasonAuth})
	for step, why := range map[int]string{-1: "no such step", 3: "no such step", 1: "cannot be undone", 0: "cannot be undone"} {
		_, err = w.apply(machine.RerunFrom{Step: step, Generation: 1})
		require.ErrorContains(t, err, why)
	}
	var stale *machine.StaleError
	_, err = w.apply(machine.RerunFrom{Step: 2, Generation: 2})
	require.ErrorAs(t, err, &stale)
	w.must(machine.RerunFrom{Step: 1, Generation: 1, KeepEffects: true})
	require.Equal(t, machine.StepReady, w.status(1, whole))
}

func TestRerunOfABranchNeedsTheOthersToBeFinished(t *testing.T) {
	t.Parallel()
	plan := chain(usual(), usual())
	plan.Steps[1].Needs = nil
	w := created(t, plan)
	w.finish(1, whole)
	w.must(machine.FailedPermanent{Attempt: w.start(0, whole), Reason: machine.ReasonAuth})
	_, err := w.apply(machine.RerunFrom{Step: 1, Generation: 1})
	require.ErrorContains(t, err, "a has failed and would not run again")
	w.must(machine.RerunFrom{Step: 0, Generation: 1})
	w.finish(0, whole)
	require.Equal(t, machine.RunDone, w.run.Status)
}

// TestAnEndIsAnEnd applies every kind of event to ended runs: only OperatorRetry of a FAILED one and RerunFrom do anything.
func TestAnEndIsAnEnd(t *testing.T) {
	t.Parallel()
	ends := map[machine.RunStatus]func(w *world){
		machine.RunDone: func(w *world) { w.finish(0, whole) },
		machine.RunFailed: func(w *world) {
			w.must(machine.FailedPermanent{Attempt: w.start(0, whole), Reason: machine.ReasonAuth})
		},
		machine.RunCancelled: func(w *world) { w.must(machine.CancelRequested{}) },
	}
	for status, end := range ends {
		for _, ev := range oneOfEachKind(machine.Ref{Key: machine.Key{Step: 0, Shard: whole}, Generation: 1}) {
			t.Run(string(status)+" "+string(ev.Kind()), func(t *testing.T) {
				t.Parallel()
				w := created(t, chain(usual()))
				end(w)
				w.now = w.now.Add(48 * time.Hour)
				before := w.snapshot()
				out, err := w.apply(ev)
				opens := ev.Kind() == machine.KindRerunFrom || ev.Kind() == machine.KindOperatorRetry && status == machine.RunFailed
				if opens {
					require.NoError(t, err)
					require.False(t, w.run.Status.Terminal())
					return
				}
				require.True(t, err != nil || out.Answer != machine.Applied, "%s is applied", ev.Kind())
				require.Equal(t, before, w.snapshot())
			})
		}
	}
}

// oneOfEachKind returns an event of every kind that can be submitted.
func oneOfEachKind(ref machine.Ref) []machine.Event {
	claim := machine.Claim{Ref: ref, Fence: machine.ID{0xff}, ClaimNo: 1}
	attempt := machine.Attempt{Claim: claim}
	return []machine.Event{
		machine.Created{},
		machine.Dispatched{Ref: ref},
		machine.Claimed{Ref: ref, Fence: claim.Fence},
		machine.Readopted{Claim: claim},
		machine.Succeeded{Attempt: attempt},
		machine.Skipped{Attempt: attempt},
		machine.Expanded{Attempt: attempt, Total: 1},
		machine.Parked{Attempt: attempt, Until: epochStart},
		machine.Woken{Ref: ref},
		machine.HardTimeout{Ref: ref, Fence: claim.Fence},
		machine.Ambiguous{Attempt: attempt},
		machine.FailedTransient{Attempt: attempt, Reason: machine.ReasonNetwork},
		machine.FailedPermanent{Attempt: attempt, Reason: machine.ReasonAuth},
		machine.BudgetExceeded{Attempt: attempt},
		machine.ReviewRequested{Attempt: attempt, Reason: machine.ReasonLowConfidence},
		machine.Released{Claim: claim},
		machine.LeaseExpired{Ref: ref, Fence: claim.Fence},
		machine.Overdue{Ref: ref},
		machine.RetryDue{Ref: ref},
		machine.DeadlinePassed{},
		machine.CancelRequested{},
		machine.Promoted{Class: machine.Interactive},
		machine.Paused{},
		machine.Resumed{},
		machine.OperatorRetry{Ref: everything()},
		machine.OperatorCorrect{Ref: ref},
		machine.OperatorClose{},
		machine.RerunFrom{Step: 0, Generation: 1},
	}
}

// A worker that was at a step when its run was cancelled has no part in the step when the run is opened again: its claim is
// not one that a crash of PostgreSQL has forgotten.
func TestAClaimFromBeforeTheRunWasOpenedAgainIsStale(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chain(machine.Step{}, machine.Step{}))
	w.must(machine.Created{})
	before := w.start(0, whole)
	w.must(machine.CancelRequested{})
	w.must(machine.RerunFrom{Step: 1, Generation: 1})
	require.Equal(t, machine.StepReady, w.status(0, whole))
	require.Equal(t, before.Ref, w.ref(0, whole), "it goes on in its generation")

	out := w.must(machine.Readopted{Claim: before.Claim})
	require.Equal(t, machine.StopFenced, out.Answer)
	var stale *machine.StaleError
	_, err := w.apply(machine.FailedPermanent{Attempt: before, Reason: machine.ReasonCancelled})
	require.ErrorAs(t, err, &stale)
	_, err = w.apply(machine.Succeeded{Attempt: before})
	require.ErrorAs(t, err, &stale)

	// A claim that PostgreSQL has forgotten since counts as ever.
	forgotten := before
	forgotten.Fence, forgotten.ClaimNo = w.fence(), w.live[before.Key].ClaimNo+1
	w.must(machine.Succeeded{Attempt: forgotten})
	require.Equal(t, machine.StepDone, w.status(0, whole))
}
