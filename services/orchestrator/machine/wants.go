package machine

import "slices"

// Need says which rows of a run Apply must find in memory for an event. Several events of a run in one group share what
// they need, but each needs PENDING shards of its own.
type Need struct {
	// Keys are live rows wanted by key. For those that have none, the stored results of their current generation are
	// wanted, where there are any.
	Keys []Key
	// Pending are fan-out steps of which the next PENDING shard is wanted: from Shards.Next upward, or for an undo step
	// the highest below it.
	Pending []int
	// Review asks for all rows in NEEDS_REVIEW.
	Review bool
	// Begun are fan-out steps of which all rows are wanted whose outside effect is under way or may have been made: those
	// that are RUNNING and those that are Unsure.
	Begun []int
	// Results are fan-out steps of which the stored results of all shards in the current generation are wanted.
	Results []int
	// First says that the event must be the first of its run in a group: what it needs depends on the state of the run
	// that it finds.
	First bool
}

// Wants returns what the event needs. The run is as it was just read.
func Wants(p *Plan, run *Run, ev Event) Need {
	n := needs{plan: p, run: run}
	ref, about := Target(ev)
	switch e := ev.(type) {
	case Created, Promoted, Paused, Resumed:
	case DeadlinePassed, CancelRequested, OperatorClose:
		n.end()
	case RerunFrom:
		n.need.First = true
		n.unfinished()
		n.end()
	case OperatorRetry:
		n.need.First = true
		n.retry(e)
	case Dispatched, Claimed, Readopted, Overdue, Woken, RetryDue:
		n.row(ref)
	default:
		if about {
			n.outcome(ref)
		}
	}
	return n.need
}

// needs collects a Need.
type needs struct {
	plan *Plan
	run  *Run
	need Need
}

func (n *needs) known(ref Ref) bool { return ref.Step >= 0 && ref.Step < len(n.plan.Steps) }

func (n *needs) row(ref Ref) {
	if n.known(ref) {
		n.need.Keys = append(n.need.Keys, ref.Key)
	}
}

// outcome needs the row, its fan-out with the next shard or, for a fan-out itself that was expanded before, the results of
// its shards, and whatever the end of the run would need.
func (n *needs) outcome(ref Ref) {
	if !n.known(ref) {
		return
	}
	n.row(ref)
	head := &n.run.State.Heads[ref.Step]
	switch {
	case ref.Shard != Whole:
		n.need.Keys = append(n.need.Keys, Key{ref.Step, Whole})
		stopped := n.run.State.Ending != nil && !n.plan.IsUndo(ref.Step)
		if head.Phase == PhaseExpanded && head.Shards.Pending() > 0 && !stopped {
			n.need.Pending = append(n.need.Pending, ref.Step)
		}
	case head.Phase == PhaseLive && head.Shards.finished() > 0:
		n.need.Results = append(n.need.Results, ref.Step)
	}
	n.end()
}

func (n *needs) retry(e OperatorRetry) {
	switch {
	case n.run.Status == RunFailed:
		n.unfinished()
	case e.Step == AllSteps:
		n.need.Review = true
	default:
		n.row(e.Ref)
	}
}

// unfinished needs what earlier attempts of the steps that may run again have left.
func (n *needs) unfinished() {
	for i := range n.plan.Total {
		if !n.run.State.Heads[i].finished() {
			n.need.Keys = append(n.need.Keys, Key{i, Whole})
		}
	}
}

// end needs the outside effects that may be under way, and the shards whose effects may have to be undone.
func (n *needs) end() {
	for i := range n.plan.Total {
		head, step := &n.run.State.Heads[i], &n.plan.Steps[i]
		switch open := head.moving() || head.inReview(); {
		case step.Effect && open && step.FanOut:
			n.need.Begun = append(n.need.Begun, i)
		case step.Effect && open:
			n.need.Keys = append(n.need.Keys, Key{i, Whole})
		}
		toUndo := n.plan.undoable(i) && n.run.State.Heads[step.Undo].Phase == PhasePending
		if step.FanOut && toUndo && head.Shards.Done > 0 && !slices.Contains(n.need.Results, i) {
			n.need.Results = append(n.need.Results, i)
		}
	}
}

// loaded checks that what the event needs is in memory, as far as that can be seen.
func (c *change) loaded(ev Event) error {
	need := Wants(c.plan, c.run, ev)
	missing := func(step int, what string) error {
		return &MissingError{Event: c.kind, Step: c.plan.Steps[step].Name, What: what}
	}
	for _, k := range need.Keys {
		_, ok := c.rows.live[k]
		if phase := c.head(k.Step).Phase; !ok && k.Shard == Whole && phase.live() {
			return missing(k.Step, "its own row")
		}
	}
	for _, step := range need.Pending {
		if _, ok := c.rows.nextPending(step, c.head(step).Shards.Next, c.plan.IsUndo(step)); !ok {
			return missing(step, "the next shards")
		}
	}
	for _, step := range need.Results {
		if len(c.madeShards(step)) != c.head(step).Shards.Done {
			return missing(step, "the results of its shards")
		}
	}
	return nil
}
