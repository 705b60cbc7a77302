package machine_test

import (
	"slices"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
)

// check asserts what machine.md lists under "Always true", and more, after an event. It looks at rows and results, and not
// at the machine's own bookkeeping, wherever there are both.
func (w *world) check(before snapshot, ev machine.Event, out machine.Outcome) {
	w.checkEnd(before)
	w.checkHeads()
	w.checkReadiness()
	w.checkStatus()
	w.checkTimers()
	w.checkPolicies()
	w.checkClaims(before, ev, out)
	w.checkEffects(before, ev)
	w.checkTables(newCoverage(), before, ev)
	require.Equal(w.t, w.spendClosed(), !w.spendOpen, "the run's spending in %s", w.run.Status)
}

// checkEnd: exactly one terminal event a run, until it is opened again; nothing is left of an ended run.
func (w *world) checkEnd(before snapshot) {
	ended := 0
	for _, e := range effectsOf[machine.Journal](w) {
		if e.Step == machine.AllSteps && machine.RunStatus(e.Status).Terminal() {
			ended++
		}
	}
	ends := w.run.Status.Terminal() && !w.run.FinishedAt.Equal(before.run.FinishedAt)
	require.Equal(w.t, ends, ended == 1, "%d terminal events from %s to %s", ended, before.run.Status, w.run.Status)
	if !w.run.Status.Terminal() {
		require.Zero(w.t, w.run.FinishedAt)
		require.Empty(w.t, w.run.Undo)
		return
	}
	require.Empty(w.t, w.live, "an ended run has rows")
	require.Nil(w.t, w.run.State.Ending)
	require.False(w.t, w.run.FinishedAt.IsZero())
	for i, head := range w.run.State.Heads {
		if i < w.plan.Total {
			require.Contains(w.t, []machine.Phase{
				machine.PhaseDone, machine.PhaseSkipped, machine.PhaseFailed, machine.PhaseCancelled, machine.PhaseCompensated,
			}, head.Phase, "step %d of a run that is %s", i, w.run.Status)
		}
	}
	for ref, res := range w.stored {
		require.NotEqual(w.t, machine.StepNeedsReview, res.Status, "%+v of an ended run waits for a person", ref)
	}
	require.Equal(w.t, w.run.Status == machine.RunDone, w.run.Reason == "", "an end without success has a reason")
	require.Equal(w.t, w.run.Status == machine.RunDone, w.run.Undo == "")
	_, current := w.run.CurrentStep(w.plan)
	require.False(w.t, current)
}

// finished is what machine.md and protocol.md call finished, told from the stored results.
func (w *world) finished(step int) bool {
	res, ok := w.result(machine.Key{Step: step, Shard: machine.Whole})
	if !ok || w.live[res.Key].Status != "" {
		return false
	}
	switch res.Status {
	case machine.StepDone, machine.StepSkipped:
		return true
	case machine.StepFailed:
		return w.run.State.Heads[step].Phase == machine.PhaseFailed && w.run.State.Heads[step].Tolerated &&
			w.plan.Steps[step].OnError == machine.ContinueRun
	default:
		return false
	}
}

// checkHeads: the head agrees with rows and results.
func (w *world) checkHeads() {
	done := 0
	for i := range w.plan.Steps {
		head, whole := w.run.State.Heads[i], machine.Key{Step: i, Shard: machine.Whole}
		row, live := w.live[whole]
		if live {
			require.Equal(w.t, row.Status.Phase(), head.Phase, "head and row of step %d", i)
			require.Equal(w.t, head.Generation, row.Generation)
		} else {
			require.NotContains(w.t, []machine.Phase{machine.PhaseLive, machine.PhaseExpanded, machine.PhaseNeedsReview}, head.Phase,
				"step %d has no row", i)
		}
		if i < w.plan.Total && w.finished(i) {
			done++
			require.Contains(w.t, []machine.Phase{machine.PhaseDone, machine.PhaseSkipped, machine.PhaseFailed}, head.Phase, "step %d is finished", i)
		}
		w.checkShards(i)
	}
	require.Equal(w.t, done, w.run.StepsDone, "steps_done")
}

