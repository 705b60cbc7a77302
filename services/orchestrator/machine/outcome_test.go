package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
)

func TestARunOfThreeSteps(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual(), usual(), usual()))
	for i := range 3 {
		current, ok := w.run.CurrentStep(w.plan)
		require.True(t, ok)
		require.Equal(t, i, current)
		require.Equal(t, machine.StepReady, w.status(i, whole))
		w.finish(i, whole)
		require.Equal(t, i+1, w.run.StepsDone)
	}
	require.Equal(t, machine.RunDone, w.run.Status)
	require.Equal(t, []machine.OweCallback{{Event: machine.CallbackDone, Seq: w.run.Seq}}, effectsOf[machine.OweCallback](w))
	require.Empty(t, effectsOf[machine.CloseSpend](w), "a run that is done begins no call")
}

func TestSkippedCountsAsFinished(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual(), usual()))
	w.must(machine.Skipped{Attempt: w.start(0, whole)})
	require.Equal(t, machine.StepSkipped, w.status(0, whole))
	require.Equal(t, machine.StepReady, w.status(1, whole))
	require.Equal(t, 1, w.run.StepsDone)
}

func TestAStepWaitsForAllThatItNeeds(t *testing.T) {
	t.Parallel()
	plan := chain(usual(), usual(), usual())
	plan.Steps[1].Needs, plan.Steps[2].Needs = nil, []int{0, 1}
	w := created(t, plan)
	require.Len(t, w.live, 2, "both first steps are READY at once")
	w.finish(1, whole)
	require.Equal(t, machine.StepPending, w.status(2, whole))
	w.finish(0, whole)
	require.Equal(t, machine.StepReady, w.status(2, whole))
}

func TestTransientFailuresBackOff(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual()))
	fail := func(after time.Duration) time.Duration {
		held := w.start(0, whole)
		w.must(machine.FailedTransient{Attempt: held, Reason: machine.ReasonProvider503, RetryAfter: after})
		return w.live[held.Key].DueAt.Sub(w.now)
	}
	// The world's randomness is always one half: jitter 0.2 adds a tenth, and half a second goes on top of a stated wait.
	require.InDelta(t, 5500*time.Millisecond, fail(0), float64(time.Millisecond))
	require.Equal(t, machine.StepBackoff, w.status(0, whole))
	_, err := w.apply(machine.RetryDue{Ref: w.ref(0, whole)})
	require.ErrorContains(t, err, "not due yet")
	w.now = w.live[machine.Key{Step: 0, Shard: whole}].DueAt
	w.must(machine.RetryDue{Ref: w.ref(0, whole)})
	require.InDelta(t, 30500*time.Millisecond, fail(30*time.Second), float64(time.Millisecond))
}

func TestUsedUpAttemptsEndTheRun(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual(), usual()))
	for range 2 {
		w.must(machine.FailedTransient{Attempt: w.start(0, whole), Reason: machine.ReasonProvider429})
		w.now = w.live[machine.Key{Step: 0, Shard: whole}].DueAt
		w.must(machine.RetryDue{Ref: w.ref(0, whole)})
	}
	w.must(machine.FailedTransient{Attempt: w.start(0, whole), Reason: machine.ReasonProvider503})
	require.Equal(t, machine.RunFailed, w.run.Status)
	require.Equal(t, machine.ReasonProvider503, w.run.Reason, "the last reason")
	require.Equal(t, machine.StepFailed, w.status(0, whole))
	require.Equal(t, machine.StepCancelled, w.status(1, whole))
	require.Equal(t, machine.UndoNone, w.run.Undo)
	require.Equal(t, 3, w.stored[w.ref(0, whole)].Attempt)
}

func TestUsedUpCallsEndTheStep(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual()))
	held := w.start(0, whole)
	held.Calls = 8
	w.must(machine.FailedTransient{Attempt: held, Reason: machine.ReasonTruncated})
	require.Equal(t, machine.RunFailed, w.run.Status)
	require.Equal(t, machine.ReasonTruncated, w.run.Reason)
}

