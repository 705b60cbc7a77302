package machine

import "time"

// cause says why a step left a state.
type cause struct {
	reason Reason
	detail string
	// retryAfter is the wait that the other side asked for.
	retryAfter time.Duration
	// fatal ends the run even where the step's policy would let it go on.
	fatal bool
}

// outcome settles the claim of an attempt and lets then decide what becomes of its row.
func (c *change) outcome(a Attempt, then func(Live)) (Answer, error) {
	l, settled, err := c.owed(a.Claim)
	switch {
	case settled:
		return Already, nil
	case err != nil:
		return "", err
	}
	c.begin()
	l.Fence = ID{}
	l.Calls += a.Calls
	l.AskBase += a.AsksSpent
	then(l)
	c.settle()
	return Applied, nil
}

// succeeded ends a step with an output.
func (c *change) succeeded(e Succeeded) (Answer, error) {
	if c.isFanOut(e.Key) {
		return "", &IllegalError{Event: c.kind, State: string(StepRunning), Why: "a fan-out is expanded"}
	}
	return c.outcome(e.Attempt, func(l Live) { c.finish(l, StepDone, cause{}) })
}

// skipped ends a step without one.
func (c *change) skipped(e Skipped) (Answer, error) {
	return c.outcome(e.Attempt, func(l Live) { c.finish(l, StepSkipped, cause{}) })
}

// failedTransient tries a step again later, or ends it when its attempts are used up.
func (c *change) failedTransient(e FailedTransient) (Answer, error) {
	return c.outcome(e.Attempt, func(l Live) {
		c.tryAgain(l, cause{reason: e.Reason, detail: e.Detail, retryAfter: e.RetryAfter})
	})
}

// failedPermanent ends a step without a result.
func (c *change) failedPermanent(e FailedPermanent) (Answer, error) {
	return c.outcome(e.Attempt, func(l Live) { c.fail(l, cause{reason: e.Reason, detail: e.Detail}) })
}

// budgetExceeded ends a step for want of money, which the steps after it would not have either.
func (c *change) budgetExceeded(e BudgetExceeded) (Answer, error) {
	return c.outcome(e.Attempt, func(l Live) {
		c.fail(l, cause{reason: ReasonBudgetExceeded, detail: e.Detail, fatal: true})
	})
}

// reviewRequested hands a step to a person.
func (c *change) reviewRequested(e ReviewRequested) (Answer, error) {
	return c.outcome(e.Attempt, func(l Live) { c.review(l, cause{reason: e.Reason, detail: e.Detail}) })
}

// ambiguous handles a call of unknown fate as the step's policy says.
func (c *change) ambiguous(e Ambiguous) (Answer, error) {
	return c.outcome(e.Attempt, func(l Live) {
		policy, why := c.plan.Steps[l.Step].OnAmbiguous, cause{reason: ReasonCallAmbiguous, detail: e.Detail}
		l.Unsure = l.Unsure || c.plan.makesEffect(l.Key)
		switch {
		case c.awaited(l.Step):
			c.fail(l, why)
		case policy == ReviewAmbiguous:
			c.review(l, why)
		case policy == FailAmbiguous || l.AmbiguousOK > 0:
			c.fail(l, why)
		default:
			l.AmbiguousOK++
			c.backOff(l, l.Failures+1, why)
		}
	})
}

// parked puts a step aside; its attempt is given back. What the other side makes wait until after the deadline ends the run
// now: nothing could come of it. A wait costs no attempt, but each request that ends in one counts.
func (c *change) parked(e Parked) (Answer, error) {
	if e.Until.IsZero() {
		return "", &IllegalError{Event: c.kind, State: string(StepRunning), Why: "a wait needs a time to look again"}
	}
	return c.outcome(e.Attempt, func(l Live) {
		if e.Reason != "" && c.outOfCalls(l) {
			c.fail(l, cause{reason: e.Reason, detail: e.Detail})
			return
		}
		if e.Reason != "" && c.pastDeadline(l, e.Until) {
			c.failPastDeadline(l, cause{reason: e.Reason, detail: e.Detail})
			return
		}
		l.Attempt--
		if c.awaited(l.Step) {
			c.letGo(l)
		} else {
			c.park(l, e)
		}
	})
}