// checkShards: the counters agree with the rows; as many shards as allowed are active while there are any.
func (w *world) checkShards(step int) {
	head := w.run.State.Heads[step]
	count := map[machine.StepStatus]int{}
	for _, l := range w.live {
		if l.Step == step && l.Shard != machine.Whole {
			count[l.Status]++
			require.Equal(w.t, head.Generation, l.Generation)
		}
	}
	if head.Phase != machine.PhaseExpanded {
		require.Empty(w.t, count, "step %d is %s and has shards", step, head.Phase)
		return
	}
	active := count[machine.StepReady] + count[machine.StepQueued] + count[machine.StepRunning] + count[machine.StepBackoff]
	require.Equal(w.t, active, head.Shards.Active, "active shards of step %d", step)
	require.Equal(w.t, count[machine.StepWaiting], head.Shards.Waiting)
	require.Equal(w.t, count[machine.StepNeedsReview], head.Shards.Review)
	require.Less(w.t, head.Shards.Done+head.Shards.Skipped+head.Shards.Failed, head.Shards.Total, "an expanded step is finished")
	if w.run.State.Ending != nil && step < w.plan.Total {
		return
	}
	require.Equal(w.t, count[machine.StepPending], head.Shards.Pending())
	if head.Shards.Pending() > 0 {
		require.GreaterOrEqual(w.t, active, max(w.plan.Steps[step].Concurrency, 1), "step %d starves its shards", step)
	}
}

// checkReadiness: a step has a row only when everything it needs is finished, and then it always has one.
func (w *world) checkReadiness() {
	for i := range w.plan.Total {
		needs := true
		for _, n := range w.plan.Steps[i].Needs {
			needs = needs && w.finished(n)
		}
		_, live := w.live[machine.Key{Step: i, Shard: machine.Whole}]
		if live {
			require.True(w.t, needs, "step %d is live before its needs are finished", i)
		}
		if w.run.Seq > 0 && w.run.State.Ending == nil && !w.run.Status.Terminal() {
			require.Equal(w.t, w.run.State.Heads[i].Phase == machine.PhasePending, !needs, "step %d: %s", i, w.run.State.Heads[i].Phase)
		}
	}
}

// checkStatus: a run that has not ended can always move, by itself or by a person; NEEDS_REVIEW is only the latter.
func (w *world) checkStatus() {
	if w.run.Status.Terminal() || w.run.Seq == 0 {
		return
	}
	moving, review, undo := false, false, false
	for _, l := range w.live {
		moving = moving || slices.Contains([]machine.StepStatus{
			machine.StepReady, machine.StepQueued, machine.StepRunning, machine.StepBackoff, machine.StepWaiting,
		}, l.Status)
		review = review || l.Status == machine.StepNeedsReview
		undo = undo || w.plan.IsUndo(l.Step)
	}
	require.True(w.t, moving || review, "the run is stuck in %s: %+v", w.run.Status, w.run.State)
	require.Equal(w.t, !moving, w.run.Status == machine.RunNeedsReview, "moving %v, review %v, %s", moving, review, w.run.Status)
	require.Equal(w.t, moving && undo, w.run.Status == machine.RunCompensating)
	require.Equal(w.t, w.run.Status == machine.RunNeedsReview, !w.run.PausedAt.IsZero(), "the deadline's clock")
	require.Equal(w.t, w.run.Status == machine.RunNeedsReview || w.run.Status == machine.RunCompensating && w.run.State.Ending.Status != machine.RunRunning, w.run.Reason != "")
	if w.run.Status == machine.RunQueued {
		require.True(w.t, w.run.StartedAt.IsZero())
	}
	rows := w.rows()
	_, blocked := w.run.Blockage(w.plan, rows, w.now, machine.Facts{})
	running := slices.ContainsFunc(rows, func(l machine.Live) bool { return l.Status == machine.StepRunning })
	require.True(w.t, blocked || running, "a run that does not move has a blockage")
}

// checkTimers: what waits for a time has one, and nothing else has.
func (w *world) checkTimers() {
	for _, l := range w.live {
		timed := slices.Contains([]machine.StepStatus{machine.StepRunning, machine.StepBackoff, machine.StepWaiting}, l.Status)
		require.Equal(w.t, timed, !l.DueAt.IsZero(), "timer of %+v", l)
		bounded := l.Status == machine.StepBackoff || l.Status == machine.StepWaiting
		if bounded && !w.plan.IsUndo(l.Step) && w.run.NotBefore.IsZero() && w.run.PausedAt.IsZero() {
			require.False(w.t, l.DueAt.After(w.run.DeadlineAt), "%+v waits beyond the deadline", l)
		}
	}
}

