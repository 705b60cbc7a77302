package sim

import (
	"time"

	"pawl.internal/services/orchestrator/machine"
)

// dueSoon is how long before its hard timeout a step that has waited for permits gets the wait added.
const dueSoon = 2 * lease

// holdInfo is what a runner says of a claim that it has.
type holdInfo struct {
	ref        stepRef
	fence      machine.ID
	claimNo    int
	permitWait time.Duration
}

func (h holdInfo) claim(runner machine.ID) machine.Claim {
	return machine.Claim{Ref: h.ref.Ref, Fence: h.fence, ClaimNo: h.claimNo, Worker: runner}
}

// stop says that a runner must let go of a claim.
type stop struct {
	fence machine.ID
	why   machine.Answer
}

// heartbeat renews a runner's lease and says which of the steps it lists it must let go of (heartbeat.go).
func (o *orchestrator) heartbeat(runner machine.ID, slots int, holds []holdInfo, reply func([]stop, error)) {
	began := o.clock()
	o.s.pg.tx(o.process, func() func() { o.s.core.beat(runner, slots); return nil }, func(err error) {
		if err != nil {
			reply(nil, err)
			return
		}
		o.leases[runner] = began + lease
		o.settleHolds(runner, holds, func(stops []stop, err error) {
			if err != nil {
				reply(nil, err)
				return
			}
			o.expireUnlisted(runner, holds, func(err error) { reply(stops, err) })
		})
	})
}

// settleHolds compares what a runner lists with what is stored. Only what differs becomes an event.
func (o *orchestrator) settleHolds(runner machine.ID, holds []holdInfo, then func([]stop, error)) {
	if !o.s.pg.reads(o.process) {
		then(nil, errUnavailable)
		return
	}
	var events []*coreEvent
	var differing []holdInfo
	for _, h := range holds {
		if o.s.guard(GuardReadoption) && o.differs(h) {
			events = append(events, &coreEvent{stepRef: h.ref, make: func(time.Time) machine.Event {
				return machine.Readopted{Claim: h.claim(runner), PermitWait: h.permitWait}
			}})
			differing = append(differing, h)
		}
	}
	o.submit(events, func() {
		if err := away(events); err != nil {
			then(nil, err)
			return
		}
		var stops []stop
		for i, e := range events {
			switch {
			case e.err != nil:
				stops = append(stops, stop{differing[i].fence, machine.StopCancelled})
			case e.answer == machine.Applied, e.answer == machine.Already:
				o.s.seen.count(SeenReadopted)
			default:
				o.s.seen.count(SeenStopped)
				stops = append(stops, stop{differing[i].fence, e.answer})
			}
		}
		then(stops, nil)
	})
}

// differs reports whether the row must learn something from the hold, or the runner from the row.
func (o *orchestrator) differs(h holdInfo) bool {
	row, live := o.s.core.runs[h.ref.run].live[h.ref.Key]
	if !live || row.Status != machine.StepRunning || row.Fence != h.fence || row.Generation != h.ref.Generation {
		return true
	}
	return h.permitWait > 0 && row.DueAt.Sub(o.s.pgNow()) < dueSoon
}

// expireUnlisted takes the steps from a runner that it claimed long ago and does not list: the answer was lost.
func (o *orchestrator) expireUnlisted(runner machine.ID, holds []holdInfo, then func(error)) {
	if !o.s.pg.reads(o.process) {
		then(errUnavailable)
		return
	}
	type held struct {
		run int
		key machine.Key
	}
	listed := map[held]bool{}
	for _, h := range holds {
		listed[held{h.ref.run, h.ref.Key}] = true
	}
	var lost []*coreEvent
	for _, r := range o.s.core.runs {
		for _, l := range r.rows() {
			if l.Status == machine.StepRunning && l.Worker == runner && o.s.ago(l.ClaimedAt) > lease && !listed[held{r.no, l.Key}] {
				o.s.seen.count(SeenUnlisted)
				lost = append(lost, expiration(r, l))
			}
		}
	}
	if !o.s.guard(GuardUnlisted) {
		lost = nil
	}
	o.submit(lost, func() { then(away(lost)) })
}

// expiration takes a step from a runner that is gone, or does not know of it.
func expiration(r *run, l machine.Live) *coreEvent {
	ref := machine.Ref{Key: l.Key, Generation: l.Generation}
	return &coreEvent{stepRef: stepRef{r.no, ref}, make: func(time.Time) machine.Event {
		return machine.LeaseExpired{Ref: ref, Fence: l.Fence}
	}}
}
