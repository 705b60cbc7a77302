package machine_test

import (
	"maps"
	"slices"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
)

// check asserts after an event what must always be true of a stored run (machine.Check), and what must be true of a change.
func (w *world) check(before snapshot, ev machine.Event, out machine.Outcome) {
	require.Empty(w.t, machine.Check(w.plan, &w.run, w.everyRow()), "after %#v", ev)
	w.checkEnd(before)
	w.checkBlockage()
	w.checkClaims(before, ev, out)
	w.checkEffects(before, ev)
	w.checkTables(newCoverage(), before, ev)
	require.Equal(w.t, w.spendClosed(), !w.spendOpen, "the run's spending in %s", w.run.Status)
}

// everyRow holds all that is stored of the run in its current generations.
func (w *world) everyRow() *machine.Rows {
	var results []machine.Result
	for ref, res := range w.stored {
		if ref.Generation == w.run.State.Heads[ref.Step].Generation {
			results = append(results, res)
		}
	}
	return machine.NewRows(slices.Collect(maps.Values(w.live)), results)
}

// checkEnd: exactly one terminal event a run, until it is opened again.
func (w *world) checkEnd(before snapshot) {
	ended := 0
	for _, e := range effectsOf[machine.Journal](w) {
		if e.Step == machine.AllSteps && machine.RunStatus(e.Status).Terminal() {
			ended++
		}
	}
	ends := w.run.Status.Terminal() && !w.run.FinishedAt.Equal(before.run.FinishedAt)
	require.Equal(w.t, ends, ended == 1, "%d terminal events from %s to %s", ended, before.run.Status, w.run.Status)
	_, current := w.run.CurrentStep(w.plan)
	require.False(w.t, w.run.Status.Terminal() && current)
}

// checkBlockage: a run that does not move says why.
func (w *world) checkBlockage() {
	if w.run.Status.Terminal() || w.run.Seq == 0 {
		return
	}
	rows := w.rows()
	_, blocked := w.run.Blockage(w.plan, rows, w.now, machine.Facts{})
	running := slices.ContainsFunc(rows, func(l machine.Live) bool { return l.Status == machine.StepRunning })
	require.True(w.t, blocked || running, "a run that does not move has a blockage")
}

// checkClaims: a fence is granted once, and the number of claims never decreases.
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
