package machine

import "time"

// created begins a run.
func (c *change) created() (Answer, error) {
	if err := c.mayRun(); err != nil {
		return "", err
	}
	if c.run.Seq > 0 {
		return Already, nil
	}
	c.journal(Journal{Kind: c.kind, Ref: c.ref(Key{AllSteps, Whole}), Status: string(c.run.Status)})
	c.settle()
	return Applied, nil
}

// settle brings the run in line with its steps: it readies what may run, and ends the run, or lets it wait for a person,
// when nothing is left that could move.
func (c *change) settle() {
	if c.ending() {
		c.settleEnding()
	} else {
		c.advance()
		c.settleRunning()
	}
	c.run.StepsDone = c.countDone()
}

// advance makes every step READY whose needs are finished.
func (c *change) advance() {
	for i := range c.plan.Total {
		if c.head(i).Phase == PhasePending && c.needsFinished(i) {
			c.ready(Key{i, Whole})
		}
	}
}

func (c *change) needsFinished(i int) bool {
	for _, n := range c.plan.Steps[i].Needs {
		if !c.head(n).finished() {
			return false
		}
	}
	return true
}

// ready makes the row of a step; before the run may begin, it waits.
func (c *change) ready(k Key) {
	l := c.newLive(k, StepPending)
	if c.run.NotBefore.After(c.now) && !c.plan.IsUndo(k.Step) {
		c.move(&l, StepWaiting)
		l.DueAt = c.run.NotBefore
		c.rows.put(l)
		return
	}
	c.move(&l, StepReady)
}

func (c *change) settleRunning() {
	moving, review := c.activity()
	switch {
	case moving && c.run.StartedAt.IsZero():
		c.become(RunQueued)
	case moving:
		c.become(RunRunning)
	case review:
		c.become(RunNeedsReview)
	case c.countDone() == c.plan.Total:
		c.conclude(Ending{Status: RunDone})
	}
}

// activity reports whether a step can move by itself, and whether one waits for a person.
func (c *change) activity() (moving, review bool) {
	for i := range c.run.State.Heads {
		head := c.head(i)
		moving = moving || head.moving()
		review = review || head.inReview()
	}
	return moving, review
}

func (c *change) countDone() int {
	done := 0
	for i := range c.plan.Total {
		if c.head(i).finished() {
			done++
		}
	}
	return done
}

// become changes the state of a run that has not ended.
func (c *change) become(to RunStatus) {
	if c.run.Status == to {
		return
	}
	c.endPause()
	c.run.Status = to
	switch to {
	case RunNeedsReview:
		c.run.PausedAt = c.now
		c.run.Reason = c.reviewReason()
		c.run.Detail = c.run.Reason.Sentence()
		c.recordRun(CallbackNeedsReview)
	case RunCompensating:
		c.run.Reason, c.run.Detail = c.run.State.Ending.Reason, c.run.State.Ending.Detail
		c.recordRun("")
	case RunQueued, RunRunning, RunDone, RunFailed, RunCancelled:
	}
}

// endPause lets the deadline's clock go on when the run stops waiting for a person.
func (c *change) endPause() {
	if c.run.PausedAt.IsZero() {
		return
	}
	c.run.DeadlineAt = c.run.DeadlineAt.Add(c.now.Sub(c.run.PausedAt))
	c.run.PausedAt, c.run.Reason, c.run.Detail = time.Time{}, "", ""
}

// reviewReason is that of the first step in review.
func (c *change) reviewReason() Reason {
	for i := range c.run.State.Heads {
		if head := c.head(i); head.inReview() {
			return head.Reason
		}
	}
	return ""
}

// conclude ends the run.
func (c *change) conclude(e Ending) {
	c.endPause()
	c.run.Status, c.run.Reason, c.run.Detail = e.Status, e.Reason, e.Detail
	c.run.State.Ending = nil
	c.run.FinishedAt = c.now
	switch e.Status {
	case RunDone:
		c.recordRun(CallbackDone)
		return
	case RunCancelled:
		c.recordRun(CallbackCancelled)
	default:
		c.recordRun(CallbackFailed)
	}
	c.run.Undo = c.undoOutcome()
}

// recordRun journals the run's new state and owes the client a callback about it, if there is one.
func (c *change) recordRun(callback string) {
	c.journal(Journal{
		Kind: c.cause, Ref: c.ref(Key{AllSteps, Whole}),
		Status: string(c.run.Status), Reason: c.run.Reason, Detail: c.run.Detail,
	})
	if callback != "" {
		c.emit(OweCallback{Event: callback, Seq: c.run.Seq})
	}
}
