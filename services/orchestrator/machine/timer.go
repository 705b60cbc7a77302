package machine

// leaseExpired takes a step from a runner that is not heard of any more. The row keeps the fence: until somebody else
// claims the step, its outcome is still welcome.
func (c *change) leaseExpired(e LeaseExpired) (Answer, error) {
	l, err := c.held(e.Ref, e.Fence)
	if err != nil {
		return "", err
	}
	l.Losses++
	l.Unsure = l.Unsure || c.plan.makesEffect(l.Key)
	why := cause{reason: ReasonWorkerLost, detail: "the worker that executed the step was lost"}
	if l.Losses >= max(c.plan.Steps[l.Step].MaxLost, 1) || c.awaited(l.Step) {
		l.revoke()
		c.fail(l, why)
	} else {
		c.record(l, StepReady, why)
		l.Reason = why.reason
		c.move(&l, StepReady)
	}
	c.settle()
	return Applied, nil
}

// hardTimeout ends a claim that has lasted too long; its late outcome is refused.
func (c *change) hardTimeout(e HardTimeout) (Answer, error) {
	if _, err := c.held(e.Ref, e.Fence); err != nil {
		return "", err
	}
	l, err := c.due(e.Ref)
	if err != nil {
		return "", err
	}
	l.revoke()
	l.Unsure = l.Unsure || c.plan.makesEffect(l.Key)
	c.tryAgain(l, cause{reason: ReasonStepTimeout, detail: "the step took longer than its hard timeout"})
	c.settle()
	return Applied, nil
}

// retryDue ends a backoff.
func (c *change) retryDue(e RetryDue) (Answer, error) {
	l, err := c.due(e.Ref)
	if err != nil {
		return "", err
	}
	c.move(&l, StepReady)
	return Applied, nil
}

// woken ends a wait.
func (c *change) woken(e Woken) (Answer, error) {
	find := c.at
	if e.Timed {
		find = c.due
	}
	l, err := find(e.Ref)
	switch {
	case err != nil:
		return "", err
	case c.run.NotBefore.After(c.now):
		return "", &IllegalError{Event: c.kind, State: string(l.Status), Why: "the run may not begin yet"}
	}
	c.move(&l, StepReady)
	return Applied, nil
}

// held returns the row if it is RUNNING under the fence.
func (c *change) held(ref Ref, fence ID) (Live, error) {
	l, err := c.at(ref)
	if err == nil && l.Fence != fence {
		err = &StaleError{Event: c.kind, Why: "the step is held under another fence"}
	}
	return l, err
}

// due returns the row if its timer has run out.
func (c *change) due(ref Ref) (Live, error) {
	l, err := c.at(ref)
	if err == nil && l.DueAt.After(c.now) {
		err = &IllegalError{Event: c.kind, State: string(l.Status), Why: "it is not due yet"}
	}
	return l, err
}
