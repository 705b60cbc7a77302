package sim

import (
	"time"

	"pawl.internal/services/orchestrator/machine"
)

const (
	janitorEvery   = 2 * time.Second
	queuedPatience = 5 * time.Second
)

// clean keeps the stream in line with PostgreSQL (janitor.go).
func (o *orchestrator) clean() {
	o.restore()
	o.settleConsumers()
}

// restore has the ids of steps added again that the stream has lost. Waiting in line is not loss.
func (o *orchestrator) restore() {
	if !o.s.guard(GuardOverdue) {
		return
	}
	var patience time.Duration
	o.s.redis.ask(o.process, func() { patience = o.s.redis.age() + queuedPatience }, func(err error) {
		if err != nil || !o.s.pg.reads(o.process) {
			return
		}
		at := o.s.pgNow()
		var late []*coreEvent
		for _, r := range o.s.core.runs {
			for _, l := range r.rows() {
				if l.Status == machine.StepQueued && at.Sub(l.QueuedAt) > patience {
					late = append(late, overdue(stepRef{r.no, machine.Ref{Key: l.Key, Generation: l.Generation}}, at))
				}
			}
		}
		o.submit(late, func() {})
	})
}

func overdue(ref stepRef, since time.Time) *coreEvent {
	return &coreEvent{stepRef: ref, make: func(time.Time) machine.Event {
		return machine.Overdue{Ref: ref.Ref, QueuedBefore: since}
	}}
}

// settleConsumers deals with what consumers have left behind whose runners are gone.
func (o *orchestrator) settleConsumers() {
	var suspects []machine.ID
	o.s.redis.ask(o.process, func() {
		for _, c := range o.s.redis.consumers {
			if o.s.now-c.seen >= lease {
				suspects = append(suspects, c.name)
			}
		}
	}, func(err error) {
		if err != nil || !o.s.pg.reads(o.process) || !o.mayExpire() || !o.s.guard(GuardJanitor) {
			return
		}
		at := o.s.pgNow()
		for _, name := range suspects {
			if !o.s.core.alive(name) {
				o.settleConsumer(name, at)
			}
		}
	})
}

// settleConsumer has the steps added again that are still QUEUED, and then removes entries and consumer.
func (o *orchestrator) settleConsumer(name machine.ID, at time.Time) {
	var pending []*entry
	o.s.redis.ask(o.process, func() { pending = o.s.redis.pendingOf(name) }, func(err error) {
		if err != nil {
			return
		}
		ids, events := make([]int, len(pending)), make([]*coreEvent, len(pending))
		for i, e := range pending {
			ids[i], events[i] = e.id, overdue(e.ref, at)
		}
		o.submit(events, func() {
			if away(events) != nil {
				return
			}
			o.s.redis.ask(o.process, func() {
				o.s.seen.add(SeenEntryCleared, len(ids))
				o.s.redis.ack(ids)
				o.s.redis.forgetConsumer(name)
			}, func(error) {})
		})
	})
}

// forgetConsumer is XGROUP DELCONSUMER; a consumer that has got entries meanwhile is looked at again.
func (r *redis) forgetConsumer(name machine.ID) {
	if len(r.pendingOf(name)) > 0 {
		return
	}
	for i, c := range r.consumers {
		if c.name == name {
			r.consumers = append(r.consumers[:i:i], r.consumers[i+1:]...)
			return
		}
	}
}
