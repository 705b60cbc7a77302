package sim

import (
	"slices"
	"time"

	"pawl.internal/services/orchestrator/machine"
)

const (
	// tickEvery is how often the oracle looks at what should have been noticed.
	tickEvery = 500 * time.Millisecond
	// calm is how long after the last fault everything must have been noticed: a judge's patience and a lease.
	calm = 2*lease + 5*time.Second
	// mostQuiet is how long after that everything must have come to rest.
	mostQuiet = 6 * time.Minute
)

// begin looks, from the healing on, whether all that was lost is noticed, and when all is quiet.
func (o *oracle) begin() {
	var tick func()
	tick = func() {
		o.s.looksForTrouble()
		o.always()
		if o.s.healed && o.s.now > o.s.healedAt+calm {
			o.noticed()
		}
		if o.s.healed && o.s.now > o.s.healedAt+12*time.Second {
			o.look()
		}
		o.s.queue.add(event{at: o.s.now + tickEvery, do: tick})
	}
	o.s.queue.add(event{at: tickEvery, do: tick})
}

func (o *oracle) neverQuiet() {
	o.s.fail(PromiseEnds, "the system does not come to rest: %s", o.restless())
}

// look ends the simulation when all has been quiet for a while.
func (o *oracle) look() {
	switch why := o.restless(); {
	case why != "" && o.s.now > o.s.healedAt+mostQuiet:
		o.neverQuiet()
	case why != "":
		o.quietAt = 0
	case o.quietAt == 0:
		o.quietAt = o.s.now
	case o.s.now > o.quietAt+3*time.Second:
		o.final()
		o.s.over = true
	}
}

// restless says what is not at rest; empty if all is.
func (o *oracle) restless() string {
	s := o.s
	switch {
	case s.clients.open > 0:
		return "a client waits for an answer"
	case len(s.redis.entries)+len(s.redis.pending) > 0:
		return "the stream has entries"
	case len(s.ledger.owed) > 0:
		return "the orchestrator is not told what runs have spent"
	}
	for _, c := range s.ledger.order {
		if slices.ContainsFunc(c.tries, func(t *try) bool { return t.state == tryInFlight }) {
			return "a request is in flight"
		}
	}
	for _, r := range s.core.runs {
		if !r.head.Status.Terminal() && r.head.Status != machine.RunNeedsReview {
			return "a run is " + string(r.head.Status)
		}
		if r.gate != nil || len(r.cancels) > 0 {
			return "a gate or a cancel is owed"
		}
	}
	for _, r := range s.runners {
		if !r.up || len(r.holds)+r.claims+len(r.done) > 0 {
			return r.name + " is down or has holds"
		}
	}
	for _, g := range s.gateways {
		if !g.up || len(g.flights) > 0 {
			return g.name + " is down or has flights"
		}
	}
	return ""
}

// noticed checks that nothing waits for somebody who has forgotten it.
func (o *oracle) noticed() {
	n, _ := o.s.core.dispatched()
	if n >= max(leastWindow, 2*o.s.core.slots()) {
		o.fullAt = o.s.now
	}
	room := o.s.now > o.fullAt+3*time.Second
	for _, r := range o.s.core.runs {
		if due := r.head.DeadlineDue(); !due.IsZero() && o.s.ago(due) > 2*time.Second {
			o.s.fail(PromiseDeadline, "run %d is %s, %v after its deadline", r.no, r.head.Status, o.s.ago(due))
		}
		if r.gate != nil && o.s.now-r.gate.owedAt > 8*time.Second {
			o.s.fail(PromiseCancel, "run %d: the gateway is not told that the purse is open=%v", r.no, r.gate.open)
		}
		for _, c := range r.cancels {
			if o.s.now-c.owedAt > 12*time.Second {
				o.s.fail(PromiseCancel, "run %d: the gateway is not told to abort calls", r.no)
			}
		}
		for _, l := range r.rows() {
			o.noticedRow(r, l, room)
		}
	}
	o.noticedCalls()
	o.noticedEntries()
}

