package machine

import "time"

// move changes the state of a row, and with it the head or the counters of its step. It is the only place that does.
func (c *change) move(l *Live, to StepStatus) {
	head := c.head(l.Step)
	if l.Shard == Whole {
		head.Phase = to.Phase()
	} else {
		head.Shards.move(l.Status, to)
	}
	l.Status, l.DueAt = to, time.Time{}
	switch to {
	case StepReady:
		l.ReadyAt = c.now
		if !c.run.State.Held {
			c.emit(Dispatchable{Ref: c.ref(l.Key), Class: l.Class})
		}
	case StepQueued:
		l.QueuedAt = c.now
	case StepRunning:
		l.DueAt = c.now.Add(c.plan.Steps[l.Step].HardTimeout)
	case StepPending, StepBackoff, StepExpanded, StepWaiting, StepNeedsReview,
		StepDone, StepSkipped, StepFailed, StepCancelled, StepCompensated:
	}
	if to.Live() {
		c.rows.put(*l)
	} else {
		c.rows.remove(l.Key)
	}
}

// end takes a step or shard out of play with a result.
func (c *change) end(l Live, to StepStatus, why cause) {
	c.store(l, to, why)
	c.record(l, to, why)
	c.move(&l, to)
	head := c.head(l.Step)
	if to == StepFailed {
		head.Reason = why.reason
	}
	if l.Shard == Whole {
		head.EndedSeq = c.run.Seq
	}
}

// finish ends a step or shard in a way that lets the run go on.
func (c *change) finish(l Live, to StepStatus, why cause) {
	if c.cause == c.kind {
		c.cause = KindStepFinished
	}
	c.end(l, to, why)
	if l.Shard == Whole {
		c.head(l.Step).Tolerated = to == StepFailed
	}
	if c.plan.IsUndo(l.Step) {
		c.undone(l)
	}
	c.shardMoved(l.Key)
}

// store keeps the result of a step or shard.
func (c *change) store(l Live, to StepStatus, why cause) {
	ref := c.ref(l.Key)
	c.rows.results[l.Key] = Result{
		Key: l.Key, Generation: ref.Generation, Status: to, Reason: why.reason,
		Fence: l.LastFence, Attempt: l.Attempt, ClaimNo: l.ClaimNo, AskBase: l.AskBase,
	}
	c.emit(StoreResult{
		Ref: ref, Status: to, Fence: l.LastFence, Worker: l.Worker,
		Attempt: l.Attempt, ClaimNo: l.ClaimNo, AskBase: l.AskBase,
		Reason: why.reason, Detail: why.detail, QueuedAt: l.QueuedAt, ClaimedAt: l.ClaimedAt,
	})
}

// record journals what became of a step or shard.
func (c *change) record(l Live, to StepStatus, why cause) {
	c.journal(Journal{
		Kind: c.kind, Ref: c.ref(l.Key), Attempt: l.Attempt, Status: string(to), Reason: why.reason, Detail: why.detail,
	})
}

func (c *change) journal(entry Journal) {
	c.run.Seq++
	entry.Seq, entry.Actor = c.run.Seq, c.actor
	c.emit(entry)
}

// move counts a shard in its new state instead of its old one.
func (s *Shards) move(from, to StepStatus) {
	s.count(from, -1)
	s.count(to, 1)
}

func (s *Shards) count(in StepStatus, n int) {
	switch in {
	case StepReady, StepQueued, StepRunning, StepBackoff:
		s.Active += n
	case StepWaiting:
		s.Waiting += n
	case StepNeedsReview:
		s.Review += n
	case StepDone:
		s.Done += n
	case StepSkipped:
		s.Skipped += n
	case StepFailed:
		s.Failed += n
	case StepPending, StepExpanded, StepCancelled, StepCompensated:
	}
}

// Pending returns how many shards wait for their turn.
func (s *Shards) Pending() int { return s.Total - s.finished() - s.open() }

// finished counts shards that have ended; open those that are neither finished nor pending.
func (s *Shards) finished() int { return s.Done + s.Skipped + s.Failed }
func (s *Shards) open() int     { return s.Active + s.Waiting + s.Review }
