package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
)

// effect is a step with an outside effect.
func effect() machine.Step {
	step := usual()
	step.Effect = true
	return step
}

// besides is an outside effect and a step that runs at the same time.
func besides() *machine.Plan {
	plan := chain(effect(), usual(), usual())
	plan.Steps[1].Needs = nil
	return plan
}

func TestCancelEndsARunAtOnce(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(w *world){
		"queued":  func(*world) {},
		"running": func(w *world) { w.start(0, whole) },
		"backoff": func(w *world) {
			w.must(machine.FailedTransient{Attempt: w.start(0, whole), Reason: machine.ReasonNetwork})
		},
		"waiting": func(w *world) {
			w.must(machine.Parked{Attempt: w.start(0, whole), Until: w.now.Add(time.Minute)})
		},
		"needs review": func(w *world) {
			w.must(machine.ReviewRequested{Attempt: w.start(0, whole), Reason: machine.ReasonLowConfidence})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := created(t, chain(usual(), usual()))
			arrange(w)
			w.must(machine.CancelRequested{Actor: machine.Actor{Name: "person:ann", Comment: "not needed"}})
			require.Equal(t, machine.RunCancelled, w.run.Status)
			require.Equal(t, machine.ReasonCancelled, w.run.Reason)
			require.Equal(t, "not needed", w.run.Detail)
			require.Equal(t, machine.StepCancelled, w.status(0, whole))
			require.Equal(t, machine.CallbackCancelled, effectsOf[machine.OweCallback](w)[0].Event)
			require.Len(t, effectsOf[machine.CloseSpend](w), 1)
			require.Len(t, effectsOf[machine.CancelCalls](w), 1)
			require.Equal(t, "person:ann", effectsOf[machine.Journal](w)[0].Name)
		})
	}
}

func TestARunningOutsideEffectIsAwaited(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(w *world, held machine.Attempt) machine.Event
		step machine.StepStatus
		run  machine.RunStatus
	}{
		"it succeeds": {func(_ *world, held machine.Attempt) machine.Event {
			return machine.Succeeded{Attempt: held}
		}, machine.StepDone, machine.RunCancelled},
		"it fails": {func(_ *world, held machine.Attempt) machine.Event {
			return machine.FailedPermanent{Attempt: held, Reason: machine.ReasonHandlerError}
		}, machine.StepFailed, machine.RunCancelled},
		"it fails in passing, and is not tried again": {func(_ *world, held machine.Attempt) machine.Event {
			return machine.FailedTransient{Attempt: held, Reason: machine.ReasonNetwork}
		}, machine.StepFailed, machine.RunCancelled},
		"it was not begun": {func(_ *world, held machine.Attempt) machine.Event {
			return machine.Released{Claim: held.Claim}
		}, machine.StepCancelled, machine.RunCancelled},
		"it would wait": {func(w *world, held machine.Attempt) machine.Event {
			return machine.Parked{Attempt: held, Until: w.now.Add(time.Hour)}
		}, machine.StepCancelled, machine.RunCancelled},
		"its worker is lost": {func(_ *world, held machine.Attempt) machine.Event {
			return machine.LeaseExpired{Ref: held.Ref, Fence: held.Fence}
		}, machine.StepNeedsReview, machine.RunNeedsReview},
		"it hangs": {func(w *world, held machine.Attempt) machine.Event {
			w.now = w.live[held.Key].DueAt
			return machine.HardTimeout{Ref: held.Ref, Fence: held.Fence}
		}, machine.StepNeedsReview, machine.RunNeedsReview},
		"nobody knows": {func(_ *world, held machine.Attempt) machine.Event {
			return machine.Ambiguous{Attempt: held}
		}, machine.StepNeedsReview, machine.RunNeedsReview},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := created(t, besides())
			held := w.start(0, whole)
			w.start(1, whole)
			w.must(machine.CancelRequested{})
			require.Equal(t, machine.RunRunning, w.run.Status)
			require.Equal(t, machine.StepRunning, w.status(0, whole))
			require.Equal(t, machine.StepCancelled, w.status(1, whole), "what makes no effect is cancelled at once")
			require.Equal(t, machine.Already, w.must(machine.Readopted{Claim: held.Claim}).Answer, "the runner goes on")

			w.must(c.end(w, held))
			require.Equal(t, c.run, w.run.Status)
			require.Equal(t, c.step, w.status(0, whole))
			require.Equal(t, machine.StepCancelled, w.status(2, whole))
		})
	}
}

// TestAnEffectInDoubtGoesToAPerson: an attempt was lost before the run was cancelled, and nobody knows what it has done.
func TestAnEffectInDoubtGoesToAPerson(t *testing.T) {
	t.Parallel()
	w := created(t, besides())
	held := w.start(0, whole)
	w.must(machine.LeaseExpired{Ref: held.Ref, Fence: held.Fence})
	w.must(machine.CancelRequested{})
	require.Equal(t, machine.RunNeedsReview, w.run.Status)
	require.Equal(t, machine.ReasonCallAmbiguous, w.run.Reason)

	by := machine.Actor{Name: "person:ann", Comment: "it was made"}
	w.must(machine.OperatorCorrect{Actor: by, Ref: w.ref(0, whole)})
	require.Equal(t, machine.RunCancelled, w.run.Status)
	require.Equal(t, machine.StepDone, w.status(0, whole))
}

func TestAnEffectThatKeepsFailingInDoubtGoesToAPerson(t *testing.T) {
	t.Parallel()
	w := created(t, chain(effect()))
	held := w.start(0, whole)
	w.must(machine.LeaseExpired{Ref: held.Ref, Fence: held.Fence})
	w.must(machine.FailedPermanent{Attempt: w.start(0, whole), Reason: machine.ReasonHandlerError})
	require.Equal(t, machine.RunNeedsReview, w.run.Status, "although on_error is fail")
}

func TestAFailureWaitsForEffectsOfOtherSteps(t *testing.T) {
	t.Parallel()
	w := created(t, besides())
	held := w.start(0, whole)
	w.must(machine.FailedPermanent{Attempt: w.start(1, whole), Reason: machine.ReasonInvalidInput})
	require.Equal(t, machine.RunRunning, w.run.Status)
	require.Len(t, effectsOf[machine.CloseSpend](w), 1, "no call can begin any more")
	w.now = w.run.DeadlineAt
	require.Equal(t, machine.Already, w.must(machine.DeadlinePassed{}).Answer)
	_, err := w.apply(machine.CancelRequested{})
	require.ErrorContains(t, err, "is ending already")
	w.must(machine.Succeeded{Attempt: held})
	require.Equal(t, machine.RunFailed, w.run.Status)
	require.Equal(t, machine.ReasonInvalidInput, w.run.Reason)
}

func TestShardsWithEffectsAreAwaited(t *testing.T) {
	t.Parallel()
	plan := fanOut(3, machine.FailRun)
	plan.Steps[0].Effect = true
	w := expanded(t, plan, 5)
	first, second := w.start(0, 0), w.start(0, 1)
	w.must(machine.FailedPermanent{Attempt: first, Reason: machine.ReasonHandlerError})
	require.Equal(t, machine.StepExpanded, w.status(0, whole))
	require.Equal(t, machine.StepRunning, w.status(0, 1))
	require.Equal(t, machine.StepCancelled, w.status(0, 2))
	w.must(machine.Succeeded{Attempt: second})
	require.Equal(t, machine.StepFailed, w.status(0, whole))
	require.Equal(t, machine.RunFailed, w.run.Status)
}
