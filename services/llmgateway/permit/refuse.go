package permit

import (
	"fmt"
	"time"
)

// lookEvery is how often the calls in line are looked at for deadlines that cannot be met any more.
const lookEvery = 100 * time.Millisecond

// refusal says why a call that comes now should not wait; nil if it should. a.mu is held.
func (a *agent) refusal(w *waiter) *Refusal {
	if a.retired {
		return a.goneRefusal()
	}
	now := a.deps.Clock.Now()
	if r := a.pauseRefusal(w, now); r != nil || w.need.Deadline.IsZero() {
		return r
	}
	if wait := a.shortestWait(w, now); now.Add(wait).After(w.need.Deadline) {
		return &Refusal{
			Group: a.group, Wait: wait, Deadline: true,
			Why: fmt.Sprintf("its turn comes in %s at the earliest, after the call's deadline", wait.Round(time.Millisecond)),
		}
	}
	return nil
}

// pauseRefusal says why a call should not wait for the end of the group's pause; nil if it should. a.mu is held.
func (a *agent) pauseRefusal(w *waiter, now time.Time) *Refusal {
	rest := max(0, a.pausedUntil.Sub(now))
	late := !w.need.Deadline.IsZero() && !now.Add(rest).Before(w.need.Deadline)
	switch {
	case late && rest == 0:
		return &Refusal{Group: a.group, Deadline: true, Why: "the call's deadline has passed"}
	case late:
		return &Refusal{Group: a.group, Wait: rest, Deadline: true, Why: "the provider asked for a pause that ends after the call's deadline"}
	case rest > a.cfg.LongestPause:
		return &Refusal{Group: a.group, Wait: rest, Why: "the provider asked for a pause"}
	default:
		return nil
	}
}

// shortestWait is how long a call waits for the buckets in any case: even if no other replica had calls, and those before it
// used as little as calls of late. What is in flight may give back all that it has taken. a.mu is held.
func (a *agent) shortestWait(w *waiter, now time.Time) time.Duration {
	if a.known == nil || a.degraded {
		return 0
	}
	var before amounts
	if queue := a.lines[w.need.Class].byTenant[w.need.Tenant]; queue != nil {
		before = queue.draws
	}
	if w.need.Class == Batch && a.limit.BatchFloor == 0 {
		before = before.plus(a.lines[Interactive].draws)
	}
	before = a.lessons.scale(before)
	var longest time.Duration
	for d, limit := range a.known.Limits {
		if limit == 0 {
			continue
		}
		full, refill := capacity(limit, Dimension(d)), refillShare*limit/float64(time.Minute)
		level := min(full, a.known.Levels[d]+refill*float64(now.Sub(a.asked)))
		if Dimension(d) != Requests && a.known.InFlight > 0 {
			level = full
		}
		if lacking := min(w.draws[d], full) + before[d] - level; lacking > 0 {
			longest = max(longest, time.Duration(lacking/refill))
		}
	}
	return longest
}

// lookAtLine refuses calls in line that wait in vain. a.mu is held.
func (a *agent) lookAtLine() {
	now := a.deps.Clock.Now()
	a.looked = now
	for class := range a.lines {
		for _, w := range a.lines[class].all() {
			if r := a.pauseRefusal(w, now); r != nil {
				a.refuse(w, r)
			}
		}
	}
}
