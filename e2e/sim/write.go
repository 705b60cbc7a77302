package sim

import (
	"slices"

	"pawl.internal/services/orchestrator/machine"
)

// effect notes what an effect of the machine writes or publishes (orchestrator/store/effect.go).
func (g *group) effect(w *working, effect machine.Effect) {
	switch e := effect.(type) {
	case machine.StoreResult:
		g.core.s.oracle.stores(w, e)
		w.now.results[e.Key] = machine.Result{
			Key: e.Key, Generation: e.Generation, Status: e.Status, Reason: e.Reason, Fence: e.Fence,
			Attempt: e.Attempt, ClaimNo: e.ClaimNo, AskBase: e.AskBase,
		}
	case machine.Dispatchable:
		g.ready = append(g.ready, readyStep{w, e.Ref})
	case machine.Publish:
		g.entries = append(g.entries, stepRef{w.no, e.Ref})
	case machine.BeginEffect:
		g.durable = g.durable || g.core.s.guard(GuardEffectDurable)
	case machine.CloseSpend:
		g.spendGate(w, gate{epoch: e.Epoch, open: false, budget: w.now.budget, owedAt: g.core.s.now})
	case machine.OpenSpend:
		w.now.cancels = nil // calls of the run must not be aborted any more
		g.spendGate(w, gate{epoch: e.Epoch, open: true, budget: w.now.budget, owedAt: g.core.s.now})
	case machine.CancelCalls:
		g.cancelCalls(w, e.Ref)
	default:
		g.effectOnHistory(w, effect)
	}
}

func (g *group) effectOnHistory(w *working, effect machine.Effect) {
	switch e := effect.(type) {
	case machine.CloseReview:
		w.cancelReviewed(e.Key)
	case machine.CloseReviews:
		for k := range w.now.results {
			if covers(e.Drop, k) {
				w.cancelReviewed(k)
			}
		}
	case machine.MarkCompensated:
		res := w.now.results[e.Key]
		res.Status = machine.StepCompensated
		w.now.results[e.Key] = res
	case machine.ArchiveResults:
		for k := range w.now.results {
			if k.Step == e.Step {
				delete(w.now.results, k)
			}
		}
	}
}

func (w *working) cancelReviewed(k machine.Key) {
	if res := w.now.results[k]; res.Status == machine.StepNeedsReview {
		res.Status = machine.StepCancelled
		w.now.results[k] = res
	}
}

func covers(d machine.Drop, k machine.Key) bool {
	return (d.Step == machine.AllSteps || d.Step == k.Step) && !slices.Contains(d.Keep, k)
}

// spendGate owes the gateway the closing or opening of the run's purse.
func (g *group) spendGate(w *working, owed gate) {
	if w.pipeline.noCalls {
		return
	}
	g.owed = true
	w.now.gate = &owed
}

func (g *group) cancelCalls(w *working, ref machine.Ref) {
	if w.pipeline.noCalls {
		return
	}
	g.owed = true
	w.now.cancels = slices.DeleteFunc(w.now.cancels, func(c owedCancel) bool {
		return c.step == ref.Step && c.generation == ref.Generation
	})
	w.now.cancels = append(w.now.cancels, owedCancel{ref.Step, ref.Generation, g.core.s.now})
}

// write stores what has changed, and returns how that is undone, if it may be.
func (g *group) write() (undo func()) {
	var before []stored
	for _, w := range g.order {
		if !g.durable {
			before = append(before, w.stored) // the working copy shares nothing with it
		}
		g.writeRows(w)
		w.run.stored = w.now
		g.core.s.oracle.wrote(w)
	}
	if g.durable {
		return nil
	}
	return func() {
		for i, w := range g.order {
			w.run.stored = before[i]
		}
	}
}

// writeRows does what the statements do, in their order.
func (g *group) writeRows(w *working) {
	changes, live := w.rows.Changes(), w.now.live
	for _, d := range changes.Drops {
		for k := range live {
			if covers(d, k) {
				delete(live, k)
			}
		}
	}
	s := g.core.s
	for _, k := range changes.Deleted {
		if _, there := live[k]; !there {
			s.fail(PromiseMachine, "run %d: a row is deleted that is not there: %+v", w.no, k)
		}
		delete(live, k)
	}
	for _, l := range changes.Inserted {
		if _, there := live[l.Key]; there {
			s.fail(PromiseMachine, "run %d: a row is inserted that is there: %+v", w.no, l)
		}
		live[l.Key] = l
	}
	for _, l := range changes.Updated {
		if _, there := live[l.Key]; !there {
			s.fail(PromiseMachine, "run %d: a row is updated that is not there: %+v", w.no, l)
		}
		live[l.Key] = l
	}
}