// pastDeadline reports whether the run will have been ended before the step can go on.
func (c *change) pastDeadline(l Live, until time.Time) bool {
	return !c.ending() && !c.plan.IsUndo(l.Step) && until.After(c.run.DeadlineAt)
}

// park begins a wait, which the run's deadline bounds.
func (c *change) park(l Live, e Parked) {
	l.Reason = e.Reason
	c.record(l, StepWaiting, cause{reason: e.Reason, detail: e.Detail})
	c.move(&l, StepWaiting)
	l.DueAt = e.Until
	if c.pastDeadline(l, e.Until) {
		l.DueAt = c.run.DeadlineAt
	}
	c.rows.put(l)
	c.shardMoved(l.Key)
}

// tryAgain lets a step back off while its policy allows.
func (c *change) tryAgain(l Live, why cause) {
	step := &c.plan.Steps[l.Step]
	l.Failures++
	if step.Retry.UsedUp(l.Failures) || c.outOfCalls(l) || c.awaited(l.Step) {
		c.fail(l, why)
		return
	}
	c.backOff(l, l.Failures, why)
}

// outOfCalls reports whether the step has sent as many requests as it may in its generation.
func (c *change) outOfCalls(l Live) bool {
	most := c.plan.Steps[l.Step].MaxCalls
	return most > 0 && l.Calls >= most
}

// backOff lets the step wait before its next attempt. A wait that ends past the deadline ends the run now.
func (c *change) backOff(l Live, failures int, why cause) {
	until := c.now.Add(c.plan.Steps[l.Step].Retry.Delay(failures, why.retryAfter, c.random))
	if c.pastDeadline(l, until) {
		c.failPastDeadline(l, why)
		return
	}
	c.record(l, StepBackoff, why)
	l.Reason = why.reason
	c.move(&l, StepBackoff)
	l.DueAt = until
	c.rows.put(l)
}

// fail ends a step without a result, as its policy says, or hands it to a person.
func (c *change) fail(l Live, why cause) {
	step := &c.plan.Steps[l.Step]
	switch {
	case c.plan.IsUndo(l.Step):
		c.cause = KindUndoFailed
		c.review(l, cause{reason: ReasonUndoFailed, detail: string(why.reason) + ": " + why.detail})
	case l.Unsure:
		// Nobody knows whether the outside effect was made.
		c.review(l, why)
	case c.awaited(l.Step):
		c.cause = KindStepFailed
		c.end(l, StepFailed, why)
		c.shardMoved(l.Key)
	case step.OnError == ReviewFailure:
		c.review(l, why)
	case step.OnError == ContinueRun && !why.fatal:
		c.finish(l, StepFailed, why)
	default:
		c.failRun(l, why, Ending{Status: RunFailed, Reason: why.reason, Detail: why.detail})
	}
}

// failPastDeadline ends the run because the step's next attempt would come too late.
func (c *change) failPastDeadline(l Live, why cause) {
	if l.Unsure {
		c.review(l, why)
		return
	}
	c.failRun(l, why, Ending{
		Status: RunFailed, Reason: ReasonDeadlineExceeded,
		Detail: "the next attempt would begin after the run's deadline; the last one ended with " + string(why.reason),
	})
}

func (c *change) failRun(l Live, why cause, e Ending) {
	c.cause = KindStepFailed
	c.end(l, StepFailed, why)
	e.Step, e.Undo = l.Step, c.plan.UndoOnFailure
	c.stop(e)
}

// review hands the step to a person. What it has so far is kept.
func (c *change) review(l Live, why cause) {
	if c.cause == c.kind {
		c.cause = KindReviewOpened
	}
	c.openReview(l, why)
	c.shardMoved(l.Key)
}

func (c *change) openReview(l Live, why cause) {
	if l.Fence != (ID{}) {
		l.revoke()
	}
	l.Reason = why.reason
	c.head(l.Step).Reason = why.reason
	c.store(l, StepNeedsReview, why)
	c.record(l, StepNeedsReview, why)
	c.move(&l, StepNeedsReview)
	c.emit(OpenReview{Ref: c.ref(l.Key), Reason: why.reason, Detail: why.detail})
}
