package sim

import (
	"time"

	"pawl.internal/services/orchestrator/machine"
)

// How often a call is looked at that another replica has in flight: at first soon, then less and less.
const (
	firstLook = 10 * time.Millisecond
	lastLook  = 250 * time.Millisecond
)

// resolve answers the question: from the store, from a request that another replica has in flight, or by asking (call.go).
func (f *flight) resolve() {
	g := f.g
	if f.interrupted() {
		return
	}
	if !g.s.pg.reads(g.process) {
		f.land(reply{}, errUnavailable)
		return
	}
	if !f.known {
		f.since, f.known = g.s.now, true
	}
	row := g.s.ledger.calls[f.q.key]
	if row == nil {
		f.request(0)
		return
	}
	f.last.cost, f.last.spend = row.cost, g.s.ledger.spendOf(f.q.key.run)
	switch row.state() {
	case tryAnswered:
		f.replay(row)
		return
	case tryInFlight:
		if g.s.guard(GuardCallKey) {
			f.later(f.look, f.resolve)
			f.look = min(2*f.look, lastLook)
			return
		}
	default:
	}
	if row.ambiguous() > 0 && g.s.guard(GuardAmbiguousCount) && g.s.ledger.countAmbiguous(f.q.key) > f.q.ambiguousOK {
		f.fail(outAmbiguous, machine.ReasonCallAmbiguous)
		return
	}
	f.request(row.targetAfter())
}

// targetAfter is the target to be asked: after a request of unknown fate another one than that.
func (c *callRow) targetAfter() int {
	for _, t := range c.tries {
		if t.state == tryAmbiguous {
			return 1
		}
	}
	return 0
}

func (l *ledger) spendOf(run int) spend {
	if p := l.purses[run]; p != nil {
		return spend{p.spent, p.version}
	}
	return spend{}
}

// later does something unless the flight is ended before.
func (f *flight) later(d time.Duration, do func()) {
	done := false
	once := func() {
		if !done {
			done = true
			f.onEnd = nil
			do()
		}
	}
	f.onEnd = once
	f.g.after(d, once)
}

// interrupted ends a flight before anything was sent: when it was ended from outside, or has no time left.
func (f *flight) interrupted() bool {
	switch {
	case f.ended == endedCancelled:
		f.fail(outPermanent, machine.ReasonCancelled)
	case f.ended == endedStopping:
		f.land(reply{}, errUnavailable)
	case f.g.clock() >= f.deadline:
		f.fail(outTransient, machine.ReasonDeadlineExceeded)
	default:
		return false
	}
	return true
}

func (f *flight) fail(end ending, reason machine.Reason) {
	a := f.last
	a.end, a.reason, a.calls, a.atFault, a.wait = end, reason, f.calls, false, 0
	f.land(a, nil)
}

// replay answers with what is stored.
func (f *flight) replay(row *callRow) {
	f.g.s.seen.count(SeenReplayed)
	good := row.tries[row.winning-1].good
	f.land(reply{end: outSucceeded, atFault: !good, cost: row.cost, spend: f.last.spend, calls: f.calls}, nil)
}

// request waits for a permit, records the request, sends it and stores what came of it, in this order (request.go).
func (f *flight) request(target int) {
	g := f.g
	f.tellWaiting(true)
	g.permits.acquire(f, func(granted bool) {
		f.tellWaiting(false)
		if !granted {
			f.interrupted()
			return
		}
		if f.callEnd == 0 {
			f.callEnd = g.clock() + llmTimeout
		}
		// From here on the gateway waits for the end also when it stops: a row without an answer would be ambiguous.
		f.sent = true
		f.record(target)
	})
}

// record takes the key, reserves the worst case, and writes the request down, durably.
func (f *flight) record(target int) {
	g, recorded := f.g, f.g.clock()
	b := &beginTry{
		key: f.q.key, holder: g.holder, target: target, worst: worstCase, budget: f.q.budget, epoch: f.q.epoch,
		ambiguousOK: f.q.ambiguousOK,
	}
	g.s.pg.tx(g.process, func() func() { g.s.ledger.begin(b); return nil }, func(err error) {
		if err != nil {
			// It may have been recorded. The callers need not wait; but nobody else may ask here until that is settled.
			f.giveUp()
			f.finish(reply{}, errUnavailable)
			f.persist(&settleCall{key: f.q.key, holder: g.holder, settlement: settlement{state: tryNotSent}}, func(*settleCall) {
				f.remove()
			})
			return
		}
		switch b.verdict {
		case admitted:
			g.at("gateway.recorded", func() { f.send(b, recorded) })
		case overBudget:
			f.giveUp()
			g.s.seen.count(SeenOverBudget)
			f.fail(outBudget, machine.ReasonBudgetExceeded)
		case closedPurse:
			f.giveUp()
			g.s.seen.count(SeenPurseClosed)
			f.fail(outPermanent, machine.ReasonCancelled)
		case taken, unclear:
			f.giveUp()
			f.later(firstLook, f.resolve)
		}
	})
}

// giveUp returns the permit.
func (f *flight) giveUp() {
	f.sent = false
	f.g.permits.release()
}

// send asks the provider, if it still may: its lease has been good since before the record, and nobody has ended the call.
func (f *flight) send(b *beginTry, recorded time.Duration) {
	g := f.g
	stale := !g.goodSince(recorded) && g.s.guard(GuardGatewayLease)
	if stale || f.ended == endedCancelled && g.s.guard(GuardCancelAtSend) {
		g.s.seen.count(SeenNotSent)
		f.giveUp()
		f.persist(&settleCall{key: b.key, tryNo: b.tryNo, settlement: settlement{state: tryNotSent}}, func(c *settleCall) {
			if f.ended == endedCancelled {
				f.last.cost, f.last.spend = c.cost, c.spend
				f.fail(outPermanent, machine.ReasonCancelled)
				return
			}
			f.land(reply{}, errUnavailable)
		})
		return
	}
	g.s.provider.send(f, b)
}

// exchange is what came of a request: what the gateway knows of it.
type exchange struct {
	settlement
	reply
}

// settle stores what came back, with its cost, before anybody is told of it.
func (f *flight) settle(b *beginTry, x exchange) {
	g := f.g
	f.giveUp()
	if x.state != tryNotSent {
		f.calls++
	}
	g.at("gateway.answered", func() {
		f.persist(&settleCall{key: b.key, tryNo: b.tryNo, settlement: x.settlement}, func(c *settleCall) {
			f.last = x.reply
			f.last.cost, f.last.spend, f.last.calls = c.cost, c.spend, f.calls
			another := x.end == outTransient && b.target == 0 && f.calls < f.q.callsLeft && g.clock() < f.callEnd
			if another && f.ended == notEnded && b.key.run%2 == 1 {
				g.s.seen.count(SeenFallback)
				f.request(1)
				return
			}
			f.land(f.last, nil)
		})
	})
}

// persist stores a change that must not be lost, however long the store is away.
func (f *flight) persist(c *settleCall, then func(*settleCall)) {
	g := f.g
	g.s.pg.tx(g.process, func() func() { g.s.ledger.settle(c); return nil }, func(err error) {
		if err != nil && g.s.guard(GuardPersist) {
			g.s.seen.count(SeenPersistRepeated)
			g.after(300*time.Millisecond, func() { f.persist(c, then) })
			return
		}
		if c.spend.version > 0 && c.spend.version >= g.owed[c.key.run].version {
			g.owed[c.key.run] = c.spend
		}
		then(c)
	})
}