func TestAnswersAtFaultAreNotAskedForAgain(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual()))
	held := w.start(0, whole)
	held.AsksSpent = 2
	w.must(machine.FailedTransient{Attempt: held, Reason: machine.ReasonSchemaMismatch})
	require.Equal(t, 2, w.live[held.Key].AskBase)
	w.now = w.live[held.Key].DueAt
	w.must(machine.RetryDue{Ref: held.Ref})
	held = w.start(0, whole)
	w.must(machine.LeaseExpired{Ref: held.Ref, Fence: held.Fence})
	held = w.start(0, whole)
	w.must(machine.FailedTransient{Attempt: held, Reason: machine.ReasonProvider503})
	require.Equal(t, 2, w.live[held.Key].AskBase, "neither a lost lease nor a missing answer spends a question")
}

func TestARetryPastTheDeadlineEndsTheRunNow(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual()))
	w.must(machine.FailedTransient{Attempt: w.start(0, whole), Reason: machine.ReasonProvider429, RetryAfter: 2 * time.Hour})
	require.Equal(t, machine.RunFailed, w.run.Status)
	require.Equal(t, machine.ReasonDeadlineExceeded, w.run.Reason)
	require.Contains(t, w.run.Detail, "provider_429")
	require.Equal(t, machine.ReasonProvider429, w.stored[w.ref(0, whole)].Reason)
}

func TestWhatAFailureMeansForTheRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		onError machine.OnError
		budget  bool
		run     machine.RunStatus
		step    machine.StepStatus
		next    machine.StepStatus
		done    int
	}{
		"fail":               {machine.FailRun, false, machine.RunFailed, machine.StepFailed, machine.StepCancelled, 0},
		"continue":           {machine.ContinueRun, false, machine.RunRunning, machine.StepFailed, machine.StepReady, 1},
		"review":             {machine.ReviewFailure, false, machine.RunNeedsReview, machine.StepNeedsReview, machine.StepPending, 0},
		"fail, no money":     {machine.FailRun, true, machine.RunFailed, machine.StepFailed, machine.StepCancelled, 0},
		"continue, no money": {machine.ContinueRun, true, machine.RunFailed, machine.StepFailed, machine.StepCancelled, 0},
		"review, no money":   {machine.ReviewFailure, true, machine.RunNeedsReview, machine.StepNeedsReview, machine.StepPending, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step := usual()
			step.OnError = c.onError
			w := created(t, chain(step, usual()))
			var ev machine.Event = machine.FailedPermanent{Attempt: w.start(0, whole), Reason: machine.ReasonInvalidInput}
			if c.budget {
				ev = machine.BudgetExceeded{Attempt: w.holder(0, whole)}
			}
			w.must(ev)
			require.Equal(t, c.run, w.run.Status)
			require.Equal(t, c.step, w.status(0, whole))
			require.Equal(t, c.next, w.status(1, whole))
			require.Equal(t, c.done, w.run.StepsDone)
		})
	}
}

func TestCallsOfUnknownFate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy machine.OnAmbiguous
		times  int
		step   machine.StepStatus
		ok     int
	}{
		"retry, once":      {machine.RetryAmbiguous, 1, machine.StepBackoff, 1},
		"retry, not twice": {machine.RetryAmbiguous, 2, machine.StepFailed, 1},
		"review":           {machine.ReviewAmbiguous, 1, machine.StepNeedsReview, 0},
		"fail":             {machine.FailAmbiguous, 1, machine.StepFailed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step := usual()
			step.OnAmbiguous = c.policy
			w := created(t, chain(step))
			for i := range c.times {
				if i > 0 {
					w.now = w.live[machine.Key{Step: 0, Shard: whole}].DueAt
					w.must(machine.RetryDue{Ref: w.ref(0, whole)})
				}
				w.must(machine.Ambiguous{Attempt: w.start(0, whole)})
			}
			require.Equal(t, c.step, w.status(0, whole))
			if l, live := w.live[machine.Key{Step: 0, Shard: whole}]; live {
				require.Equal(t, c.ok, l.AmbiguousOK)
				require.Zero(t, l.Failures)
			} else {
				require.Equal(t, machine.ReasonCallAmbiguous, w.run.Reason)
			}
		})
	}
}

