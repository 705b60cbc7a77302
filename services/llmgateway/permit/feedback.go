package permit

import "time"

// told is what a question tells Redis, besides what it asks.
type told struct {
	// Back is given back to the buckets, or taken if it is negative; BatchBack is the part of batch calls.
	Back      amounts `json:"back"`
	BatchBack amounts `json:"batch_back"`
	// Used is what requests that were let through have used.
	Used amounts `json:"used"`
	// OK and Bad count the answers that were not limited and those that were; Fresh is those of OK that were sent after the
	// last cut that this replica knows of, and Counts is true when one of Bad was too.
	OK     int  `json:"ok"`
	Bad    int  `json:"bad"`
	Fresh  int  `json:"fresh"`
	Counts bool `json:"counts"`
	Slow   bool `json:"slow"`
	// Pause is how long the provider wants to be left alone.
	Pause int64 `json:"pause"`
	// Told are the limits that the provider has told, 0 for none, and Left what is left of them, -1 for none.
	Told amounts `json:"told"`
	Left amounts `json:"left"`
}

// news gathers what Redis is to be told. The zero value is nothing.
type news struct {
	told

	sent, pausedUntil time.Time
	// left is true where Left holds something.
	left [dimensions]bool
	// urgent is true when others must hear of it at once.
	urgent bool
}

// giveBack notes what a call did not use; what it used beyond its estimate is negative.
func (n *news) giveBack(class Class, a amounts) {
	n.Back = n.Back.plus(a)
	if class == Batch {
		n.BatchBack = n.BatchBack.plus(a)
	}
}

// take returns what is to be told, and begins anew. CutSeen is when this replica heard of the last cut.
func (n *news) take(now, cutSeen time.Time) told {
	t := n.told
	t.Counts = t.Bad > 0 && n.sent.After(cutSeen)
	t.Pause = max(0, n.pausedUntil.Sub(now).Milliseconds())
	for d, known := range n.left {
		if !known {
			t.Left[d] = -1
		}
	}
	*n = news{}
	return t
}

// restore takes back what may not have been heard. What was to be given back stays taken: it may have been heard after all,
// and must not be given twice. The same goes for answers that would raise the ceiling.
func (n *news) restore(t told, now time.Time) {
	for d := range t.Back {
		n.Back[d] += min(0, t.Back[d])
		n.BatchBack[d] += min(0, t.BatchBack[d])
	}
	if t.Bad > 0 {
		n.Bad, n.Slow = n.Bad+t.Bad, n.Slow || t.Slow
		if t.Counts {
			n.limited(now, false)
			n.Bad--
		}
	}
	n.pause(now.Add(time.Duration(t.Pause) * time.Millisecond))
	n.Used = n.Used.plus(t.Used)
}

func (n *news) limited(sent time.Time, slow bool) {
	n.Bad++
	n.Slow = n.Slow || slow
	if sent.After(n.sent) {
		n.sent = sent
	}
	n.urgent = true
}

func (n *news) pause(until time.Time) {
	if until.After(n.pausedUntil) {
		n.pausedUntil = until
	}
}

// room notes what a header said: the newest limit, and the least that is left.
func (n *news) room(r Room) {
	if r.Of < 0 || r.Of >= dimensions {
		return
	}
	if r.Limit > 0 {
		n.Told[r.Of] = float64(r.Limit)
	}
	if r.Remaining >= 0 {
		left := float64(r.Remaining)
		if n.left[r.Of] {
			left = min(left, n.Left[r.Of])
		}
		n.Left[r.Of], n.left[r.Of] = left, true
	}
}

// learn takes over what an answer says.
func (a *agent) learn(f Feedback) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f.Wait > 0 {
		a.pause(f.Wait)
		a.news.pause(a.pausedUntil)
		a.news.urgent = true
		a.lookAtLine()
	}
	if f.Limited || f.SlowDown {
		a.news.limited(f.Sent, f.SlowDown)
		a.hushed = a.limit.Adaptive && !a.degraded
		a.cutLocally(f)
	} else {
		a.news.OK++
		a.news.Used[Requests]++
		if f.Sent.After(a.cutSeen) {
			a.news.Fresh++
		}
	}
	for _, r := range f.Rooms {
		a.news.room(r)
		a.news.urgent = a.news.urgent || a.surprises(r)
	}
	if a.news.urgent {
		a.signal()
	}
}

// surprises reports whether the provider has less than we count on. a.mu is held.
func (a *agent) surprises(r Room) bool {
	if a.known == nil || r.Of < 0 || r.Of >= dimensions || a.known.Limits[r.Of] == 0 {
		return false
	}
	less := r.Remaining >= 0 && float64(r.Remaining) < a.known.Levels[r.Of]
	return less || r.Limit > 0 && float64(r.Limit) < a.known.Limits[r.Of]
}

// factor is the part of the limits that is used, as far as this replica knows. a.mu is held.
func (a *agent) factor() float64 {
	if a.known == nil || !a.limit.Adaptive {
		return 1
	}
	return a.known.Factor
}

// settle replaces a call's estimate by what it has used.
func (a *agent) settle(w *waiter, u Used) {
	if !u.Known {
		return
	}
	used := draws(u.Input, u.Output)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.limit.rated() {
		return
	}
	a.returned(w.need.Class, w.draws.minus(used))
	a.lessons.note(w.draws, used)
	used[Requests] = 0 // counted with the answer
	a.news.Used = a.news.Used.plus(used)
	a.signal()
}

// refund gives back all that a call has taken.
func (a *agent) refund(w *waiter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.returned(w.need.Class, w.draws)
	a.signal()
}

// returned gives back to the buckets that are in force. a.mu is held.
func (a *agent) returned(class Class, back amounts) {
	if a.degraded {
		a.local.back(a.localLimits(), back)
		return
	}
	a.news.giveBack(class, back)
}

// lessons is what was estimated and what was used, of late.
type lessons struct {
	estimated, used amounts
	count           int
}

// note adds a call; old ones fade.
func (l *lessons) note(estimated, used amounts) {
	const fade = 0.98
	l.estimated = l.estimated.times(fade).plus(estimated)
	l.used = l.used.times(fade).plus(used)
	l.count++
}

// scale returns what calls of so great an estimate will most likely use. What nobody knows yet is nothing.
func (l *lessons) scale(estimated amounts) amounts {
	const enough = 8
	for d := range estimated {
		switch {
		case Dimension(d) == Requests:
		case l.count < enough || l.estimated[d] == 0:
			estimated[d] = 0
		default:
			estimated[d] *= min(1, l.used[d]/l.estimated[d])
		}
	}
	return estimated
}
