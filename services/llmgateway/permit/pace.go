package permit

import (
	"context"
	"time"

	"pawl.internal/services/internal/failpoint"
)

const (
	// starvedPoll is the time between two questions of an agent that got less than it wants.
	starvedPoll = 10 * time.Millisecond
	// awayPoll is the same while Redis does not answer.
	awayPoll = 250 * time.Millisecond
	// linger is how long a free permit is kept for the next call of this replica.
	linger = 20 * time.Millisecond
	// watch is the time between two questions while there are calls, so that what one replica learns reaches all.
	watch = 100 * time.Millisecond
	// heartbeats is how often permits are renewed within their time to live.
	heartbeats = 3
)

// run asks Redis whenever that is due, until ctx ends or the group is gone; it reports whether that is why.
func (a *agent) run(ctx context.Context) (gone bool) {
	for ctx.Err() == nil && !gone {
		a.sync(ctx, false)
		a.await(ctx, a.deps.Clock.Now())
		gone = a.endIfGone()
	}
	a.sync(context.WithoutCancel(ctx), true)
	return gone
}

// endIfGone ends the agent when its group is gone and no call has a permit of it any more.
func (a *agent) endIfGone() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = a.retired && a.busy() == 0
	return a.ended
}

// await returns when the next question is due.
func (a *agent) await(ctx context.Context, asked time.Time) {
	timer := a.deps.Clock.NewTimer(a.cfg.TTL)
	defer timer.Stop()
	for {
		due := asked.Add(a.interval()).Sub(a.deps.Clock.Now())
		if due <= 0 {
			return
		}
		timer.Reset(due)
		select {
		case <-timer.C():
		case <-a.wake:
		case <-ctx.Done():
			return
		}
	}
}

// interval is how long after a question the next one is due, as things stand.
func (a *agent) interval() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	heartbeat := a.cfg.TTL / heartbeats
	switch {
	case a.failing:
		return min(awayPoll, heartbeat)
	case a.news.urgent, a.retired && a.busy() == 0, a.idle() > 0 && a.scarce:
		return 0 // others want what we do not use
	case a.paused():
		return min(watch, heartbeat)
	case a.waiting() > 0 && a.starved:
		return min(a.starvedInterval(), heartbeat)
	case a.waiting() > 0:
		return 0
	case a.idle() > 0, a.news.Back != amounts{}:
		return min(linger, heartbeat)
	case a.busy() > 0:
		return min(watch, heartbeat)
	default:
		return heartbeat
	}
}

// starvedInterval is the same when there was less than is wanted: what comes of time alone comes when it is due, and what
// others give back may come at any time. a.mu is held.
func (a *agent) starvedInterval() time.Duration {
	if a.rest == 0 || a.news.Back != (amounts{}) {
		return starvedPoll
	}
	return max(time.Millisecond, min(a.rest, watch))
}

// sync asks Redis once and takes over its answer. The last question keeps only what is in use.
func (a *agent) sync(ctx context.Context, last bool) {
	q := a.prepare(last)
	sent := a.deps.Clock.Now()
	failpoint.Hit("gateway.permit.sync")
	got, err := a.ask(ctx, q)
	failpoint.Hit("gateway.permit.synced")
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.news.restore(q.told, a.deps.Clock.Now())
		a.failed(err)
		return
	}
	a.apply(q, got, sent)
}

// apply takes over an answer. a.mu is held.
func (a *agent) apply(q question, got *answer, sent time.Time) {
	if a.known == nil || a.known.Cut != got.Cut {
		a.cutSeen = a.deps.Clock.Now()
	}
	a.known, a.asked, a.failing, a.scarce = got, sent, false, got.Scarce
	a.fresh, a.hushed = sent.Add(a.untilStale()), a.hushed && a.news.Bad > 0
	if until := sent.Add(millis(got.Pause)); got.Pause > 0 && until.After(a.pausedUntil) {
		a.pausedUntil = until
	}
	a.setDegraded(false)
	a.rest = 0
	if got.Wait > 0 {
		a.rest = millis(got.Wait)
	}
	a.starved = false
	for class := range Class(classes) {
		a.held[class], a.share[class] = int(got.Held[class]), unlimited
		if got.Share[class] >= 0 {
			a.share[class] = int(got.Share[class])
		}
		if q.Rated {
			a.starved = a.starved || int(got.Granted[class]) < len(q.asks[class])
		} else {
			a.starved = a.starved || a.held[class] < q.Want[class]
		}
		a.hand(q.asks[class], int(got.Granted[class]))
	}
	a.serve()
	if got.Pause > 0 || a.deps.Clock.Now().Sub(a.looked) >= lookEvery {
		a.lookAtLine()
	}
}

// hand gives permits to the first n of the calls that were asked for. Those that have left meanwhile take nothing.
func (a *agent) hand(asked []*waiter, n int) {
	for _, w := range asked[:min(n, len(asked))] {
		if w.inLine {
			a.grant(w)
		} else {
			a.news.giveBack(w.need.Class, w.draws)
		}
	}
}
