package breaker

import (
	"context"
	_ "embed"
	"fmt"
	"time"
)

const (
	// shareEvery is how often replicas tell each other what they have seen; what opens or closes a breaker they tell at once.
	shareEvery = 500 * time.Millisecond
	// shareTimeout bounds one exchange with Redis.
	shareTimeout = 500 * time.Millisecond
	// tokenTTL is how long the token of a replica is good that says nothing more: a probe may take as long as it likes, but
	// one of a dead replica must not keep the target closed.
	tokenTTL = 6 * shareEvery
)

// What an exchange is about.
const (
	opSync   = "sync"
	opTrip   = "trip"
	opProbe  = "probe"
	opPass   = "pass"
	opFail   = "fail"
	opReturn = "return"
)

//go:embed breaker.lua
var shareScript string

// view is what all replicas know of a target.
type view struct {
	open        bool
	left, pause time.Duration
	no          int64
	// mine: our token is the probe's.
	mine bool
}

// Run tells the other replicas, until ctx ends, what was seen here, and learns what they have seen.
func (s *Set) Run(ctx context.Context) error {
	timer := s.deps.Clock.NewTimer(shareEvery)
	defer timer.Stop()
	for {
		select {
		case <-timer.C():
		case <-s.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		for _, t := range s.all() {
			if !t.exchange(ctx, t.takeNews()) {
				break // the others would wait for Redis in vain too
			}
		}
		timer.Reset(shareEvery)
	}
}

// takeNews returns what is to be told. If there is nothing, the others are asked all the same: a target that rests must be
// known as such before it is used here for the first time.
func (t *target) takeNews() news {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.news
	if n.what == "" {
		n.what, n.token = opSync, t.token
	}
	t.news = news{}
	return n
}

// exchange tells the news and takes over what comes back; false if Redis is away, and then the news is kept.
func (t *target) exchange(ctx context.Context, n news) bool {
	v, err := t.set.share(ctx, t, n)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.putBack(n)
		return false
	}
	switch {
	case t.news.what != "" || t.asking:
		// Something has happened here meanwhile that the others do not know yet.
	case t.token != "" && !v.mine:
		if n.token == t.token { // it was good too long ago
			t.token = ""
			t.adopt(v)
		}
	default:
		t.adopt(v)
	}
	return true
}

// putBack keeps news for the next time. t.mu is held.
func (t *target) putBack(n news) {
	t.news.successes += n.successes
	t.news.failures += n.failures
	if t.news.what == "" && n.what != opSync {
		t.news.what, t.news.token = n.what, n.token
	}
}

// share carries out one exchange.
func (s *Set) share(ctx context.Context, t *target, n news) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, shareTimeout)
	defer cancel()
	t.mu.Lock()
	cfg := t.cfg
	t.mu.Unlock()
	answer, err := s.script.Run(ctx, s.deps.Redis, []string{s.deps.Prefix + ":{breaker}:" + t.name},
		n.what, n.token, n.successes, n.failures, cfg.Failures, cfg.Window.Milliseconds(), cfg.Pause.Milliseconds(),
		cfg.longest().Milliseconds(), tokenTTL.Milliseconds()).Int64Slice()
	if err != nil {
		return view{}, fmt.Errorf("share breaker: %w", err)
	}
	if len(answer) != 5 {
		return view{}, fmt.Errorf("share breaker: %d numbers came back instead of 5", len(answer))
	}
	return view{
		open: answer[0] == 1, left: time.Duration(answer[1]) * time.Millisecond, pause: time.Duration(answer[2]) * time.Millisecond,
		no: answer[3], mine: answer[4] == 1,
	}, nil
}
