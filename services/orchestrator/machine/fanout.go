package machine

import "fmt"

func (c *change) isFanOut(k Key) bool {
	return k.Step >= 0 && k.Step < len(c.plan.Steps) && c.plan.Steps[k.Step].FanOut && k.Shard == Whole
}

// expanded makes the shards of a fan-out: the first ones READY, the rest PENDING. When the step was expanded before, and
// its run was opened again, the shards that are finished stay so, and the others keep what their attempts have counted.
func (c *change) expanded(e Expanded) (Answer, error) {
	illegal := func(why string) (Answer, error) {
		return "", &IllegalError{Event: c.kind, State: string(StepRunning), Why: why}
	}
	switch {
	case !c.isFanOut(e.Key) || c.plan.IsUndo(e.Step):
		return illegal("the step is not a fan-out")
	case e.Total < 0 || e.Total > MaxShards:
		return illegal(fmt.Sprintf("a fan-out has at most %d items, this one %d", MaxShards, e.Total))
	case c.head(e.Step).Shards.Total > 0 && c.head(e.Step).Shards.Total != e.Total:
		return illegal(fmt.Sprintf("the fan-out had %d items before, now %d", c.head(e.Step).Shards.Total, e.Total))
	}
	return c.outcome(e.Attempt, func(l Live) {
		if e.Total == 0 {
			c.finish(l, StepDone, cause{})
			return
		}
		c.record(l, StepExpanded, cause{})
		c.move(&l, StepExpanded)
		c.head(l.Step).Shards = Shards{Total: e.Total}
		for shard := range e.Total {
			c.addShard(Key{l.Step, shard})
		}
		c.shardsMoved(l.Step)
	})
}

// addShard makes the row of a shard, unless the shard is finished.
func (c *change) addShard(k Key) {
	shards := &c.head(k.Step).Shards
	res, ended := c.rows.results[k]
	if ended && res.Generation == c.head(k.Step).Generation && c.final(res) {
		shards.count(res.Status, 1)
		return
	}
	c.rows.put(c.newLive(k, StepPending))
}

// final reports whether a stored result counts as finished.
func (c *change) final(res Result) bool {
	switch res.Status {
	case StepDone, StepSkipped:
		return true
	case StepFailed:
		return c.plan.Steps[res.Step].OnError == ContinueRun && res.Reason != ReasonBudgetExceeded
	default:
		return false
	}
}

// claimsPerOpening is how far apart the numbers of claims begin each time that a run is opened again.
const claimsPerOpening = 1 << 16

// newLive returns a fresh row. What a step's earlier attempts in this generation have counted, before its run was opened
// again, goes on: a claim's number never comes twice, and answers that were at fault are not replayed. What was cancelled has
// left no count, so numbers begin higher with each opening: else a claim from before would pass for one that a crash of
// PostgreSQL has forgotten, and its outcome would count.
func (c *change) newLive(k Key, status StepStatus) Live {
	l := Live{
		Key: k, Generation: c.head(k.Step).Generation, Status: status, Class: c.run.Class,
		ClaimNo: (c.run.SpendEpoch - 1) * claimsPerOpening,
	}
	if res, ok := c.rows.results[k]; ok && res.Generation == l.Generation {
		l.Attempt, l.ClaimNo, l.AskBase, l.LastFence = res.Attempt, max(l.ClaimNo, res.ClaimNo), res.AskBase+1, res.Fence
	}
	return l
}

// shardMoved lets a fan-out go on after one of its shards has left its place.
func (c *change) shardMoved(k Key) {
	if k.Shard != Whole {
		c.shardsMoved(k.Step)
	}
}

// shardsMoved finishes a fan-out whose shards are finished, or readies the next of them.
func (c *change) shardsMoved(step int) {
	shards := &c.head(step).Shards
	switch {
	case c.awaited(step):
		if shards.open() == 0 {
			c.closeFanOut(step)
		}
	case shards.finished() == shards.Total:
		c.finish(c.parent(step), StepDone, cause{})
	default:
		c.fill(step)
	}
}

// fill makes PENDING shards READY while there is room.
func (c *change) fill(step int) {
	shards := &c.head(step).Shards
	backward := c.plan.IsUndo(step)
	for shards.Pending() > 0 && shards.Active < max(c.plan.Steps[step].Concurrency, 1) {
		l, ok := c.rows.nextPending(step, shards.Next, backward)
		if !ok {
			return
		}
		c.move(&l, StepReady)
		shards.Next = l.Shard
		if !backward {
			shards.Next++
		}
	}
}

// closeFanOut ends a fan-out of a run that is ending, when none of its shards is left.
func (c *change) closeFanOut(step int) {
	l, head, e := c.parent(step), c.head(step), c.run.State.Ending
	switch {
	case e.Step == step && e.Status == RunFailed:
		c.end(l, StepFailed, cause{reason: head.Reason, detail: e.Detail})
	case head.Shards.Done+head.Shards.Skipped == head.Shards.Total:
		c.end(l, StepDone, cause{})
	default:
		c.move(&l, StepCancelled)
		head.EndedSeq = c.run.Seq
	}
}

// parent returns the row of a fan-out itself.
func (c *change) parent(step int) Live {
	k := Key{step, Whole}
	l, ok := c.rows.Get(k)
	if !ok {
		l = c.newLive(k, StepExpanded)
	}
	return l
}