func (o *oracle) noticedRow(r *run, l machine.Live, room bool) {
	lost := func(why string) {
		o.s.fail(PromiseRecovers, "run %d step %d/%d is %s: %s", r.no, l.Step, l.Shard, l.Status, why)
	}
	if !l.DueAt.IsZero() && o.s.ago(l.DueAt) > 3*time.Second {
		lost("its timer has run out")
	}
	switch l.Status {
	case machine.StepReady:
		if room && !r.head.State.Held && o.s.ago(l.ReadyAt) > 5*time.Second {
			lost("there is room, and nobody dispatches it")
		}
	case machine.StepQueued:
		has := func(e *entry) bool { return e.ref.run == r.no && e.ref.Key == l.Key }
		listed := slices.ContainsFunc(o.s.redis.entries, has) || slices.ContainsFunc(o.s.redis.pending, has)
		key, late := effectKey{r.no, l.Step, l.Shard, l.Generation}, o.s.ago(l.QueuedAt) > o.s.redis.age()+queuedPatience
		if listed || !late || o.late[key] == 0 {
			o.late[key] = o.s.now
		}
		if o.s.now > o.late[key]+2*janitorEvery+2*time.Second {
			lost("the stream has no entry of it, and nobody adds one")
		}
	case machine.StepRunning:
		if why := o.forgotten(r, l); why != "" {
			lost(why)
		}
	default:
	}
}

// forgotten says why a claim's end would never come; empty if somebody sees to it.
func (o *oracle) forgotten(r *run, l machine.Live) string {
	row := o.s.core.runnerRow(l.Worker)
	switch {
	case row == nil:
		return "its runner has never had a lease"
	case row.leaseUntil < o.s.now-2*time.Second:
		return "its runner's lease has run out"
	default:
		return ""
	}
}

// always checks what must have been noticed also while things go wrong, as soon as all are well for a moment.
func (o *oracle) always() {
	for _, w := range o.s.runners {
		for _, h := range w.holds {
			o.strange(h)
		}
	}
	o.closedPurses()
	if !o.s.calm(6 * time.Second) {
		return
	}
	for _, r := range o.s.core.runs {
		for _, l := range r.rows() {
			if l.Status == machine.StepRunning && o.s.ago(l.ClaimedAt) > lease+6*time.Second {
				o.unlisted(r, l)
			}
		}
	}
}

// strange: a runner is told to let go of what is not its business any more.
func (o *oracle) strange(h *hold) {
	row, live := o.s.core.runs[h.ref.run].live[h.ref.Key]
	mine := live && row.Status == machine.StepRunning && row.Fence == h.fence && row.Generation == h.ref.Generation
	switch {
	case mine || !o.s.calm(0):
		h.strange = 0
	case h.strange == 0:
		h.strange = o.s.now
	case o.s.now > h.strange+8*time.Second && o.s.calm(8*time.Second) && !h.r.draining:
		o.s.fail(PromiseStale, "%s goes on with %v, which is not its any more", h.r.name, h)
	}
}

func (o *oracle) unlisted(r *run, l machine.Live) {
	for _, w := range o.s.runners {
		if w.instance == l.Worker && w.up && !w.draining && w.claims == 0 && !w.knows(r.no, l.Key) {
			o.s.fail(PromiseRecovers, "run %d step %d/%d is running with %s, which does not know of it", r.no, l.Step, l.Shard, w.name)
		}
	}
}

// expiresRunner and expiresGateway look at who is taken for dead.
func (o *oracle) expiresRunner(instance machine.ID) {
	for _, r := range o.s.runners {
		if r.up && r.instance == instance {
			o.expires(r.process)
		}
	}
}

func (o *oracle) expiresGateway(c *settleCall) {
	t := o.s.ledger.calls[c.key].tries[c.tryNo-1]
	for _, g := range o.s.gateways {
		if g.up && g.holder == t.holder && t.state == tryInFlight {
			o.expires(g.process)
		}
	}
}

// noticedCalls: every request in flight is somebody's, and those of closed purses are ended.
func (o *oracle) noticedCalls() {
	l := o.s.ledger
	for _, c := range l.order {
		for _, t := range c.tries {
			if t.state != tryInFlight || o.s.now-t.begunAt < lease {
				continue
			}
			if !l.holds(t.holder) {
				for _, r := range l.replicas {
					if r.holder == t.holder && r.until < o.s.now-4*time.Second {
						o.s.fail(PromiseRecovers, "a request of a dead gateway is still in flight")
					}
				}
				continue
			}
			for _, g := range o.s.gateways {
				if g.up && g.holder == t.holder && !slices.ContainsFunc(g.flights, func(f *flight) bool { return f.q.key == c.key }) {
					o.s.fail(PromiseRecovers, "a request is in flight that its gateway has forgotten")
				}
			}
		}
	}
}

