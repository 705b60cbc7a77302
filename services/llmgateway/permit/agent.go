package permit

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const unlimited = math.MaxInt32

// flow is the calls of one tenant in one class.
type flow struct {
	class  Class
	tenant string
}

// agent holds this replica's permits of one group.
type agent struct {
	deps   Deps
	cfg    Config
	group  string
	script *redis.Script
	// wake holds a token when the next question may be due earlier than run thinks.
	wake chan struct{}

	mu    sync.Mutex
	limit Limit // guarded by mu
	// retired is true when the group is gone, and ended when run has returned for that.
	retired, ended bool // guarded by mu

	// held is how many permits Redis says are ours, and share how many of them are our fair part.
	held, share [classes]int // guarded by mu
	// scarce is true when calls of some replica lack permits, so that what is not used is given back at once.
	scarce bool // guarded by mu
	// inUse is how many calls have one; peak is the most of the current linger period.
	inUse, peak [classes]int // guarded by mu
	// users is inUse by tenant.
	users map[flow]int  // guarded by mu
	lines [classes]line // guarded by mu
	// fresh is until when we may count on held: our permits expire a little later.
	fresh time.Time // guarded by mu
	// starved is true when the last answer was less than what was wanted; failing when there was none.
	starved, failing bool // guarded by mu
	// rest is how long the starved call that waits for the buckets has to wait; 0 when that is not known.
	rest     time.Duration // guarded by mu
	degraded bool          // guarded by mu

	// known is what the last answer said; nil before there was one.
	known *answer // guarded by mu
	// asked is when the question was sent that known answers, and cutSeen when this replica heard that the ceiling had fallen
	// last: what it sent before was still sent under the old one.
	asked, cutSeen time.Time // guarded by mu
	// hushed is true from a limited answer until Redis has heard of it: what it leaves free is not used again at once.
	hushed bool // guarded by mu
	// pausedUntil is when the provider wants to be asked again.
	pausedUntil time.Time // guarded by mu
	// news is what Redis is to be told.
	news news // guarded by mu
	// lessons is what calls have shown about estimates.
	lessons lessons // guarded by mu
	// local takes the place of the shared buckets while Redis is away.
	local bucket // guarded by mu
	// looked is when the calls in line were last looked at for deadlines that cannot be met.
	looked time.Time // guarded by mu
}

func newAgent(deps Deps, cfg Config, group string, limit Limit) *agent {
	return &agent{
		deps: deps, cfg: cfg, group: group, limit: limit, script: redis.NewScript(syncScript()), wake: make(chan struct{}, 1),
		share: [classes]int{unlimited, unlimited}, users: map[flow]int{},
	}
}

// setLimit changes the limits; it reports false when the agent has ended.
func (a *agent) setLimit(limit Limit) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false
	}
	a.retired, a.limit, a.starved = false, limit, false
	a.signal()
	return true
}

// retire refuses the calls in line; the agent ends with the last call that has a permit.
func (a *agent) retire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.retired = true
	for class := range a.lines {
		for _, w := range a.lines[class].all() {
			a.refuse(w, a.goneRefusal())
		}
	}
	a.signal()
}

func (a *agent) goneRefusal() *Refusal {
	return &Refusal{Group: a.group, Wait: time.Second, Why: "the limit group is not configured any more"}
}

// take returns the call with a permit, or its place in line.
func (a *agent) take(need Need) (w *waiter, granted bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w = &waiter{need: need, draws: draws(need.Input, need.Output)}
	if r := a.refusal(w); r != nil {
		return nil, false, r
	}
	if !a.limit.rated() && a.waiting() == 0 && a.room(need.Class) > 0 {
		a.use(w)
		return w, true, nil
	}
	if a.lines[need.Class].size == 0 {
		a.starved = false // what those before lacked may be there for this one
	}
	w.decided = make(chan struct{})
	a.lines[need.Class].push(w)
	a.serve()
	a.signal()
	return w, false, nil
}

// withdraw takes a call out of the line, or gives back the permit that it got just now.
func (a *agent) withdraw(w *waiter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case w.inLine:
		a.lines[w.need.Class].remove(w)
		a.signal()
	case w.granted:
		a.returned(w.need.Class, w.draws)
		a.giveBack(w)
	}
}

// release ends one use.
func (a *agent) release(w *waiter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.giveBack(w)
}

