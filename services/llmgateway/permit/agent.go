package permit

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"pawl.internal/services/internal/failpoint"
)

const (
	// starvedPoll is the time between two questions of an agent that got less than it wants.
	starvedPoll = 10 * time.Millisecond
	// awayPoll is the same while Redis does not answer.
	awayPoll = 250 * time.Millisecond
	// linger is how long a free permit is kept for the next call of this replica.
	linger = 20 * time.Millisecond
	// syncTimeout bounds one question.
	syncTimeout = time.Second

	unlimited = math.MaxInt32
)

//go:embed sync.lua
var syncScript string

// waiter is a call in line. Its channel is closed when it has a permit.
type waiter struct {
	class   Class
	granted chan struct{}
}

// agent holds this replica's permits of one group.
type agent struct {
	deps   Deps
	group  string
	limit  int
	ttl    time.Duration
	script *redis.Script
	// wake holds a token when the next question may be due earlier than run thinks.
	wake chan struct{}

	mu sync.Mutex
	// held is how many permits Redis says are ours, and share how many of them are our fair part.
	held, share int // guarded by mu
	// inUse is how many calls have one; peak is the most of the current linger period.
	inUse, peak int                // guarded by mu
	line        [classes][]*waiter // guarded by mu
	// fresh is until when we may count on held: our permits expire a little later.
	fresh time.Time // guarded by mu
	// starved is true when the last answer was less than what was wanted; failing when there was none.
	starved, failing bool // guarded by mu
	degraded         bool // guarded by mu
	synced           bool // guarded by mu; Redis has answered at least once
}

func newAgent(deps Deps, ttl time.Duration, group string, limit int) *agent {
	return &agent{
		deps: deps, group: group, limit: limit, ttl: ttl, share: unlimited, script: redis.NewScript(syncScript),
		wake: make(chan struct{}, 1),
	}
}

// take returns nil when the call has a permit at once, or else its place in line.
func (a *agent) take(class Class) *waiter {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting() == 0 && a.room() > 0 {
		a.use()
		return nil
	}
	w := &waiter{class: class, granted: make(chan struct{})}
	a.line[class] = append(a.line[class], w)
	a.serve()
	a.signal()
	return w
}

// withdraw takes a call out of the line, or gives back the permit that it got just now.
func (a *agent) withdraw(w *waiter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.line[w.class], w); i >= 0 {
		a.line[w.class] = slices.Delete(a.line[w.class], i, i+1)
		return
	}
	a.giveBack()
}

func (a *agent) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.giveBack()
}

// giveBack ends one use. a.mu is held.
func (a *agent) giveBack() {
	a.inUse--
	a.serve()
	a.signal()
}

// use begins one. a.mu is held.
func (a *agent) use() {
	a.inUse++
	a.peak = max(a.peak, a.inUse)
}

// serve gives permits to those in line as far as there are any. a.mu is held.
func (a *agent) serve() {
	for class := range a.line {
		for len(a.line[class]) > 0 && a.room() > 0 {
			a.use()
			close(a.line[class][0].granted)
			a.line[class] = a.line[class][1:]
		}
	}
}

// room is how many more calls may begin now. a.mu is held.
func (a *agent) room() int {
	allowed := min(a.held, a.share)
	switch {
	case a.degraded:
		allowed = max(1, a.limit/max(1, a.deps.Replicas()))
	case a.stale():
		allowed = 0
	}
	return allowed - a.inUse
}

// waiting is how many calls are in line. a.mu is held.
func (a *agent) waiting() int {
	n := 0
	for _, line := range a.line {
		n += len(line)
	}
	return n
}

func (a *agent) signal() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run asks Redis whenever that is due, until ctx ends.
func (a *agent) run(ctx context.Context) {
	for ctx.Err() == nil {
		a.sync(ctx, a.wanted)
		a.pause(ctx, a.deps.Clock.Now())
	}
	a.sync(context.WithoutCancel(ctx), a.needed)
}

// pause returns when the next question is due.
func (a *agent) pause(ctx context.Context, asked time.Time) {
	timer := a.deps.Clock.NewTimer(a.ttl)
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
	heartbeat := a.ttl / 3
	switch {
	case a.failing:
		return min(awayPoll, heartbeat)
	case a.waiting() > 0 && a.starved:
		return starvedPoll
	case a.waiting() > 0:
		return 0
	case a.held > a.inUse && a.share != unlimited:
		return 0 // others want what we do not use
	case a.held > a.inUse:
		return linger
	default:
		return heartbeat
	}
}

// question is what the script is asked.
type question struct {
	keep, want int
	alone      bool
}

// sync asks Redis once and takes over its answer. Wish is called with a.mu held.
func (a *agent) sync(ctx context.Context, wish func() int) {
	q := a.prepare(wish)
	sent := a.deps.Clock.Now()
	failpoint.Hit("gateway.permit.sync")
	granted, share, err := a.ask(ctx, q)
	failpoint.Hit("gateway.permit.synced")
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.failed(err)
		return
	}
	a.held, a.share, a.failing, a.synced = granted, unlimited, false, true
	if share >= 0 {
		a.share = share
	}
	a.starved = granted < q.want
	a.fresh = sent.Add(a.ttl * 4 / 5)
	a.setDegraded(false)
	a.serve()
}

// wanted is how many permits there is use for: for the calls of this moment, and for as many as there were at the peak of
// the last one, unless others are short of permits. a.mu is held.
func (a *agent) wanted() int {
	want := a.inUse + a.waiting()
	if a.share == unlimited {
		want = max(want, min(a.peak, a.held))
	}
	return want
}

// needed is how many permits are in use. a.mu is held.
func (a *agent) needed() int { return a.inUse }

// prepare decides what to ask for. What is not kept is not used any more from here on, since another replica may get it.
func (a *agent) prepare(wish func() int) question {
	a.mu.Lock()
	defer a.mu.Unlock()
	want := wish()
	a.peak = a.inUse
	if a.stale() {
		a.held = 0
	}
	a.held = max(a.inUse, min(a.held, a.share, want))
	return question{keep: a.held, want: max(want, a.held), alone: !a.synced && a.deps.Replicas() <= 1}
}

// stale reports whether our permits may have expired in Redis. a.mu is held.
func (a *agent) stale() bool { return !a.deps.Clock.Now().Before(a.fresh) }

func (a *agent) ask(ctx context.Context, q question) (granted, share int, err error) {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	alone := 0
	if q.alone {
		alone = 1
	}
	key := a.deps.Prefix + ":{permits}:" + a.group
	answer, err := a.script.Run(ctx, a.deps.Redis, []string{key},
		a.deps.Replica, q.keep, q.want, a.limit, a.ttl.Milliseconds(), alone).Int64Slice()
	if err != nil {
		return 0, 0, fmt.Errorf("ask for permits: %w", err)
	}
	if len(answer) != 2 {
		return 0, 0, fmt.Errorf("ask for permits: %d numbers came back instead of 2", len(answer))
	}
	return int(answer[0]), int(answer[1]), nil
}

// failed notes that a question was not answered. Once our permits may have expired, our share of the limit is what is left.
// a.mu is held.
func (a *agent) failed(err error) {
	a.failing = true
	if !a.degraded {
		a.deps.Log.Warn("permits cannot be renewed", "group", a.group, "error", err)
	}
	if a.stale() {
		a.setDegraded(true)
	}
	a.serve()
}

// setDegraded tells a change. a.mu is held.
func (a *agent) setDegraded(degraded bool) {
	if a.degraded != degraded {
		a.degraded = degraded
		a.deps.Degraded(a.group, degraded)
	}
}
