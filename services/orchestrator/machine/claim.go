package machine

// dispatched moves a step to its stream.
func (c *change) dispatched(e Dispatched) (Answer, error) {
	l, err := c.at(e.Ref)
	if err != nil {
		return "", err
	}
	if c.run.State.Held {
		return "", &IllegalError{Event: c.kind, State: string(l.Status), Why: "the batch or pipeline is paused"}
	}
	c.move(&l, StepQueued)
	c.emit(Publish{Ref: e.Ref, Class: l.Class})
	return Applied, nil
}

// overdue adds a step's id to its stream once more.
func (c *change) overdue(e Overdue) (Answer, error) {
	l, err := c.at(e.Ref)
	if err != nil {
		return "", err
	}
	if l.QueuedAt.After(e.QueuedBefore) {
		return Already, nil
	}
	c.move(&l, StepQueued)
	c.emit(Publish{Ref: e.Ref, Class: l.Class})
	return Applied, nil
}

// claimed answers a runner that wants a step. Nothing is an error here: after any answer but Granted the runner drops the
// stream's entry.
func (c *change) claimed(e Claimed) (Answer, error) {
	l, err := c.find(e.Ref)
	switch {
	case err != nil:
		return Gone, nil //nolint:nilerr // whatever the reason, there is nothing to claim
	case l.Status == StepRunning && l.Fence == e.Fence:
		return Granted, nil
	case l.Status == StepRunning:
		return Held, nil
	case !stepMay(c.kind, l.Status), e.Fence == ID{}, e.Fence == l.LastFence:
		return Gone, nil
	}
	c.take(&l, Claim{Ref: e.Ref, Fence: e.Fence, Worker: e.Worker})
	c.move(&l, StepRunning)
	c.begin()
	if c.plan.makesEffect(l.Key) || c.plan.IsUndo(l.Step) {
		c.emit(BeginEffect{Ref: e.Ref})
	}
	return Granted, nil
}

// take counts a new claim on the row.
func (c *change) take(l *Live, by Claim) {
	l.Attempt++
	l.ClaimNo++
	l.Fence, l.LastFence, l.Worker = by.Fence, by.Fence, by.Worker
	l.ClaimedAt = c.now
}

// begin notes that the run's first step has begun.
func (c *change) begin() {
	if c.run.StartedAt.IsZero() {
		c.run.StartedAt = c.now
	}
	if c.run.Status == RunQueued {
		c.become(RunRunning)
	}
}

// owed returns the row of a claim whose outcome is still expected, as RUNNING under that claim; true says that the outcome
// was stored before. Nothing is changed yet.
//
// The lease may have run out with nobody taking over (the row still names the fence), or a crash of PostgreSQL may have
// forgotten the claim (it is the one after the newest on the row): in both cases the claim is as good as held.
func (c *change) owed(e Claim) (Live, bool, error) {
	l, err := c.find(e.Ref)
	if err != nil {
		res, ok := c.rows.results[e.Key]
		return Live{}, ok && res.Generation == e.Generation && e.Fence != ID{} && res.Fence == e.Fence, err
	}
	free := l.Status != StepRunning && stepMay(c.kind, l.Status)
	switch {
	case e.Fence == ID{}:
		return l, false, &StaleError{Event: c.kind, Why: "the fence is empty"}
	case l.Fence == e.Fence && l.Status == StepRunning:
		return l, false, nil
	case l.Fence == e.Fence && free:
		l.Losses--
		l.Status = StepRunning
		return l, false, nil
	case l.LastFence != e.Fence && free && e.ClaimNo == l.ClaimNo+1:
		c.take(&l, e)
		l.Status = StepRunning
		return l, false, nil
	case l.Fence == ID{} && l.LastFence == e.Fence:
		return l, true, nil
	default:
		return l, false, &StaleError{Event: c.kind, Why: "another claim has been granted, or the orchestrator has ended this one"}
	}
}

// readopted answers a runner that lists a claim: it keeps the step, gets it back, or is told why to stop.
func (c *change) readopted(e Readopted) (Answer, error) {
	before, found := c.rows.Get(e.Key)
	l, settled, err := c.owed(e.Claim)
	if err != nil || settled {
		return c.stopAnswer(e.Claim), nil //nolint:nilerr // the answer says it
	}
	due := l.ClaimedAt.Add(c.plan.Steps[l.Step].HardTimeout + max(e.PermitWait, 0))
	if found && before.Status == StepRunning && !due.After(l.DueAt) {
		return Already, nil
	}
	l.DueAt = due
	c.rows.put(l)
	c.begin()
	return Applied, nil
}

// stopAnswer says why a claim that is over must be let go of.
func (c *change) stopAnswer(e Claim) Answer {
	if e.Step < 0 || e.Step >= len(c.plan.Steps) || e.Generation != c.head(e.Step).Generation {
		return StopCancelled
	}
	if c.timedOut(e) {
		return StopHardTimeout
	}
	if _, live := c.rows.Get(e.Key); live {
		return StopFenced
	}
	reason := c.run.Reason
	if c.ending() {
		reason = c.run.State.Ending.Reason
	}
	switch {
	case c.head(e.Step).finished(), c.rows.results[e.Key].Status == StepDone, c.rows.results[e.Key].Status == StepSkipped:
		return StopFenced
	case reason == ReasonDeadlineExceeded:
		return StopDeadline
	default:
		return StopCancelled
	}
}

// timedOut reports whether it was the hard timeout that ended the claim: no other end of a claim takes away its fence and
// leaves that reason.
func (c *change) timedOut(e Claim) bool {
	if l, live := c.rows.Get(e.Key); live {
		return l.ClaimNo == e.ClaimNo && l.LastFence == ID{} && l.Reason == ReasonStepTimeout
	}
	res, ok := c.rows.results[e.Key]
	return ok && res.Generation == e.Generation && res.ClaimNo == e.ClaimNo && res.Fence == ID{} &&
		res.Reason == ReasonStepTimeout
}

// released gives a step back that was not executed.
func (c *change) released(e Released) (Answer, error) {
	l, settled, err := c.owed(e.Claim)
	switch {
	case settled:
		return Already, nil
	case err != nil:
		return "", err
	}
	c.begin()
	l.Fence = ID{}
	l.Attempt--
	if c.awaited(l.Step) {
		c.letGo(l)
	} else {
		c.record(l, StepReady, cause{})
		c.move(&l, StepReady)
	}
	c.settle()
	return Applied, nil
}
