package sim

import (
	"fmt"
	"slices"
	"time"

	"pawl.internal/services/orchestrator/machine"
)

const (
	readBlock   = time.Second
	searchEvery = time.Second
	rpcTimeout  = 5 * time.Second
	grace       = 3 * time.Second
)

// runner is a step-runner: the loop that reads and claims (lane.go, inbox.go), its slots, and what it holds.
type runner struct {
	*process
	instance machine.ID
	size     int
	free     int
	// idle says that the loop waits for a slot.
	idle     bool
	draining bool
	// leaving says that nothing is done any more but to hand back what is held.
	leaving  bool
	readPace pace
	// open are the entries that were delivered and are not deleted; done of these are to be deleted.
	open     map[int]bool
	done     []int
	flushing bool
	searched time.Duration
	holds    []*hold
	claims   int
	lease    runnerLease
}

// hold is a claim that this runner has, from the answer GRANTED until its outcome is stored or it is dropped.
type hold struct {
	r     *runner
	entry int
	ref   stepRef
	fence machine.ID
	grant *grant
	watch stopwatch
	// strange is since when PostgreSQL has known nothing of it; 0 while it does.
	strange time.Duration
	// over says that its outcome is not wanted any more; began that its outside effect has begun.
	over, began bool
	deadline    time.Duration
	asks        int
	calls       int
	spend       *spend
}

func newRunner(s *Sim, no int) *runner {
	r := &runner{process: s.newProcess(no, fmt.Sprintf("runner%d", no)), size: 1 + s.below(4)}
	r.boot, r.terminate = r.begin, r.drain
	return r
}

func (r *runner) begin() {
	r.instance, r.free, r.idle, r.draining, r.readPace = r.s.id(), r.size, false, false, pace{}
	r.leaving = false
	r.open, r.done, r.flushing, r.searched, r.holds, r.claims = map[int]bool{}, nil, false, r.clock(), nil, 0
	r.lease = runnerLease{}
	r.beat(&pace{})
	r.readLoop()
}

// readLoop reads only what there are free slots for.
func (r *runner) readLoop() {
	if r.draining {
		return
	}
	if r.free == 0 {
		r.idle = true
		return
	}
	n := r.free
	r.free = 0
	r.awaitLease(r.s.guard(GuardFirstBeat), func() {
		r.read(n, func(list []*entry, err error) {
			r.free += n - len(list)
			if err != nil {
				r.after(r.readPace.wait(), r.readLoop)
				return
			}
			r.readPace = pace{}
			r.claimAll(list)
			r.readLoop()
		})
	})
}

// give returns slots.
func (r *runner) give(n int) {
	r.free += n
	if r.idle {
		r.idle = false
		r.after(0, r.readLoop)
	}
}

// read returns entries that are new to this runner: once in a while also those whose delivery was lost.
func (r *runner) read(n int, then func([]*entry, error)) {
	take := func(list []*entry) {
		for _, e := range list {
			r.open[e.id] = true
		}
		then(list, nil)
	}
	if r.clock()-r.searched < searchEvery || !r.s.guard(GuardSearch) {
		r.s.redis.read(r.process, r.instance, n, readBlock, func(list []*entry, err error) {
			if err != nil {
				then(nil, err)
				return
			}
			take(list)
		})
		return
	}
	r.searched = r.clock()
	var pending []*entry
	r.s.redis.ask(r.process, func() { pending = r.s.redis.pendingOf(r.instance) }, func(err error) {
		if err != nil {
			then(nil, err)
			return
		}
		pending = slices.DeleteFunc(pending, func(e *entry) bool { return r.open[e.id] })
		r.s.seen.add(SeenDeliveryFound, len(pending))
		take(pending[:min(n, len(pending))])
	})
}

// claimAll claims the steps that the entries announce. Each entry has a slot.
func (r *runner) claimAll(list []*entry) {
	for _, e := range list {
		r.claims++
		r.claim(e, r.s.id(), &pace{})
	}
}

