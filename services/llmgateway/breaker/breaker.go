// Package breaker keeps calls away from targets that do not work.
//
// There is one breaker a target. It opens when enough of the last requests have failed, and at least half of them: then the
// target rests for a pause. After the pause one request, over all replicas, may try it; if that is answered, the breaker
// closes, and if not, the target rests twice as long.
//
// Every replica decides by what it knows, without asking anybody, and tells the others through Redis in the background: how
// many of its requests have failed, that a breaker has opened, and how a probe ended. Only who would be the probe asks Redis
// first. While Redis is away each replica is alone: it counts its own requests and sends a probe of its own.
//
// What counts as a failure is for the caller to say. The package never sends anything.
package breaker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"pawl.internal/services/internal/clock"
)

const (
	// sampleSize is how many of a replica's last requests are looked at: of a target with much traffic, its last moments.
	sampleSize = 100
	// growth is how many times its first pause a pause becomes at most, unless that is more than longestPause.
	growth       = 16
	longestPause = 5 * time.Minute
)

// Config says when a breaker opens, and for how long.
type Config struct {
	// Failures is how many requests must have failed within Window, and at least half of all.
	Failures int
	Window   time.Duration
	// Pause is how long the target rests at first.
	Pause time.Duration
}

// longest bounds the pauses.
func (c Config) longest() time.Duration { return max(c.Pause, min(growth*c.Pause, longestPause)) }

// Result is what came of a request.
type Result uint8

// The results.
const (
	// Neither says nothing about the target: we ended the request, or it was never sent.
	Neither Result = iota
	// Success: the target works.
	Success
	// Failure: it does not.
	Failure
	// Alive: the target refused the request, so it is there; that counts for a probe alone.
	Alive
)

// Deps is what a Set works with.
type Deps struct {
	Redis redis.UniversalClient
	// Prefix begins the keys.
	Prefix string
	// Replica names this replica; no other one may have its name.
	Replica string
	Clock   clock.Clock
	Log     *slog.Logger
	// Changed is told when this replica learns that a breaker is open or closed, and for every new one. It must not call back.
	Changed func(target string, open bool)
	// Gone is told of targets that Retain has dropped.
	Gone func(target string)
}

// Set is the breakers of all targets. It is safe for concurrent use.
type Set struct {
	deps   Deps
	script *redis.Script
	// wake holds a token when there is something to be told at once.
	wake chan struct{}

	mu      sync.Mutex
	targets map[string]*target // guarded by mu
}

// New returns a Set without targets. Others hear of what happens here once Run is called.
func New(deps Deps) *Set {
	return &Set{deps: deps, script: redis.NewScript(shareScript), wake: make(chan struct{}, 1), targets: map[string]*target{}}
}

// Retain makes the targets those that have a breaker. Those that had one keep it.
func (s *Set) Retain(targets map[string]Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.targets {
		if _, ok := targets[name]; !ok {
			s.targets[name].drop()
			delete(s.targets, name)
			s.deps.Gone(name)
		}
	}
	for name, cfg := range targets {
		if t := s.targets[name]; t != nil {
			t.configure(cfg)
			continue
		}
		s.targets[name] = &target{set: s, name: name, cfg: cfg}
		s.deps.Changed(name, false)
	}
}

// Wait returns how long the target rests as far as this replica knows; 0 when it may be tried. It takes nothing.
func (s *Set) Wait(name string) time.Duration {
	if t := s.find(name); t != nil {
		return t.rest()
	}
	return 0
}

// Enter asks whether a request may be sent to the target. If it may, the pass must be ended with Done. If not, the pass is
// nil, and wait is after what time it is worth asking again. A target that has no breaker lets everything pass.
//
// It waits for Redis, for half a second at most, only when the request would be the probe.
func (s *Set) Enter(ctx context.Context, name string) (pass *Pass, wait time.Duration) {
	if t := s.find(name); t != nil {
		return t.enter(ctx)
	}
	return &Pass{}, 0
}

func (s *Set) find(name string) *target {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.targets[name]
}

func (s *Set) all() []*target {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*target, 0, len(s.targets))
	for _, t := range s.targets {
		list = append(list, t)
	}
	return list
}

func (s *Set) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Pass is the permission to send one request.
type Pass struct {
	target *target
	// no is the number of openings when it was given, and token the probe's; empty if it is none.
	no    int64
	token string
	once  sync.Once
}

// Probe reports whether the request is the one that tries a target after its pause.
func (p *Pass) Probe() bool { return p.token != "" }

// Done says what came of the request. Repeating it does nothing.
func (p *Pass) Done(r Result) {
	if p.target == nil {
		return
	}
	p.once.Do(func() { p.target.done(p, r) })
}
