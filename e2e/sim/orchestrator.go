package sim

import (
	"fmt"
	"time"

	"pawl.internal/services/orchestrator/machine"
)

// orchestrator is a replica: its RPCs (claim.go, complete.go, heartbeat.go, runs.go), and its loops.
type orchestrator struct {
	*process
	instance machine.ID
	// leases are those that this replica has confirmed, by its own clock (runners.go).
	leases map[machine.ID]time.Duration
	lanes  [2]*lane
	window *window

	judge      judge
	dispatcher dispatcher
	relaying   bool
	queue      [][]stepRef // notices that wait to be published
	publishing bool
}

func newOrchestrator(s *Sim, no int) *orchestrator {
	o := &orchestrator{process: s.newProcess(no, fmt.Sprintf("orchestrator%d", no))}
	o.boot, o.terminate = o.begin, func() { o.exit(s.between(time.Second, 4*time.Second)) }
	return o
}

func (o *orchestrator) begin() {
	o.instance, o.leases, o.window = o.s.id(), map[machine.ID]time.Duration{}, newWindow()
	o.lanes = [2]*lane{{o: o}, {o: o}}
	o.judge, o.dispatcher = judge{}, dispatcher{}
	o.queue, o.publishing, o.relaying = nil, false, false
	o.every(beatEvery, o.beat)
	o.every(sweepEvery, o.sweep)
	o.every(janitorEvery, o.clean)
	o.every(relayEvery, o.relay)
	o.dispatchLoop()
}

// submit commits events in groups; then is called when all of them are. A crash takes them away unanswered.
func (o *orchestrator) submit(events []*coreEvent, then func()) {
	if len(events) == 0 {
		then()
		return
	}
	left := len(events)
	done := func() {
		if left--; left == 0 {
			then()
		}
	}
	for _, e := range events {
		o.lanes[e.run%2].add(ticket{e, done})
	}
}

// away returns UNAVAILABLE if the fate of one of the events is unknown.
func away(events []*coreEvent) error {
	for _, e := range events {
		if e.err == errUnavailable { //nolint:errorlint // it is never wrapped
			return errUnavailable
		}
	}
	return nil
}

// lane commits one group at a time (internal/gather).
type lane struct {
	o     *orchestrator
	line  []ticket
	under bool // a commit is under way
}

type ticket struct {
	*coreEvent
	done func()
}

func (l *lane) add(t ticket) {
	l.line = append(l.line, t)
	if !l.under {
		l.under = true
		l.o.after(0, l.next)
	}
}

// next takes a group of one kind from the line.
func (l *lane) next() {
	if len(l.line) == 0 {
		l.under = false
		return
	}
	n := 1
	for n < len(l.line) && n < 300 && l.line[n].claim == l.line[0].claim {
		n++
	}
	tickets := append([]ticket(nil), l.line[:n]...)
	l.line = l.line[n:]
	l.commit(tickets, l.next)
}

// commit carries out a group; one that conflicts is split in halves.
func (l *lane) commit(tickets []ticket, then func()) {
	events := make([]*coreEvent, len(tickets))
	for i, t := range tickets {
		events[i] = t.coreEvent
	}
	var g *group
	l.o.s.pg.tx(l.o.process, func() (undo func()) {
		g, undo = l.o.s.core.commit(l.o.window, events)
		return undo
	}, func(err error) {
		switch {
		case err != nil:
			l.fail(g, tickets)
			then()
		case g.conflict:
			l.o.s.seen.count(SeenGroupSplit)
			half := len(tickets) / 2
			l.commit(tickets[:half], func() { l.commit(tickets[half:], then) })
		default:
			l.o.at("orchestrator.committed", func() {
				l.o.announce(g)
				for _, t := range tickets {
					t.done()
				}
				then()
			})
		}
	})
}

// fail answers all of a group whose fate is unknown.
func (l *lane) fail(g *group, tickets []ticket) {
	if g != nil {
		l.o.window.unused(g.admitted)
	}
	for _, t := range tickets {
		t.err = errUnavailable
		t.done()
	}
}

// announce tells, after the commit, those who wait for news.
func (o *orchestrator) announce(g *group) {
	o.window.giveBack(g.freed)
	if g.waiting {
		o.window.wait()
	}
	o.publish(g.entries)
	if g.owed {
		o.noticeOwed()
	}
	o.dispatchLoop()
}

// createRun stores a run, unless its key has one already (store/create.go).
func (o *orchestrator) createRun(key string, p *pipeline, reply func(int, error)) {
	var no int
	var g *group
	o.s.pg.tx(o.process, func() func() {
		no, g = o.s.core.create(o.window, key, p)
		return nil
	}, func(err error) {
		if err != nil {
			reply(0, err)
			return
		}
		o.at("orchestrator.created", func() {
			if g != nil {
				o.announce(g)
			}
			reply(no, nil)
		})
	})
}

