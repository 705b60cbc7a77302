package machine

import "slices"

// undoNext begins the undo of the effect that was made last, and reports whether there was one.
func (c *change) undoNext() bool {
	step, ok := c.nextUndo()
	if !ok {
		return false
	}
	undo := c.plan.Steps[step].Undo
	head := c.head(undo)
	head.Generation = c.head(step).Generation
	if !c.plan.Steps[undo].FanOut {
		c.ready(Key{undo, Whole})
		return true
	}
	parent := c.newLive(Key{undo, Whole}, StepPending)
	c.move(&parent, StepExpanded)
	shards := c.madeShards(step)
	head.Shards = Shards{Total: len(shards), Next: shards[len(shards)-1] + 1}
	for _, shard := range shards {
		c.rows.put(c.newLive(Key{undo, shard}, StepPending))
	}
	c.fill(undo)
	return true
}

// nextUndo returns the step that ended last among those whose effects are to be undone.
func (c *change) nextUndo() (int, bool) {
	next, found := 0, false
	for _, i := range c.undoScope() {
		if c.toUndo(i) && (!found || c.head(i).EndedSeq >= c.head(next).EndedSeq) {
			next, found = i, true
		}
	}
	return next, found
}

// undoScope returns the steps that the end of the run concerns.
func (c *change) undoScope() []int {
	if e := c.run.State.Ending; e != nil && e.Status == RunRunning {
		return c.plan.Dependents(e.Step)
	}
	scope := make([]int, c.plan.Total)
	for i := range scope {
		scope[i] = i
	}
	return scope
}

// toUndo reports whether a step has an effect in place that declares an undo which was not begun.
func (c *change) toUndo(i int) bool {
	return c.plan.undoable(i) && c.inPlace(i) && c.head(c.plan.Steps[i].Undo).Phase == PhasePending
}

// inPlace reports whether a step has made its outside effect, or some of its shards have, and nothing has undone it.
func (c *change) inPlace(i int) bool {
	head := c.head(i)
	if head.Phase == PhaseCompensated {
		return false
	}
	if c.plan.Steps[i].FanOut {
		return head.Shards.Done > 0
	}
	return head.Phase == PhaseDone
}

// madeShards returns the shards of a fan-out that are DONE, in their order.
func (c *change) madeShards(step int) []int {
	var made []int
	for k, res := range c.rows.results {
		if k.Step == step && k.Shard != Whole && res.Status == StepDone && res.Generation == c.head(step).Generation {
			made = append(made, k.Shard)
		}
	}
	slices.Sort(made)
	return made
}

// undone marks what an undo has undone.
func (c *change) undone(l Live) {
	c.cause = KindUndoDone
	undone := Key{c.plan.Steps[l.Step].Undoes, l.Shard}
	head := c.head(undone.Step)
	// Of a fan-out that did not finish, only the shards have results that were DONE.
	if l.Shard != Whole || head.Phase == PhaseDone {
		c.emit(MarkCompensated{Ref: c.ref(undone)})
	}
	if l.Shard == Whole {
		head.Phase = PhaseCompensated
	}
}

// undoing reports whether an undo is under way or waits for a person.
func (c *change) undoing() bool {
	for i := c.plan.Total; i < len(c.plan.Steps); i++ {
		if head := c.head(i); head.moving() || head.inReview() {
			return true
		}
	}
	return false
}

// undoOutcome says what became of the effects that declare an undo.
func (c *change) undoOutcome() Undo {
	begun, whole := false, true
	for i := range c.plan.Total {
		if !c.plan.undoable(i) {
			continue
		}
		switch c.head(c.plan.Steps[i].Undo).Phase {
		case PhaseDone, PhaseSkipped:
			begun = true
		case PhasePending:
			whole = whole && !c.inPlace(i)
		default:
			begun, whole = true, false
		}
	}
	switch {
	case !begun:
		return UndoNone
	case whole:
		return UndoneAll
	default:
		return UndonePart
	}
}