func TestAParkedStepWaitsWithoutAnAttempt(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual()))
	held := w.start(0, whole)
	until := w.now.Add(10 * time.Minute)
	w.must(machine.Parked{Attempt: held, Until: until, Reason: machine.ReasonProvider429})
	l := w.live[held.Key]
	require.Equal(t, machine.StepWaiting, l.Status)
	require.Equal(t, until, l.DueAt)
	require.Equal(t, []int{0, 1}, []int{l.Attempt, l.ClaimNo})
	_, err := w.apply(machine.Woken{Ref: held.Ref, Timed: true})
	require.ErrorContains(t, err, "not due yet", "a timer of an earlier wait")
	w.must(machine.Woken{Ref: held.Ref})
	require.Equal(t, machine.StepReady, w.status(0, whole), "what it waits for came before")

	held = w.start(0, whole)
	w.must(machine.Parked{Attempt: held, Until: w.now.Add(time.Minute)})
	w.now = w.live[held.Key].DueAt
	w.must(machine.Woken{Ref: held.Ref, Timed: true})

	held = w.start(0, whole)
	w.must(machine.Parked{Attempt: held, Until: w.now.Add(24 * time.Hour)})
	require.Equal(t, w.run.DeadlineAt, w.live[held.Key].DueAt, "the deadline bounds a wait")
	_, err = w.apply(machine.Parked{Attempt: held})
	require.ErrorContains(t, err, "needs a time")
}

// parkFor claims the first step and parks it.
func parkFor(w *world, reason machine.Reason, wait time.Duration) machine.Attempt {
	held := w.start(0, whole)
	w.must(machine.Parked{Attempt: held, Until: w.now.Add(wait), Reason: reason, Detail: "come back later"})
	return held
}

// A provider that says again and again when to come back is not asked for ever: waits cost no attempt, but requests count.
func TestStatedWaitsEndWithTheRequestsThatAStepMaySend(t *testing.T) {
	t.Parallel()
	step := usual()
	step.MaxCalls = 3
	w := created(t, chain(step))
	for sent := 1; sent <= step.MaxCalls; sent++ {
		held := w.start(0, whole)
		held.Calls = 1
		w.must(machine.Parked{Attempt: held, Until: w.now.Add(time.Minute), Reason: machine.ReasonProvider429, Detail: "slow down"})
		if sent < step.MaxCalls {
			require.Equal(t, machine.StepWaiting, w.status(0, whole), "after %d requests", sent)
			w.must(machine.Woken{Ref: held.Ref})
		}
	}
	require.Equal(t, machine.RunFailed, w.run.Status)
	require.Equal(t, machine.ReasonProvider429, w.run.Reason)
}

// A wait that a provider asks for is no reason to let people wait for an end that is certain.
func TestAStatedWaitPastTheDeadlineEndsTheRunNow(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual(), usual()))
	held := parkFor(w, machine.ReasonQuotaExhausted, 2*time.Hour)
	require.Equal(t, machine.RunFailed, w.run.Status)
	require.Equal(t, machine.ReasonDeadlineExceeded, w.run.Reason)
	require.Contains(t, w.run.Detail, "quota_exhausted")
	result := w.stored[held.Ref]
	require.Equal(t, []any{machine.StepFailed, machine.ReasonQuotaExhausted, 1}, []any{result.Status, result.Reason, result.Attempt})
	require.Equal(t, machine.StepCancelled, w.status(1, whole))
	require.Len(t, effectsOf[machine.CloseSpend](w), 1)
	require.Equal(t, machine.CallbackFailed, effectsOf[machine.OweCallback](w)[0].Event)
}

func TestWaitsThatDoNotEndTheRun(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]struct {
		reason machine.Reason
		until  time.Duration // after the deadline
		due    time.Duration // likewise
	}{
		"to the deadline":                    {machine.ReasonProvider429, 0, 0},
		"for something that may come before": {"", time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := created(t, chain(usual()))
			held := w.start(0, whole)
			w.must(machine.Parked{Attempt: held, Until: w.run.DeadlineAt.Add(wait.until), Reason: wait.reason})
			require.Equal(t, machine.StepWaiting, w.status(0, whole))
			require.Equal(t, w.run.DeadlineAt.Add(wait.due), w.live[held.Key].DueAt)
		})
	}
}

