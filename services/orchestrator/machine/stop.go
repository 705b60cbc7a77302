package machine

import "slices"

// deadlinePassed ends a run that has used up its time.
func (c *change) deadlinePassed() (Answer, error) {
	if err := c.mayRun(); err != nil {
		return "", err
	}
	if c.ending() {
		return Already, nil
	}
	if c.run.DeadlineDue().After(c.now) {
		return "", c.illegalRun("the deadline has not passed")
	}
	c.recordDecision()
	c.stop(Ending{
		Status: RunFailed, Reason: ReasonDeadlineExceeded, Detail: ReasonDeadlineExceeded.Sentence(),
		Step: AllSteps, Undo: c.plan.UndoOnFailure,
	})
	c.settle()
	return Applied, nil
}

// cancelRequested ends a run on request.
func (c *change) cancelRequested(e CancelRequested) (Answer, error) {
	if !c.run.CancelRequestedAt.IsZero() {
		return Already, nil
	}
	if err := c.mayRun(); err != nil {
		return "", err
	}
	if c.ending() {
		return "", c.illegalRun("the run is ending already")
	}
	c.actor = e.Actor
	c.run.CancelRequestedAt = c.now
	c.recordDecision()
	undo := c.plan.UndoOnCancel
	if e.Undo != nil {
		undo = *e.Undo
	}
	c.stop(Ending{Status: RunCancelled, Reason: ReasonCancelled, Detail: e.Comment, Step: AllSteps, Undo: undo})
	c.settle()
	return Applied, nil
}

// recordDecision journals a decision about the run as a whole.
func (c *change) recordDecision() {
	c.journal(Journal{Kind: c.kind, Ref: c.ref(Key{AllSteps, Whole})})
}

// awaited reports whether the step's outcome is all that a run which is ending still wants of it.
func (c *change) awaited(step int) bool { return c.ending() && !c.plan.IsUndo(step) }

// stop decides how the run ends. Nothing becomes READY any more and no call can begin. RUNNING outside effects are awaited;
// those of unknown fate go to a person; everything else is cancelled at once.
func (c *change) stop(e Ending) { c.stopExcept(e, c.openEffects()) }

// stopExcept stops the run but for some rows.
func (c *change) stopExcept(e Ending, kept []Live) {
	c.run.State.Ending = &e
	c.emit(CloseSpend{Epoch: c.run.SpendEpoch})
	c.emit(CancelCalls{Ref: c.ref(Key{AllSteps, Whole})})
	keep := keysWithParents(kept)
	c.closeReviews(Drop{Step: AllSteps, Keep: keep})
	for i := range c.plan.Total {
		c.stopStep(i, kept)
	}
	c.rows.drop(Drop{Step: AllSteps, Keep: keep})
	for _, l := range kept {
		if l.Status != StepRunning && l.Status != StepNeedsReview {
			c.openReview(l, cause{reason: ReasonCallAmbiguous, detail: "it is unknown whether the outside effect was made"})
		}
	}
}

// keysWithParents names rows and, for shards, the rows of their fan-outs.
func keysWithParents(rows []Live) []Key {
	var keys []Key
	for _, l := range rows {
		if parent := (Key{l.Step, Whole}); l.Shard != Whole && !slices.Contains(keys, parent) {
			keys = append(keys, parent)
		}
		keys = append(keys, l.Key)
	}
	return keys
}

// openEffects returns the rows whose outside effect is under way, or may have been made.
func (c *change) openEffects() []Live {
	var open []Live
	for _, l := range c.rows.All() {
		if c.plan.makesEffect(l.Key) && (l.Status == StepRunning || l.Unsure) {
			open = append(open, l)
		}
	}
	return open
}

// stopStep cancels an unfinished step of which nothing is kept.
func (c *change) stopStep(i int, kept []Live) {
	head := c.head(i)
	switch head.Phase {
	case PhasePending, PhaseLive, PhaseNeedsReview:
		if !slices.ContainsFunc(kept, func(l Live) bool { return l.Step == i }) {
			head.Phase, head.EndedSeq = PhaseCancelled, c.run.Seq
		}
	case PhaseExpanded:
		head.Shards.Active, head.Shards.Waiting, head.Shards.Review = 0, 0, 0
		for _, l := range kept {
			if l.Step == i {
				head.Shards.count(l.Status, 1)
			}
		}
		if head.Shards.open() == 0 {
			c.closeFanOut(i)
		}
	case PhaseDone, PhaseSkipped, PhaseFailed, PhaseCancelled, PhaseCompensated:
	}
}

// closeReviews resolves the open reviews of the rows that are dropped.
func (c *change) closeReviews(d Drop) {
	for i := range c.run.State.Heads {
		if (d.Step == AllSteps || d.Step == i) && c.head(i).inReview() {
			c.emit(CloseReviews{Drop: d, By: c.cause, Actor: c.actor})
			return
		}
	}
}

// letGo ends an awaited step that has not made its effect. If an earlier attempt may have, a person decides.
func (c *change) letGo(l Live) {
	if l.Unsure {
		c.review(l, cause{reason: ReasonCallAmbiguous, detail: "it is unknown whether the outside effect was made"})
		return
	}
	c.cause = KindStepFailed
	c.record(l, StepCancelled, cause{})
	c.move(&l, StepCancelled)
	if l.Shard == Whole {
		c.head(l.Step).EndedSeq = c.run.Seq
	}
	c.shardMoved(l.Key)
}

// settleEnding goes on with the end of a run: it waits for what is under way, then undoes what is to be undone, one after
// the other, and then ends the run, or lets it run again.
func (c *change) settleEnding() {
	moving, review := c.activity()
	switch e := *c.run.State.Ending; {
	case moving && c.undoing():
		c.become(RunCompensating)
	case moving:
		c.become(RunRunning)
	case review:
		c.become(RunNeedsReview)
	case e.Undo && c.undoNext():
		c.become(RunCompensating)
	case e.Status == RunRunning:
		c.rerun(e.Step)
		c.settle()
	default:
		c.conclude(e)
	}
}
