package sim

import "time"

const (
	permitTTL   = 6 * time.Second
	permitLimit = 3
	starvedPoll = 50 * time.Millisecond
	awayPoll    = 250 * time.Millisecond
)

// permitAgent holds this gateway's permits (llmgateway/permit): it declares to Redis how many it holds and wants.
type permitAgent struct {
	g     *gateway
	held  int
	inUse int
	fresh time.Duration
	line  []*waiter
	// degraded says that Redis has not answered for so long that our share of the limit is what is left.
	degraded bool
	asking   bool
	turn     int
}

// waiter is a call in line.
type waiter struct {
	f    *flight
	done func(granted bool)
}

// acquire goes on when there is a permit, or, without one, when the flight is ended or out of time.
func (a *permitAgent) acquire(f *flight, then func(granted bool)) {
	w := &waiter{f: f}
	w.done = func(granted bool) {
		f.onEnd = nil
		then(granted)
	}
	f.onEnd = func() { a.withdraw(w) }
	a.line = append(a.line, w)
	f.g.after(max(f.deadline-f.g.clock(), 0), func() { a.withdraw(w) })
	a.serve()
	if len(a.line) > 0 {
		a.sync()
	}
}

func (a *permitAgent) withdraw(w *waiter) {
	for i, other := range a.line {
		if other == w {
			a.line = append(a.line[:i:i], a.line[i+1:]...)
			w.done(false)
			return
		}
	}
}

func (a *permitAgent) release() {
	a.inUse--
	a.serve()
}

func (a *permitAgent) room() int {
	allowed := a.held
	switch {
	case a.degraded:
		allowed = max(1, permitLimit/(a.g.lease.others+1))
	case a.g.clock() >= a.fresh:
		allowed = 0
	}
	return allowed - a.inUse
}

func (a *permitAgent) serve() {
	for len(a.line) > 0 && a.room() > 0 {
		w := a.line[0]
		a.line = a.line[1:]
		a.inUse++
		a.g.after(0, func() { w.done(true) })
	}
}

// sync asks Redis once, and again when that is due.
func (a *permitAgent) sync() {
	if a.asking {
		return
	}
	a.asking = true
	a.turn++
	sent, want, granted := a.g.clock(), a.inUse+len(a.line), 0
	if sent >= a.fresh {
		a.held = 0
	}
	keep := max(a.inUse, min(a.held, want))
	a.held = keep
	self := a.g.holder
	a.g.s.redis.ask(a.g.process, func() {
		granted = a.g.s.redis.share(self, keep, max(want, keep), permitLimit)
	}, func(err error) {
		a.asking = false
		if err == nil {
			a.held, a.fresh, a.degraded = granted, sent+permitTTL*4/5, false
		} else if a.g.clock() >= a.fresh {
			if !a.degraded {
				a.g.s.seen.count(SeenPermitsDegraded)
			}
			a.degraded = true
		}
		a.serve()
		a.again(err)
	})
}

func (a *permitAgent) again(err error) {
	wait := permitTTL / 3
	switch {
	case err != nil:
		wait = awayPoll
	case len(a.line) > 0:
		wait = starvedPoll
	case a.held > a.inUse:
		wait = starvedPoll
	}
	turn := a.turn
	a.g.after(wait, func() {
		if turn == a.turn {
			a.sync()
		}
	})
}