// create is one transaction: the key, the run, its rows.
func (c *core) create(w *window, key string, p *pipeline) (no int, g *group) {
	if old := c.keys[key]; old != nil && c.s.guard(GuardIdempotency) {
		c.s.seen.count(SeenSubmitRepeated)
		return old.no, nil
	}
	now := c.s.pgNow()
	notBefore := time.Time{}
	if p.later > 0 {
		notBefore = now.Add(p.later)
	}
	r := &run{no: len(c.runs), pipeline: p}
	r.head = *machine.NewRun(p.plan, machine.Interactive, now, notBefore, 0)
	r.live, r.results, r.budget = map[machine.Key]machine.Live{}, map[machine.Key]machine.Result{}, p.budget
	c.runs, c.keys[key] = append(c.runs, r), r
	c.s.note("postgres", "run %d is created: %s", r.no, p)
	c.s.oracle.created(key, r)
	g, _ = c.commit(w, []*coreEvent{{
		stepRef: ofRun(r.no), make: func(time.Time) machine.Event { return machine.Created{} },
	}})
	return r.no, g
}

// ofRun names a run itself.
func ofRun(no int) stepRef {
	return stepRef{no, machine.Ref{Key: machine.Key{Step: machine.AllSteps, Shard: machine.Whole}}}
}

// claimAnswer is what a runner hears of a claim: granted, or that there is nothing for it.
type claimAnswer struct {
	granted bool
	grant   *grant
}

// claimStep gives a step to a runner (claim.go).
func (o *orchestrator) claimStep(runner machine.ID, ref stepRef, fence machine.ID, reply func(claimAnswer, error)) {
	if o.s.guard(GuardFirstBeat) && o.clock() >= o.leases[runner] {
		if !o.s.pg.reads(o.process) || !o.s.core.alive(runner) {
			reply(claimAnswer{}, errUnavailable) // without a lease nobody would notice its death
			return
		}
	}
	e := &coreEvent{stepRef: ref, claim: true, make: func(time.Time) machine.Event {
		return machine.Claimed{Ref: ref.Ref, Fence: fence, Worker: runner}
	}}
	o.submit([]*coreEvent{e}, func() {
		if e.err == errUnavailable { //nolint:errorlint // it is never wrapped
			reply(claimAnswer{}, errUnavailable)
			return
		}
		o.at("orchestrator.claimed", func() { reply(claimAnswer{e.answer == machine.Granted, e.grant}, nil) })
	})
}

// completeStep stores how an attempt has ended (complete.go).
func (o *orchestrator) completeStep(out *outcome, reply func(bool, error)) {
	e := &coreEvent{stepRef: out.ref, spend: out.spend, make: out.event}
	o.submit([]*coreEvent{e}, func() {
		if e.err == errUnavailable { //nolint:errorlint // it is never wrapped
			reply(false, errUnavailable)
			return
		}
		if e.err != nil {
			o.s.seen.count(SeenOutcomeRefused)
		}
		reply(e.err == nil, nil)
	})
}

// releaseSteps takes steps back that their runner has not executed, and, when it leaves, its lease.
func (o *orchestrator) releaseSteps(runner machine.ID, holds []holdInfo, leaving bool, reply func(bool, error)) {
	var events []*coreEvent
	for _, h := range holds {
		events = append(events, &coreEvent{stepRef: h.ref, make: func(time.Time) machine.Event {
			return machine.Released{Claim: h.claim(runner)}
		}})
	}
	o.submit(events, func() {
		if err := away(events); err != nil {
			reply(false, err)
			return
		}
		for _, e := range events {
			if e.err == nil && e.answer == machine.Applied {
				o.s.seen.count(SeenReleased)
			}
		}
		if !leaving {
			reply(true, nil)
			return
		}
		delete(o.leases, runner)
		o.s.pg.tx(o.process, func() func() { o.s.core.endLease(runner); return nil }, func(err error) { reply(err == nil, err) })
	})
}

// recordSpend takes figures of the gateway's.
func (o *orchestrator) recordSpend(figures map[int]spend, order []int, reply func(bool, error)) {
	var events []*coreEvent
	for _, run := range order {
		f := figures[run]
		events = append(events, &coreEvent{stepRef: ofRun(run), spend: &f})
	}
	o.submit(events, func() { reply(true, away(events)) })
}

// decide carries out what a person has decided.
func (o *orchestrator) decide(run int, before func(*working), ev machine.Event, reply func(bool, error)) {
	ref := ofRun(run)
	if target, about := machine.Target(ev); about {
		ref.Ref = target
	}
	e := &coreEvent{stepRef: ref, before: before, make: func(time.Time) machine.Event { return ev }}
	o.submit([]*coreEvent{e}, func() {
		if e.err == errUnavailable { //nolint:errorlint // it is never wrapped
			reply(false, errUnavailable)
			return
		}
		reply(e.err == nil && e.answer == machine.Applied, nil)
	})
}