func TestAStatedWaitPastTheDeadlineLeavesEffectsToTheirRules(t *testing.T) {
	t.Parallel()
	t.Run("one in doubt goes to a person", func(t *testing.T) {
		t.Parallel()
		w := created(t, chain(effect()))
		held := w.start(0, whole)
		w.must(machine.LeaseExpired{Ref: held.Ref, Fence: held.Fence})
		parkFor(w, machine.ReasonProvider429, 2*time.Hour)
		require.Equal(t, machine.StepNeedsReview, w.status(0, whole))
		require.Equal(t, machine.RunNeedsReview, w.run.Status)
	})
	t.Run("one that is awaited is let go", func(t *testing.T) {
		t.Parallel()
		w := created(t, chain(effect()))
		held := w.start(0, whole)
		w.must(machine.CancelRequested{})
		w.must(machine.Parked{Attempt: held, Until: w.now.Add(2 * time.Hour), Reason: machine.ReasonProvider429})
		require.Equal(t, machine.RunCancelled, w.run.Status)
		require.Equal(t, machine.StepCancelled, w.status(0, whole))
	})
	t.Run("an undo has no deadline", func(t *testing.T) {
		t.Parallel()
		w := created(t, undoable(effect(), usual()))
		w.finish(0, whole)
		w.must(machine.FailedPermanent{Attempt: w.start(1, whole), Reason: machine.ReasonBusinessRule})
		held := w.start(2, whole)
		until := w.now.Add(2 * time.Hour)
		w.must(machine.Parked{Attempt: held, Until: until, Reason: machine.ReasonProvider429})
		require.Equal(t, until, w.live[held.Key].DueAt)
	})
}

func TestARunMayBeginLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chain(usual()))
	begin := w.now.Add(time.Hour)
	w.run = *machine.NewRun(w.plan, machine.Batch, w.now, begin, 10*time.Minute)
	w.must(machine.Created{})
	require.Equal(t, begin.Add(10*time.Minute), w.run.DeadlineAt, "the deadline counts from the beginning")
	require.Equal(t, machine.StepWaiting, w.status(0, whole))
	_, err := w.apply(machine.Woken{Ref: w.ref(0, whole)})
	require.ErrorContains(t, err, "may not begin yet")
	w.now = begin
	w.must(machine.Woken{Ref: w.ref(0, whole)})
	require.Equal(t, machine.StepReady, w.status(0, whole))
}

func TestTheDeadlineStandsStillOnlyWhileNothingCanMove(t *testing.T) {
	t.Parallel()
	plan := chain(usual(), usual())
	plan.Steps[1].Needs = nil
	w := created(t, plan)
	deadline := w.run.DeadlineAt
	w.must(machine.ReviewRequested{Attempt: w.start(0, whole), Reason: machine.ReasonLowConfidence})
	require.Equal(t, machine.RunRunning, w.run.Status, "the other branch moves")
	require.Equal(t, deadline, w.run.DeadlineDue())

	w.must(machine.Skipped{Attempt: w.start(1, whole)})
	require.Equal(t, machine.RunNeedsReview, w.run.Status)
	require.Equal(t, machine.ReasonLowConfidence, w.run.Reason)
	require.Equal(t, machine.CallbackNeedsReview, effectsOf[machine.OweCallback](w)[0].Event)
	require.Zero(t, w.run.DeadlineDue())
	paused := w.run.PausedAt
	w.now = deadline.Add(time.Hour)
	_, err := w.apply(machine.DeadlinePassed{})
	require.Error(t, err)

	w.must(machine.OperatorRetry{Ref: w.ref(0, whole)})
	require.Equal(t, machine.RunRunning, w.run.Status)
	require.Equal(t, deadline.Add(w.live[machine.Key{Step: 0, Shard: whole}].ReadyAt.Sub(paused)), w.run.DeadlineAt)
	_, err = w.apply(machine.DeadlinePassed{})
	require.ErrorContains(t, err, "has not passed")
}

func TestDeadlinePassedEndsTheRun(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual(), usual()))
	w.start(0, whole)
	w.now = w.run.DeadlineAt
	w.must(machine.DeadlinePassed{})
	require.Equal(t, machine.RunFailed, w.run.Status)
	require.Equal(t, machine.ReasonDeadlineExceeded, w.run.Reason)
	require.Equal(t, []machine.CloseSpend{{Epoch: 1}}, effectsOf[machine.CloseSpend](w))
	require.Equal(t, machine.AllSteps, effectsOf[machine.CancelCalls](w)[0].Step)
	require.Equal(t, machine.CallbackFailed, effectsOf[machine.OweCallback](w)[0].Event)
}