// giveBack ends one use. a.mu is held.
func (a *agent) giveBack(w *waiter) {
	f := flow{w.need.Class, w.need.Tenant}
	a.inUse[f.class]--
	if a.users[f]--; a.users[f] == 0 {
		delete(a.users, f)
	}
	a.serve()
	a.signal()
}

// use begins one. a.mu is held.
func (a *agent) use(w *waiter) {
	class := w.need.Class
	w.granted = true
	a.inUse[class]++
	a.users[flow{class, w.need.Tenant}]++
	a.peak[class] = max(a.peak[class], a.inUse[class])
}

// grant gives a permit to a call in line. a.mu is held.
func (a *agent) grant(w *waiter) {
	a.lines[w.need.Class].take(w)
	a.use(w)
	close(w.decided)
}

// refuse ends a call's waiting without a permit. a.mu is held.
func (a *agent) refuse(w *waiter, r *Refusal) {
	a.lines[w.need.Class].remove(w)
	w.refusal = r
	close(w.decided)
}

// serve gives permits to those in line as far as there are any here. What is limited per minute comes from Redis alone,
// unless that is away. a.mu is held.
func (a *agent) serve() {
	switch {
	case a.degraded:
		a.serveLocally()
		return
	case a.limit.rated():
		return
	}
	for class := range Class(classes) {
		for a.lines[class].size > 0 && a.room(class) > 0 {
			a.grant(a.lines[class].first())
		}
	}
}

// room is how many more calls of a class may begin now. Calls use permits of the other class that nobody needs; but batch
// calls none of those that interactive ones have for themselves. a.mu is held.
func (a *agent) room(class Class) int {
	switch {
	case a.retired || a.paused() || a.hushed:
		return 0
	case a.degraded:
		return a.localRoom(class)
	case a.stale():
		return 0
	}
	other := 1 - class
	room := a.free(class)
	mayBorrow := class == Interactive || a.limit.InteractiveReserve == 0
	if mayBorrow && !a.scarce && a.lines[other].size == 0 {
		room += a.free(other)
	}
	return room
}

// free is how many permits of a class are not in use; it is negative when its calls use those of the other class. a.mu is held.
func (a *agent) free(class Class) int { return min(a.held[class], a.share[class]) - a.inUse[class] }

// waiting is how many calls are in line. a.mu is held.
func (a *agent) waiting() int { return a.lines[Interactive].size + a.lines[Batch].size }

// busy is how many calls have a permit. a.mu is held.
func (a *agent) busy() int { return a.inUse[Interactive] + a.inUse[Batch] }

// idle is how many permits are held and not used. a.mu is held.
func (a *agent) idle() int { return a.held[Interactive] + a.held[Batch] - a.busy() }

// stale reports whether our permits may have expired in Redis. a.mu is held.
func (a *agent) stale() bool { return !a.deps.Clock.Now().Before(a.fresh) }

// paused reports whether the provider wants to be left alone. a.mu is held.
func (a *agent) paused() bool {
	return !a.pausedUntil.IsZero() && a.deps.Clock.Now().Before(a.pausedUntil)
}

// pause lengthens the group's pause; it never shortens it. a.mu is held.
func (a *agent) pause(d time.Duration) {
	if until := a.deps.Clock.Now().Add(d); d > 0 && until.After(a.pausedUntil) {
		a.pausedUntil = until
	}
}

func (a *agent) signal() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// state returns how the group stands.
func (a *agent) state() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := State{Limit: a.limit, Factor: 1, Ceiling: a.limit.Concurrency, Here: a.busy(), InFlight: a.busy(), Degraded: a.degraded}
	s.PerMinute = a.limit.perMinute()
	if a.known != nil {
		others := int(a.known.InFlight) - a.held[Interactive] - a.held[Batch]
		s.Factor, s.Ceiling, s.InFlight = a.known.Factor, int(a.known.Ceiling), max(0, others)+a.busy()
		s.PerMinute, s.Levels = a.known.Limits, a.known.Levels
	}
	for class := range s.Waiting {
		s.Waiting[class] = a.lines[class].size
	}
	if a.paused() {
		s.PausedUntil, s.Paused = a.pausedUntil, a.pausedUntil.Sub(a.deps.Clock.Now())
	}
	return s
}

// key is where Redis keeps the group; the braces keep it on one node of a cluster.
func (a *agent) key() string { return fmt.Sprintf("%s:permits:{%s}", a.deps.Prefix, a.group) }
