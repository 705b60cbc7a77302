package sim

import (
	"slices"
	"time"

	"pawl.internal/services/orchestrator/machine"
)

const (
	renewals   = 10
	lapse      = 3
	watchEvery = 500 * time.Millisecond
	tellEvery  = time.Second
	owedEvery  = 10 * time.Second
	owedFor    = 15 * time.Second
)

// gatewayLease is the gateway's right to have requests in flight (llmgateway/lease.go).
type gatewayLease struct {
	known     bool
	confirmed time.Duration
	// held is since when the lease has not run out.
	held time.Duration
	// steady is since when renewals have succeeded without a break.
	steady   time.Duration
	isSteady bool
	others   int
	busy     bool
}

// renew lengthens the lease.
func (g *gateway) renew() {
	l := &g.lease
	if l.busy {
		return
	}
	l.busy = true
	sent, over := g.clock(), false
	done := func(err error) {
		if over {
			return
		}
		over, l.busy = true, false
		if err != nil {
			l.isSteady = false
			return
		}
		if !l.isSteady || sent-l.confirmed > lapse*lease/renewals {
			l.steady, l.isSteady = sent, true
		}
		if !l.known || g.clock()-l.confirmed >= lease {
			l.held = g.clock()
		}
		l.known, l.confirmed = true, sent
	}
	self := g.holder
	g.s.pg.tx(g.process, func() func() {
		g.s.ledger.renew(self)
		l.others = g.s.ledger.others(self)
		return nil
	}, done)
	g.after(lapse*lease/renewals, func() { done(errUnavailable) })
}

// goodSince reports whether the lease is good for a little longer, on this gateway's own clock, and has not run out since.
func (g *gateway) goodSince(then time.Duration) bool {
	return g.lease.known && g.clock()-g.lease.confirmed < lease*4/5 && g.lease.held <= then
}

// mayJudge reports whether a lease that has run out cannot be the fault of an outage of the store.
func (g *gateway) mayJudge() bool {
	l := &g.lease
	return !g.s.guard(GuardGatewayPatience) || l.isSteady && l.confirmed-l.steady >= lease
}

// judge ends the requests of gateways that have died: nobody knows what came of them.
func (g *gateway) judge() {
	if !g.mayJudge() || !g.s.pg.reads(g.process) || !g.s.guard(GuardGatewayJudge) {
		return
	}
	orphans := g.s.ledger.orphans()
	if len(orphans) == 0 {
		return
	}
	g.s.pg.tx(g.process, func() func() {
		for _, o := range orphans {
			g.s.seen.count(SeenOrphan)
			g.s.oracle.expiresGateway(o)
			g.s.ledger.settle(o)
		}
		return nil
	}, func(error) {})
}

// setSpendGates opens or closes purses (cancel.go).
func (g *gateway) setSpendGates(gates []toldGate, reply func(bool, error)) {
	g.s.pg.tx(g.process, func() func() {
		for _, t := range gates {
			g.s.ledger.setGate(t.run, t.gate)
		}
		return nil
	}, func(err error) { reply(err == nil, err) })
}

// cancelCalls aborts the calls of a run, or of one of its steps, that are in flight here. Those of a run end with its purse:
// a request that comes late, when the run was opened again, ends nothing that has begun since.
func (g *gateway) cancelCalls(run, step, generation int, reply func(bool, error)) {
	if step == machine.AllSteps {
		if !g.s.pg.reads(g.process) {
			reply(false, errUnavailable)
			return
		}
		g.abort(func(f *flight) bool {
			aborts := f.q.key.run == run && (g.purseEnds(f) || !g.s.guard(GuardLateAbort))
			if aborts {
				g.s.oracle.aborts(f)
			}
			return aborts
		})
		reply(true, nil)
		return
	}
	g.s.pg.tx(g.process, func() func() {
		g.s.ledger.cancelled[cancelledStep{run, step, generation}] = g.s.now
		return nil
	}, func(err error) {
		if err == nil {
			g.abort(func(f *flight) bool {
				return f.q.key.run == run && f.q.key.step == step && f.q.key.generation == generation
			})
		}
		reply(err == nil, err)
	})
}

// purseEnds reports whether the flight began before its run's purse was closed.
func (g *gateway) purseEnds(f *flight) bool {
	p := g.s.ledger.purses[f.q.key.run]
	return p != nil && p.closed && f.known && f.since < p.closedAt
}

func (g *gateway) abort(holds func(*flight) bool) {
	for _, f := range slices.Clone(g.flights) {
		if holds(f) && f.ended == notEnded {
			g.s.seen.count(SeenAborted)
			f.end(endedCancelled)
		}
	}
}

// watch aborts the calls that were cancelled elsewhere.
func (g *gateway) watch() {
	if len(g.flights) == 0 || !g.s.pg.reads(g.process) || !g.s.guard(GuardWatch) {
		return
	}
	l := g.s.ledger
	g.abort(func(f *flight) bool {
		at, cancelled := l.cancelled[cancelledStep{f.q.key.run, f.q.key.step, f.q.key.generation}]
		return g.purseEnds(f) || cancelled && f.known && f.since < at
	})
}

// tell tells the orchestrator what runs have spent, until it knows (confirm.go).
func (g *gateway) tell() {
	if len(g.owed) == 0 || g.telling {
		return
	}
	figures := g.owed
	g.owed = map[int]spend{}
	if !g.s.guard(GuardTell) {
		return
	}
	g.telling = true
	order := make([]int, 0, len(figures))
	for run := range figures {
		order = append(order, run)
	}
	slices.Sort(order)
	putBack := func() {
		for _, run := range order {
			if figures[run].version >= g.owed[run].version {
				g.owed[run] = figures[run]
			}
		}
	}
	o := g.s.anOrchestrator()
	call(g.process, o.process, 5*time.Second,
		func(reply func(bool, error)) { o.recordSpend(figures, order, reply) },
		func(_ bool, err error) {
			g.telling = false
			if err != nil {
				putBack()
				return
			}
			g.s.pg.tx(g.process, func() func() { g.s.ledger.confirmSpend(figures, order); return nil }, func(err error) {
				if err != nil {
					putBack()
				}
			})
		})
}

func (l *ledger) confirmSpend(figures map[int]spend, order []int) {
	for _, run := range order {
		if owed, there := l.owed[run]; there && owed.version <= figures[run].version {
			delete(l.owed, run)
		}
	}
}

// findOwed finds the figures that dead gateways have left owed.
func (g *gateway) findOwed() {
	if !g.s.pg.reads(g.process) {
		return
	}
	for run := range g.s.core.runs {
		if owed, there := g.s.ledger.owed[run]; there && g.s.now-owed.since > owedFor {
			g.owed[run] = g.s.ledger.spendOf(run)
		}
	}
}
