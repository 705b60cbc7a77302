package machine

import (
	"slices"
	"time"
)

// operatorRetry runs what waits for a person again, or opens a FAILED run again.
func (c *change) operatorRetry(e OperatorRetry) (Answer, error) {
	if err := c.mayRun(); err != nil {
		return "", err
	}
	c.actor = e.Actor
	if c.run.Status == RunFailed {
		return c.reopen(e)
	}
	rows, err := c.inReview(e.Ref)
	if err != nil {
		return "", err
	}
	for _, l := range rows {
		if l.Reason == ReasonBudgetExceeded && !e.BudgetRaised {
			return "", c.illegalRun("the money is used up: raise the budget first")
		}
	}
	for _, l := range rows {
		c.record(l, StepReady, cause{})
		c.runAgain(l)
	}
	c.settle()
	return Applied, nil
}

// inReview returns the row that is named, if it waits for a person; with AllSteps all that do.
func (c *change) inReview(ref Ref) ([]Live, error) {
	if ref.Step != AllSteps {
		l, err := c.at(ref)
		return []Live{l}, err
	}
	var rows []Live
	for _, l := range c.rows.All() {
		if l.Status == StepNeedsReview {
			rows = append(rows, l)
		}
	}
	if len(rows) == 0 {
		return nil, c.illegalRun("no step waits for a person")
	}
	return rows, nil
}

// runAgain makes a step in review READY with its counters anew. Its next question is a new one.
func (c *change) runAgain(l Live) {
	l.Failures, l.Losses, l.Calls = 0, 0, 0
	l.AskBase++
	l.Reason = ""
	c.resolve(l)
	c.move(&l, StepReady)
}

func (c *change) resolve(l Live) {
	c.emit(CloseReview{Ref: c.ref(l.Key), By: c.kind, Actor: c.actor})
}

// reopen lets a FAILED run go on: what did not finish runs again, with a new deadline.
func (c *change) reopen(e OperatorRetry) (Answer, error) {
	switch {
	case e.Step != AllSteps:
		return "", c.illegalRun("a run that has failed is retried as a whole: name no step")
	case c.run.Undo != UndoNone:
		return "", c.illegalRun("effects were undone: run it again from the first step that was")
	case c.run.Reason == ReasonBudgetExceeded && !e.BudgetRaised:
		return "", c.illegalRun("the money is used up: raise the budget first")
	}
	c.recordDecision()
	c.restart()
	for i := range c.plan.Total {
		c.reset(i)
	}
	c.settle()
	return Applied, nil
}

// restart makes an ended run one that has not ended.
func (c *change) restart() {
	c.run.Status = RunQueued
	if !c.run.StartedAt.IsZero() {
		c.run.Status = RunRunning
	}
	c.run.Reason, c.run.Detail, c.run.Undo = "", "", ""
	c.run.FinishedAt, c.run.CancelRequestedAt = time.Time{}, time.Time{}
	c.run.DeadlineAt = c.now.Add(c.plan.Deadline)
	c.run.SpendEpoch++
	c.emit(OpenSpend{Epoch: c.run.SpendEpoch})
}

// reset makes a step PENDING that has ended without being finished; it stays in its generation.
func (c *change) reset(i int) {
	head := c.head(i)
	if head.Phase == PhaseCancelled || head.Phase == PhaseFailed && !head.Tolerated {
		head.Phase, head.EndedSeq, head.Reason = PhasePending, 0, ""
	}
}

// operatorCorrect resolves a review with a person's data.
func (c *change) operatorCorrect(e OperatorCorrect) (Answer, error) {
	if err := c.mayRun(); err != nil {
		return "", err
	}
	l, err := c.at(e.Ref)
	if err != nil {
		return "", err
	}
	c.actor = e.Actor
	if e.Input {
		c.record(l, StepReady, cause{})
		c.runAgain(l)
	} else {
		l.LastFence = ID{}
		c.resolve(l)
		c.finish(l, StepDone, cause{})
	}
	c.settle()
	return Applied, nil
}

// operatorClose ends a run that waits for a person, who takes responsibility for what is in doubt.
func (c *change) operatorClose(e OperatorClose) (Answer, error) {
	if err := c.mayRun(); err != nil {
		return "", err
	}
	c.actor = e.Actor
	c.recordDecision()
	ending := Ending{Status: RunFailed, Reason: ReasonClosedByOperator, Detail: e.Comment, Step: AllSteps}
	if decided := c.run.State.Ending; decided != nil && decided.Status != RunRunning {
		ending = *decided
	}
	ending.Undo = e.Undo
	c.stopExcept(ending, nil)
	c.giveUpUndos()
	c.settle()
	return Applied, nil
}

// giveUpUndos ends the undos that wait for a person.
func (c *change) giveUpUndos() {
	for i := c.plan.Total; i < len(c.plan.Steps); i++ {
		if head := c.head(i); head.inReview() {
			head.Phase, head.EndedSeq, head.Shards.Review = PhaseFailed, c.run.Seq, 0
		}
	}
}

// hold pauses or resumes the dispatch of the run's READY steps.
func (c *change) hold(by Actor, held bool) (Answer, error) {
	if err := c.mayRun(); err != nil {
		return "", err
	}
	if c.run.State.Held == held {
		return Already, nil
	}
	c.actor = by
	c.run.State.Held = held
	c.recordDecision()
	return Applied, nil
}

// promoted moves the run to another lane.
func (c *change) promoted(e Promoted) (Answer, error) {
	if err := c.mayRun(); err != nil {
		return "", err
	}
	switch {
	case c.run.Class == e.Class:
		return Already, nil
	case !slices.Contains(AllClasses(), e.Class):
		return "", c.illegalRun("there is no such class")
	}
	c.actor = e.Actor
	c.run.Class = e.Class
	c.rows.promote(e.Class, c.now)
	c.recordDecision()
	return Applied, nil
}
