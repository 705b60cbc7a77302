package machine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
)

// undoable is a plan of steps of which those with an effect declare an undo; the undo steps follow.
func undoable(steps ...machine.Step) *machine.Plan {
	plan := chain(steps...)
	plan.UndoOnFailure, plan.UndoOnCancel = true, true
	for i := range plan.Total {
		if step := plan.Steps[i]; step.Effect {
			undo := effect()
			undo.Name, undo.Undoes, undo.FanOut, undo.Concurrency = step.Name+"~undo", i, step.FanOut, 1
			plan.Steps[i].Undo = len(plan.Steps)
			plan.Steps = append(plan.Steps, undo)
		}
	}
	return plan
}

func TestEffectsAreUndoneInReverseOrder(t *testing.T) {
	t.Parallel()
	w := created(t, undoable(effect(), usual(), effect(), usual()))
	w.finish(0, whole)
	w.finish(1, whole)
	w.finish(2, whole)
	w.must(machine.FailedPermanent{Attempt: w.start(3, whole), Reason: machine.ReasonBusinessRule})
	require.Equal(t, machine.RunCompensating, w.run.Status)
	require.Equal(t, machine.ReasonBusinessRule, w.run.Reason)
	require.Equal(t, []machine.StepStatus{ready, pending}, []machine.StepStatus{w.status(5, whole), w.status(4, whole)})
	_, err := w.apply(machine.CancelRequested{})
	require.Error(t, err, "cancel does not apply while effects are undone")
	w.now = w.run.DeadlineAt
	_, err = w.apply(machine.DeadlinePassed{})
	require.Error(t, err, "nor does the deadline")

	w.finish(5, whole)
	require.Equal(t, machine.StepCompensated, w.status(2, whole))
	require.Equal(t, []machine.MarkCompensated{{Ref: w.ref(2, whole)}}, effectsOf[machine.MarkCompensated](w))
	require.Equal(t, machine.StepReady, w.status(4, whole))
	w.finish(4, whole)
	require.Equal(t, machine.RunFailed, w.run.Status)
	require.Equal(t, machine.ReasonBusinessRule, w.run.Reason)
	require.Equal(t, machine.UndoneAll, w.run.Undo)
	require.Equal(t, 1, w.run.StepsDone, "only the step without an effect is still done")
}

func TestCancelMayKeepEffects(t *testing.T) {
	t.Parallel()
	w := created(t, undoable(effect(), usual()))
	w.finish(0, whole)
	keep := false
	w.must(machine.CancelRequested{Undo: &keep})
	require.Equal(t, machine.RunCancelled, w.run.Status)
	require.Equal(t, machine.UndoNone, w.run.Undo)
	require.Equal(t, machine.StepDone, w.status(0, whole))
}

func TestAnEffectThatIsAwaitedIsUndoneToo(t *testing.T) {
	t.Parallel()
	w := created(t, undoable(effect(), usual()))
	held := w.start(0, whole)
	w.must(machine.CancelRequested{})
	w.must(machine.Succeeded{Attempt: held})
	require.Equal(t, machine.RunCompensating, w.run.Status)
	w.finish(2, whole)
	require.Equal(t, machine.RunCancelled, w.run.Status)
	require.Equal(t, machine.UndoneAll, w.run.Undo)
}

// undoFailed is a run of which the second of two undos has failed for good.
func undoFailed(t *testing.T) *world {
	t.Helper()
	w := created(t, undoable(effect(), effect(), usual()))
	w.finish(0, whole)
	w.finish(1, whole)
	w.must(machine.CancelRequested{})
	w.must(machine.FailedPermanent{Attempt: w.start(4, whole), Reason: machine.ReasonHandlerError, Detail: "refused"})
	require.Equal(t, machine.RunNeedsReview, w.run.Status)
	require.Equal(t, machine.ReasonUndoFailed, w.run.Reason)
	require.Equal(t, "handler_error: refused", effectsOf[machine.OpenReview](w)[0].Detail)
	return w
}

func TestAFailedUndoWaitsForAPerson(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		decide func(w *world)
		run    machine.RunStatus
		undo   machine.Undo
	}{
		"try it again": {func(w *world) {
			w.must(machine.OperatorRetry{Ref: w.ref(4, whole)})
			require.Equal(t, machine.RunCompensating, w.run.Status)
			w.finish(4, whole)
			w.finish(3, whole)
		}, machine.RunCancelled, machine.UndoneAll},
		"undone by hand": {func(w *world) {
			w.must(machine.OperatorCorrect{Ref: w.ref(4, whole)})
			require.Equal(t, machine.StepCompensated, w.status(1, whole))
			w.finish(3, whole)
		}, machine.RunCancelled, machine.UndoneAll},
		"give this one up": {func(w *world) {
			w.must(machine.OperatorClose{Undo: true})
			require.Equal(t, machine.RunCompensating, w.run.Status)
			w.finish(3, whole)
		}, machine.RunCancelled, machine.UndonePart},
		"give them all up": {func(w *world) {
			w.must(machine.OperatorClose{})
		}, machine.RunCancelled, machine.UndonePart},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := undoFailed(t)
			c.decide(w)
			require.Equal(t, c.run, w.run.Status, "the end that was decided stays")
			require.Equal(t, c.undo, w.run.Undo)
			require.Equal(t, machine.ReasonCancelled, w.run.Reason)
		})
	}
}

func TestAnUndoIsTriedLikeAnyStep(t *testing.T) {
	t.Parallel()
	w := created(t, undoable(effect(), usual()))
	w.finish(0, whole)
	w.must(machine.CancelRequested{})
	held := w.start(2, whole)
	require.Len(t, effectsOf[machine.BeginEffect](w), 1)
	w.must(machine.FailedTransient{Attempt: held, Reason: machine.ReasonNetwork, RetryAfter: w.plan.Deadline * 2})
	require.Equal(t, machine.StepBackoff, w.status(2, whole), "the deadline does not apply")
	w.now = w.live[held.Key].DueAt
	w.must(machine.RetryDue{Ref: held.Ref})
	held = w.start(2, whole)
	w.must(machine.LeaseExpired{Ref: held.Ref, Fence: held.Fence})
	w.finish(2, whole)
	require.Equal(t, machine.UndoneAll, w.run.Undo)
}

func TestTheShardsOfAFanOutAreUndoneBackwards(t *testing.T) {
	t.Parallel()
	step := effect()
	step.FanOut, step.Concurrency = true, 4
	w := expanded(t, undoable(step, usual()), 4)
	w.finish(0, 0)
	w.must(machine.Skipped{Attempt: w.start(0, 1)})
	w.finish(0, 2)
	w.must(machine.FailedPermanent{Attempt: w.start(0, 3), Reason: machine.ReasonHandlerError})
	require.Equal(t, machine.RunCompensating, w.run.Status)
	require.Equal(t, machine.StepExpanded, w.status(2, whole))
	require.Equal(t, machine.Shards{Total: 2, Active: 1, Next: 2}, w.run.State.Heads[2].Shards, "only what was done is undone")
	require.Equal(t, []machine.StepStatus{ready, pending}, []machine.StepStatus{w.status(2, 2), w.status(2, 0)})
	w.finish(2, 2)
	require.Equal(t, machine.StepCompensated, w.status(0, 2))
	w.finish(2, 0)
	require.Equal(t, machine.StepCompensated, w.status(0, whole))
	require.Equal(t, machine.RunFailed, w.run.Status)
	require.Equal(t, machine.UndoneAll, w.run.Undo)
}