// checkPolicies: failures, losses and calls of unknown fate never exceed what the step allows.
func (w *world) checkPolicies() {
	for _, l := range w.live {
		step := w.plan.Steps[l.Step]
		require.GreaterOrEqual(w.t, min(l.Attempt, l.Failures, l.Losses, l.Calls, l.ClaimNo-l.Attempt), 0, "%+v", l)
		require.LessOrEqual(w.t, l.AmbiguousOK, 1)
		if l.Status == machine.StepNeedsReview {
			continue
		}
		require.Less(w.t, l.Failures, max(step.Retry.MaxAttempts, 1), "%+v", l)
		require.Less(w.t, l.Losses, max(step.MaxLost, 1), "%+v", l)
		if l.Status == machine.StepBackoff && l.Reason != machine.ReasonCallAmbiguous && step.MaxCalls > 0 {
			require.Less(w.t, l.Calls, step.MaxCalls, "%+v", l)
		}
	}
}

// checkClaims: a fence is granted once, the number of claims never decreases, and only the holder's outcome changes a
// RUNNING step.
func (w *world) checkClaims(before snapshot, ev machine.Event, out machine.Outcome) {
	if e, ok := ev.(machine.Claimed); ok && out.Answer == machine.Granted {
		other, used := w.granted[e.Fence]
		require.True(w.t, !used || other == e.Ref, "the fence of %+v is used again for %+v", other, e.Ref)
		w.granted[e.Fence] = e.Ref
	}
	for k, l := range w.live {
		old, ok := before.live[k]
		if ok && old.Generation == l.Generation {
			require.GreaterOrEqual(w.t, l.ClaimNo, old.ClaimNo)
		}
		require.Equal(w.t, l.Status == machine.StepRunning, l.Status == machine.StepRunning && l.Fence != machine.ID{})
	}
}

// checkEffects: a RUNNING outside effect is never cancelled, one of unknown fate never forgotten; in a run that is ending
// only a person makes something READY; undos come one by one, in reverse order.
func (w *world) checkEffects(before snapshot, ev machine.Event) {
	closing := slices.Contains([]machine.Kind{machine.KindOperatorClose, machine.KindRerunFrom}, ev.Kind())
	for k, old := range before.live {
		step := w.plan.Steps[k.Step]
		if !step.Effect || step.FanOut && k.Shard == machine.Whole || closing {
			continue
		}
		l, live := w.live[k]
		_, own := ownEvent(ev, k)
		if old.Status == machine.StepRunning && !own {
			require.Equal(w.t, old.Fence, l.Fence, "%#v cancels the outside effect %+v", ev, k)
		}
		if old.Unsure && !own {
			require.True(w.t, live && l.Unsure, "%#v forgets the outside effect %+v", ev, k)
		}
	}
	for _, e := range effectsOf[machine.Dispatchable](w) {
		_, own := ownEvent(ev, e.Key)
		byPerson := ev.Kind() == machine.KindOperatorRetry || ev.Kind() == machine.KindOperatorCorrect || own
		if w.run.State.Ending != nil && !w.plan.IsUndo(e.Step) {
			require.True(w.t, byPerson, "%#v makes %+v READY in a run that is ending", ev, e.Key)
		}
		if w.plan.IsUndo(e.Step) && !own && !byPerson {
			w.checkUndoOrder(e.Step)
		}
	}
}

func (w *world) checkUndoOrder(undo int) {
	at := w.run.State.Heads[w.plan.Steps[undo].Undoes].EndedSeq
	for i := range w.plan.Total {
		other := w.plan.Steps[i].Undo
		if other == 0 || other == undo {
			continue
		}
		phase := w.run.State.Heads[other].Phase
		require.NotContains(w.t, []machine.Phase{machine.PhaseLive, machine.PhaseExpanded}, phase, "two undos at once")
		rerun := w.run.State.Ending.Status == machine.RunRunning
		if phase == machine.PhasePending && w.made(i) && !rerun {
			require.LessOrEqual(w.t, w.run.State.Heads[i].EndedSeq, at, "step %d is undone before step %d", w.plan.Steps[undo].Undoes, i)
		}
	}
}

// made reports whether a step's outside effect is in place.
func (w *world) made(step int) bool {
	for ref, res := range w.stored {
		effect := !w.plan.Steps[step].FanOut || ref.Shard != machine.Whole
		if ref.Step == step && effect && res.Status == machine.StepDone {
			return true
		}
	}
	return false
}

// ownEvent reports whether the event is about this row.
func ownEvent(ev machine.Event, k machine.Key) (machine.Ref, bool) {
	ref, ok := machine.Target(ev)
	_, retry := ev.(machine.OperatorRetry)
	return ref, ok && ref.Key == k || retry && !ok
}