// closedPurses: calls of a closed purse end, on whichever gateway.
func (o *oracle) closedPurses() {
	for _, g := range o.s.gateways {
		for _, f := range g.flights {
			if !g.purseEnds(f) || f.ended != notEnded || f.finished {
				continue
			}
			since := max(o.s.ledger.purses[f.q.key.run].closedAt, g.asleep, g.troubled, o.s.pg.away, o.s.storesTroubled)
			if o.s.now > since+3*time.Second {
				o.s.fail(PromiseCancel, "run %d: a call goes on, 3 s after its purse was closed", f.q.key.run)
			}
		}
	}
}

// noticedEntries: entries wait for living consumers that know of them.
func (o *oracle) noticedEntries() {
	for _, e := range o.s.redis.pending {
		if !o.s.core.alive(e.consumer) {
			if row := o.s.core.runnerRow(e.consumer); row == nil || row.leaseUntil < o.s.now-lease-3*janitorEvery {
				o.s.fail(PromiseNothing, "an entry of a dead consumer is left in the stream")
			}
			continue
		}
		for _, r := range o.s.runners {
			if r.up && r.instance == e.consumer && !r.open[e.id] && o.s.now-e.taken > 60*time.Second {
				o.s.fail(PromiseNothing, "%s has an entry that it does not know of", r.name)
			}
		}
	}
}

// final checks what is left when all is quiet.
func (o *oracle) final() {
	s := o.s
	for key, no := range s.clients.accepted {
		if no >= len(s.core.runs) || s.core.keys[key] != s.core.runs[no] {
			s.fail(PromiseOneRun, "run %d was accepted under key %s, and is not there", no, key)
		}
	}
	for _, r := range s.core.runs {
		o.finalRun(r)
	}
	for _, r := range s.runners {
		if r.free != 0 && r.free != r.size { // a read holds all that are free
			s.fail(PromiseNothing, "%s has %d of %d slots", r.name, r.free, r.size)
		}
	}
	for _, g := range s.gateways {
		if g.permits.inUse != 0 || len(g.permits.line) > 0 {
			s.fail(PromiseNothing, "%s uses %d permits, and %d calls wait for one", g.name, g.permits.inUse, len(g.permits.line))
		}
	}
	for _, w := range s.orchestrators {
		if w.up && w.window.room != w.dispatcher.size {
			s.fail(PromiseNothing, "%s: the window has room for %d of %d", w.name, w.window.room, w.dispatcher.size)
		}
	}
}

func (o *oracle) finalRun(r *run) {
	s := o.s
	switch r.head.Status {
	case machine.RunDone:
		s.seen.count(SeenRunDone)
	case machine.RunFailed:
		s.seen.count(SeenRunFailed)
	case machine.RunCancelled:
		s.seen.count(SeenRunCancelled)
	default:
		s.seen.count(SeenRunInReview)
		named := slices.ContainsFunc(r.rows(), func(l machine.Live) bool { return l.Status == machine.StepNeedsReview })
		if !named {
			s.fail(PromiseEnds, "run %d waits for a person, and no step says for what", r.no)
		}
	}
	if r.head.Status.Terminal() != o.ends[r.no] {
		s.fail(PromiseOneEnd, "run %d is %s, and its journal says otherwise", r.no, r.head.Status)
	}
	p := s.ledger.purses[r.no]
	if !r.pipeline.noCalls {
		o.finalGate(r, p)
	}
	if p == nil {
		return
	}
	o.purse(r.no)
	if p.reserved != 0 {
		s.fail(PromiseMoney, "run %d: %d are still reserved", r.no, p.reserved)
	}
	if r.cost != p.spent {
		s.fail(PromiseMoney, "run %d shows a cost of %d, and has spent %d", r.no, r.cost, p.spent)
	}
}

// finalGate: the purse is closed when the run has ended without success, or is about to; else it is open.
func (o *oracle) finalGate(r *run, p *purse) {
	ending := r.head.State.Ending
	ends := ending != nil && ending.Status != machine.RunRunning
	ends = ends || r.head.Status == machine.RunFailed || r.head.Status == machine.RunCancelled
	if closed := p != nil && p.closed; closed != ends {
		o.s.fail(PromiseCancel, "run %d is %s, and its purse is closed: %v", r.no, r.head.Status, closed)
	}
}
