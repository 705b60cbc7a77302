package sim

import (
	"fmt"
	"slices"
	"time"

	"pawl.internal/services/orchestrator/machine"
)

// ended says why a flight was ended from outside.
type ended int

const (
	notEnded ended = iota
	endedCancelled
	endedStopping
)

// gateway is a replica of the llm-gateway: flights, calls, permits, leases.
type gateway struct {
	*process
	holder  machine.ID
	flights []*flight
	closing bool
	permits permitAgent
	lease   gatewayLease
	owed    map[int]spend
	telling bool
}

// flight is a question on its way to an answer (flight.go). It belongs to no caller.
type flight struct {
	g         *gateway
	q         question
	followers []follower
	// ended is why it is to be ended from outside, and onEnd what is to be done then.
	ended    ended
	onEnd    func()
	deadline time.Duration
	// since is PostgreSQL's clock when it began; known false before that is known.
	since    time.Duration
	known    bool
	sent     bool
	waiting  bool
	finished bool
	// callEnd is when llm_timeout has passed, from the first permit on.
	callEnd time.Duration
	calls   int
	last    reply
	look    time.Duration
}

type follower struct {
	hear   news
	answer func(reply, error)
	leads  bool
}

func newGateway(s *Sim, no int) *gateway {
	g := &gateway{process: s.newProcess(no, fmt.Sprintf("gateway%d", no))}
	g.boot, g.terminate = g.begin, g.drain
	return g
}

func (g *gateway) begin() {
	g.holder, g.flights, g.closing, g.telling = g.s.id(), nil, false, false
	g.permits, g.lease, g.owed = permitAgent{g: g}, gatewayLease{}, map[int]spend{}
	g.every(lease/renewals, g.renew)
	g.every(lease/renewals, g.judge)
	g.every(watchEvery, g.watch)
	g.every(tellEvery, g.tell)
	g.every(owedEvery, g.findOwed)
	g.permits.sync()
}

// generate answers a question, or lets the caller join those who wait for its answer.
func (g *gateway) generate(q question, hear news, answer func(reply, error)) {
	var f *flight
	for _, other := range g.flights {
		if other.q.key == q.key && g.s.guard(GuardOneFlight) {
			f = other
		}
	}
	if f == nil && g.closing {
		answer(reply{}, errUnavailable)
		return
	}
	leads := f == nil
	if leads {
		f = &flight{g: g, q: q, deadline: g.clock() + q.deadlineIn, look: firstLook}
		g.flights = append(g.flights, f)
		g.after(0, f.resolve)
	} else {
		g.s.seen.count(SeenJoined)
	}
	f.followers = append(f.followers, follower{hear, answer, leads})
	if f.waiting {
		hear(true)
	}
}

// finish tells the followers how it ended. Only the one that led is told of the requests that were sent.
func (f *flight) finish(a reply, err error) {
	if f.finished {
		return
	}
	f.finished = true
	for _, fo := range f.followers {
		mine := a
		if !fo.leads {
			mine.calls = 0
		}
		fo.answer(mine, err)
	}
}

// land finishes the flight and makes room for another of the same question.
func (f *flight) land(a reply, err error) {
	f.remove()
	f.finish(a, err)
}

func (f *flight) remove() {
	f.g.flights = slices.DeleteFunc(f.g.flights, func(o *flight) bool { return o == f })
	f.g.leaveIfIdle()
}

// tellWaiting tells the followers whether a permit is awaited.
func (f *flight) tellWaiting(waiting bool) {
	if f.waiting != waiting {
		f.waiting = waiting
		for _, fo := range f.followers {
			fo.hear(waiting)
		}
	}
}

// end ends the flight from outside.
func (f *flight) end(why ended) {
	if f.ended == notEnded {
		f.ended = why
		if f.onEnd != nil {
			onEnd := f.onEnd
			f.onEnd = nil
			onEnd()
		}
	}
}

// drain takes no new questions, ends those that are not sent, and waits for the answers of the others.
func (g *gateway) drain() {
	if g.closing {
		return
	}
	g.closing = true
	for _, f := range slices.Clone(g.flights) {
		if !f.sent {
			f.end(endedStopping)
		}
	}
	g.leaveIfIdle()
}

func (g *gateway) leaveIfIdle() {
	if g.closing && len(g.flights) == 0 && g.up {
		self := g.holder
		g.after(0, func() {
			g.s.pg.tx(g.process, func() func() { g.s.ledger.endLease(self); return nil }, func(error) {})
			g.after(100*time.Millisecond, func() { g.exit(g.s.between(time.Second, 3*time.Second)) })
		})
	}
}