// spendClosed tells whether the run may spend no more.
func (w *world) spendClosed() bool {
	if e := w.run.State.Ending; e != nil {
		return e.Status != machine.RunRunning
	}
	return w.run.Status == machine.RunFailed || w.run.Status == machine.RunCancelled
}

// coverage notes which parts of the tables' rows have been seen.
type coverage struct {
	steps map[use[machine.StepStatus]]bool
	runs  map[use[machine.RunStatus]]bool
}

// use is one change of state for which a table's row was used.
type use[S ~string] struct {
	row      int
	from, to S
}

func newCoverage() *coverage {
	return &coverage{steps: map[use[machine.StepStatus]]bool{}, runs: map[use[machine.RunStatus]]bool{}}
}

// consequences are the events that follow from others.
func consequences(ev machine.Event) []machine.Kind {
	return []machine.Kind{
		ev.Kind(), machine.KindStepFinished, machine.KindStepFailed, machine.KindReviewOpened,
		machine.KindUndoBegun, machine.KindUndoDone, machine.KindUndoFailed,
	}
}

// checkTables: every change of state stands in the tables.
func (w *world) checkTables(seen *coverage, before snapshot, ev machine.Event) {
	after := w.snapshot()
	w.checkRunTable(seen, before.run, ev)
	keys := map[machine.Key]bool{}
	for i := range w.plan.Steps {
		keys[machine.Key{Step: i, Shard: machine.Whole}] = true
	}
	for k := range before.live {
		keys[k] = true
	}
	for k := range after.live {
		keys[k] = true
	}
	rerun := before.run.State.Ending != nil && before.run.State.Ending.Status == machine.RunRunning
	for k := range keys {
		from, to := statusOf(before, k), statusOf(after, k)
		if _, had := before.live[k]; k.Shard != machine.Whole && !had {
			from = machine.StepPending // a shard that was just made
		}
		ref := machine.Ref{Key: k, Generation: before.live[k].Generation}
		if _, has := after.live[k]; k.Shard != machine.Whole && !has && rerun {
			continue // the undo's last shard, in history now
		} else if k.Shard != machine.Whole && !has && before.stored[ref] == after.stored[ref] {
			to = machine.StepCancelled // dropped; its result, if any, is that of an attempt before the run was opened again
		}
		_, own := ownEvent(ev, k)
		if own && rerun && after.run.State.Ending == nil {
			continue // the last undo: in history now, and PENDING again
		}
		kinds := consequences(ev)
		if own {
			kinds = []machine.Kind{ev.Kind()}
		}
		if rerun {
			kinds = append(kinds, machine.KindRerunFrom) // it goes on when the effects are undone
		}
		if after.live[k] != before.live[k] || from != to {
			known := seen.step(kinds, from, to)
			require.True(w.t, known || from == to, "step: %#v leads %+v from %s to %s, which no table says", ev, k, from, to)
		}
	}
}

// checkRunTable takes the event that the journal names for a change of the run's state.
func (w *world) checkRunTable(seen *coverage, before machine.Run, ev machine.Event) {
	from, to := before.Status, w.run.Status
	if from == machine.RunQueued && before.StartedAt.IsZero() && !w.run.StartedAt.IsZero() && ev.Kind() != machine.KindClaimed {
		from = machine.RunRunning // an outcome that was a claim as well
	}
	kinds := consequences(ev)
	for _, e := range effectsOf[machine.Journal](w) {
		if e.Step == machine.AllSteps && e.Status == string(to) && from != to {
			kinds = []machine.Kind{e.Kind}
		}
	}
	known := seen.run(kinds, from, to)
	require.True(w.t, known || from == to, "run: %#v (%s) leads from %s to %s, which no table says", ev, kinds, from, to)
}

func (c *coverage) step(kinds []machine.Kind, from, to machine.StepStatus) bool {
	known := false
	for i, row := range machine.StepTable() {
		if slices.Contains(kinds, row.On) && slices.Contains(row.From, from) && slices.Contains(row.To, to) {
			known = true
			c.steps[use[machine.StepStatus]{i, from, to}] = true
		}
	}
	return known
}

func (c *coverage) run(kinds []machine.Kind, from, to machine.RunStatus) bool {
	known := false
	for i, row := range machine.RunTable() {
		if slices.Contains(kinds, row.On) && slices.Contains(row.From, from) && slices.Contains(row.To, to) {
			known = true
			c.runs[use[machine.RunStatus]{i, from, to}] = true
		}
	}
	return known
}
