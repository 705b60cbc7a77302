package machine

import "slices"

// rerunFrom runs a step and all that depend on it again, in a new generation. Effects of theirs are undone first, unless
// they are to be kept.
func (c *change) rerunFrom(e RerunFrom) (Answer, error) {
	if err := c.mayRun(); err != nil {
		return "", err
	}
	if e.Step < 0 || e.Step >= c.plan.Total {
		return "", c.illegalRun("there is no such step")
	}
	if e.Generation != c.head(e.Step).Generation {
		return "", &StaleError{Event: c.kind, Why: "the step is in another generation"}
	}
	scope := c.plan.Dependents(e.Step)
	undo, err := c.checkRerun(e, scope)
	if err != nil {
		return "", err
	}
	c.actor = e.Actor
	c.recordDecision()
	c.openForRerun(scope)
	if undo {
		c.run.State.Ending = &Ending{Status: RunRunning, Step: e.Step, Undo: true}
	} else {
		c.rerun(e.Step)
	}
	c.settle()
	return Applied, nil
}

// checkRerun refuses a rerun that could not come to an end, or would make an effect twice. It reports whether something
// must be undone first.
func (c *change) checkRerun(e RerunFrom, scope []int) (undo bool, err error) {
	if c.ending() {
		return false, c.illegalRun("the run is ending: decide about what waits for a person first")
	}
	for i := range c.plan.Total {
		if slices.Contains(scope, i) {
			if !e.KeepEffects && c.inDoubt(i) {
				return false, c.illegalRun("the effect of " + c.plan.Steps[i].Name + " cannot be undone: it must be kept")
			}
			undo = undo || !e.KeepEffects && c.toUndo(i)
			continue
		}
		if why := c.outside(i); why != "" {
			return false, c.illegalRun(why)
		}
	}
	if undo && c.reviewsOutside(scope) {
		return false, c.illegalRun("decide about the other steps that wait for a person first")
	}
	return undo, nil
}

// inDoubt reports whether the step has an effect in place without a way to undo it, or one of unknown fate.
func (c *change) inDoubt(i int) bool {
	if !c.plan.Steps[i].Effect {
		return false
	}
	if c.inPlace(i) && !c.toUndo(i) {
		return true
	}
	for _, l := range c.rows.All() {
		if l.Step == i && l.Unsure {
			return true
		}
	}
	return false
}

// outside says why a step that is not run again stands in the way of a rerun; empty if it does not.
func (c *change) outside(i int) string {
	head, name := c.head(i), c.plan.Steps[i].Name
	switch {
	case head.Phase == PhaseFailed && !head.Tolerated:
		return name + " has failed and would not run again: retry the run, or run it again from there"
	case head.Phase == PhaseCompensated:
		return name + " was undone and would not run again: run it again from there"
	default:
		return ""
	}
}

func (c *change) reviewsOutside(scope []int) bool {
	for i := range c.plan.Total {
		if !slices.Contains(scope, i) && c.head(i).inReview() {
			return true
		}
	}
	return false
}

// openForRerun opens an ended run, and takes the steps that are to run again out of what they wait for.
func (c *change) openForRerun(scope []int) {
	if c.run.Status.Terminal() {
		c.restart()
		for i := range c.plan.Total {
			if c.head(i).Phase == PhaseCancelled {
				c.reset(i)
			}
		}
	}
	for _, i := range scope {
		c.closeReviews(Drop{Step: i})
		c.rows.drop(Drop{Step: i})
		head := c.head(i)
		if head.inReview() {
			head.Phase = PhaseCancelled
		}
	}
}

// rerun begins the new generation of a step and all that depend on it.
func (c *change) rerun(step int) {
	c.run.State.Ending = nil
	for _, i := range c.plan.Dependents(step) {
		c.renew(i)
		if c.plan.undoable(i) {
			c.renew(c.plan.Steps[i].Undo)
		}
	}
}

// renew makes a step PENDING in its next generation.
func (c *change) renew(i int) {
	head := c.head(i)
	if !c.plan.IsUndo(i) {
		c.emit(CancelCalls{Ref: c.ref(Key{i, Whole})})
	}
	c.emit(ArchiveResults{Step: i})
	*head = Head{Phase: PhasePending, Generation: head.Generation + 1}
}
