package breaker

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

// target is this replica's view of one target's breaker.
type target struct {
	set  *Set
	name string

	mu  sync.Mutex
	cfg Config // guarded by mu
	// sample has the last requests since the breaker was closed, oldest first.
	sample []sampled // guarded by mu
	// open is true until a probe was answered. Until is the end of the pause, and pause its length.
	open  bool          // guarded by mu
	until time.Time     // guarded by mu
	pause time.Duration // guarded by mu
	// no counts the openings; what was let pass before the last one says nothing about the target any more.
	no int64 // guarded by mu
	// token is that of our probe; asking is true while Redis is asked for one.
	token  string // guarded by mu
	asking bool   // guarded by mu
	// news is what others are to be told next.
	news news // guarded by mu
	// gone is true when the set has dropped it.
	gone bool // guarded by mu
}

type sampled struct {
	at     time.Time
	failed bool
}

// news is what this replica has to tell.
type news struct {
	successes, failures int
	// what is 'trip', or how a probe ended, with its token; or empty.
	what, token string
}

func (t *target) configure(cfg Config) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cfg = cfg
}

func (t *target) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gone = true
}

func (t *target) rest() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.open {
		return 0
	}
	return max(0, t.until.Sub(t.set.deps.Clock.Now()))
}

func (t *target) enter(ctx context.Context) (*Pass, time.Duration) {
	t.mu.Lock()
	wait, probe := t.look()
	no := t.no
	t.mu.Unlock()
	switch {
	case wait > 0:
		return nil, wait
	case !probe:
		return &Pass{target: t, no: no}, 0
	default:
		return t.probe(ctx)
	}
}

// look decides as far as that is possible without asking. If there might be a probe, this caller alone asks for it, until
// t.asking is false again. t.mu is held.
func (t *target) look() (wait time.Duration, probe bool) {
	if !t.open {
		return 0, false
	}
	if left := t.until.Sub(t.set.deps.Clock.Now()); left > 0 {
		return left, false
	}
	if t.token != "" || t.asking {
		return t.cfg.Pause, false
	}
	t.asking = true
	return 0, true
}

// probe asks for the right to be the probe. Without Redis every replica has it for itself. A caller that goes away meanwhile
// must not look like a Redis that has.
func (t *target) probe(ctx context.Context) (*Pass, time.Duration) {
	token := t.set.deps.Replica + "/" + uuid.NewString()
	v, err := t.set.share(context.WithoutCancel(ctx), t, news{what: opProbe, token: token})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asking = false
	if err != nil || t.news.what == opTrip { // what Redis says is from before it was away
		v = view{open: t.open, no: t.no, pause: t.pause, mine: t.open}
	}
	t.adopt(v)
	switch {
	case v.mine:
		t.token = token
		return &Pass{target: t, no: t.no, token: token}, 0
	case !t.open:
		return &Pass{target: t, no: t.no}, 0
	default:
		return nil, max(v.left, t.cfg.Pause)
	}
}

func (t *target) done(p *Pass, r Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.gone:
	case p.token != "":
		t.probed(p, r)
	case t.open || p.no != t.no || r == Neither || r == Alive:
	default:
		t.count(r == Failure)
	}
}

// probed ends our probe. t.mu is held.
func (t *target) probed(p *Pass, r Result) {
	if t.token != p.token {
		return // it took so long that it is another's turn
	}
	t.token = ""
	switch r {
	case Success, Alive:
		t.news = news{what: opPass, token: p.token}
		t.close()
	case Failure:
		t.news = news{what: opFail, token: p.token}
		t.trip(min(2*t.pause, t.cfg.longest()))
	case Neither:
		t.news = news{what: opReturn, token: p.token}
	}
	t.set.signal()
}

// count notes how a request ended while the breaker is closed, and opens it when that was one failure too many. t.mu is held.
func (t *target) count(failed bool) {
	now := t.set.deps.Clock.Now()
	t.sample = append(t.sample, sampled{now, failed})
	for len(t.sample) > sampleSize || now.Sub(t.sample[0].at) >= t.cfg.Window {
		t.sample = t.sample[1:]
	}
	if !failed {
		t.news.successes++
		return
	}
	t.news.failures++
	failures := 0
	for _, s := range t.sample {
		if s.failed {
			failures++
		}
	}
	if failures >= t.cfg.Failures && 2*failures >= len(t.sample) {
		t.news.what = opTrip
		t.trip(t.cfg.Pause)
		t.set.signal()
	}
}

// trip opens the breaker. t.mu is held.
func (t *target) trip(pause time.Duration) {
	wasOpen := t.open
	t.open, t.pause, t.until, t.sample = true, pause, t.set.deps.Clock.Now().Add(pause), nil
	t.no++
	t.tell(wasOpen)
}

// close closes it. t.mu is held.
func (t *target) close() {
	wasOpen := t.open
	t.open, t.sample = false, nil
	t.tell(wasOpen)
}

func (t *target) tell(wasOpen bool) {
	if wasOpen == t.open {
		return
	}
	t.set.deps.Changed(t.name, t.open)
	if t.open {
		t.set.deps.Log.Warn("target does not work and rests", "target", t.name, "pause", t.pause.String())
	} else {
		t.set.deps.Log.Info("target works again", "target", t.name)
	}
}

// adopt takes over what all replicas know. t.mu is held.
func (t *target) adopt(v view) {
	wasOpen := t.open
	if v.open && (!t.open || v.no != t.no) {
		t.sample = nil
	}
	t.open, t.no, t.pause = v.open, v.no, v.pause
	t.until = t.set.deps.Clock.Now().Add(v.left)
	t.tell(wasOpen)
}