// claim asks until there is an answer. The fence is drawn once: the same question finds the step granted already.
func (r *runner) claim(e *entry, fence machine.ID, p *pace) {
	r.awaitLease(r.s.guard(GuardFirstBeat), func() {
		o, self := r.s.anOrchestrator(), r.instance
		if r.s.mishap(0.05) { // the same question lay in the hands of somebody who slept
			r.s.seen.count(SeenStrayClaim)
			r.s.queue.add(event{at: r.s.now + r.s.between(0, 12*time.Second), process: o.process, life: anyLife, do: func() {
				o.claimStep(self, e.ref, fence, func(claimAnswer, error) {})
			}})
		}
		call(r.process, o.process, rpcTimeout,
			func(reply func(claimAnswer, error)) { o.claimStep(self, e.ref, fence, reply) },
			func(a claimAnswer, err error) {
				switch {
				case r.leaving: // the entry is left to the janitor
				case err != nil:
					r.after(p.wait(), func() { r.claim(e, fence, p) })
				case !a.granted:
					r.claims--
					r.end(e.id)
				default:
					r.claims--
					r.hold(e, fence, a.grant)
				}
			})
	})
}

// hold takes a granted claim into the table, so that heartbeats list it, and executes it; or hands it back when leaving.
func (r *runner) hold(e *entry, fence machine.ID, g *grant) {
	h := &hold{r: r, entry: e.id, ref: e.ref, fence: fence, grant: g, deadline: r.clock() + g.deadlineIn}
	h.watch = stopwatch{h: h, left: softTimeout}
	r.holds = append(r.holds, h)
	if !r.draining {
		r.at("runner.granted", h.execute)
	}
}

// drop ends a hold whose step is no longer this runner's business.
func (r *runner) drop(h *hold) {
	r.s.oracle.drops(h)
	h.over = true
	r.holds = slices.DeleteFunc(r.holds, func(o *hold) bool { return o == h })
	r.end(h.entry)
}

// end deletes an entry that is dealt with, soon, and frees its slot.
func (r *runner) end(id int) {
	r.done = append(r.done, id)
	r.flush()
	r.give(1)
}

func (r *runner) flush() {
	if r.flushing || len(r.done) == 0 {
		return
	}
	r.flushing = true
	ids := r.done
	r.done = nil
	r.s.redis.ask(r.process, func() { r.s.redis.ack(ids) }, func(err error) {
		r.flushing = false
		if err != nil {
			r.done = append(ids, r.done...)
			r.after(time.Second, r.flush)
			return
		}
		for _, id := range ids {
			delete(r.open, id)
		}
		r.flush()
	})
}

// drain reads nothing more, lets steps end, and hands back those that do not end within the grace.
func (r *runner) drain() {
	if r.draining {
		return
	}
	r.draining = true
	r.after(grace, func() { r.leave(&pace{}, r.clock()+grace) })
}

// leave returns all holds and ends the lease with them. An outside effect that has begun is not handed back: nobody knows
// yet whether it was made.
func (r *runner) leave(p *pace, until time.Duration) {
	r.leaving = true
	var list []holdInfo
	for _, h := range r.holds {
		h.over = true
		if !h.began {
			list = append(list, h.info())
		}
	}
	if !r.s.guard(GuardRelease) {
		r.exit(r.s.between(time.Second, 3*time.Second))
		r.s.oracle.left(r)
		return
	}
	o, self := r.s.anOrchestrator(), r.instance
	call(r.process, o.process, rpcTimeout,
		func(reply func(bool, error)) { o.releaseSteps(self, list, true, reply) },
		func(_ bool, err error) {
			switch {
			case err != nil && r.clock() < until:
				r.after(p.wait(), func() { r.leave(p, until) })
				return
			case err == nil:
				r.s.oracle.left(r)
			}
			r.exit(r.s.between(time.Second, 3*time.Second))
		})
}

func (h *hold) info() holdInfo {
	return holdInfo{ref: h.ref, fence: h.fence, claimNo: h.grant.row.ClaimNo, permitWait: h.watch.waited}
}
