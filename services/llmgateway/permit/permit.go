// Package permit is the semaphore that all replicas share: how many requests a limit group may have in flight.
//
// The count stands in Redis. Each replica has one agent per group, which holds permits for its calls and brings them up to
// date with one script: how many it keeps, how many it would like. So a free permit costs no round trip of its own, calls
// that come together share one, and a permit that was just given back is used again at once. Calls wait in line inside
// their replica, interactive ones first, and are woken; only an agent that got less than it wants asks again.
//
// What a replica holds expires unless it is renewed, so a replica that dies gives back its permits by doing nothing. When
// Redis has forgotten everything, nothing new begins until every replica has had the time to declare what it holds. While
// Redis is away, each replica keeps to its share of the limit.
package permit

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
)

// Class is the lane of a call. Lower classes go first.
type Class int

// The classes.
const (
	Interactive Class = iota
	Batch
	classes = iota
)

// Config says how permits are kept.
type Config struct {
	// TTL is how long a replica's permits outlive its last sign of life.
	TTL time.Duration
	// Limits are the permits of each group.
	Limits map[string]int
}

// Deps is what a Pool works with.
type Deps struct {
	Redis redis.UniversalClient
	// Prefix begins the keys.
	Prefix string
	// Replica names this replica; no other one may have its name.
	Replica string
	Clock   clock.Clock
	Log     *slog.Logger
	// Replicas returns how many replicas there are, this one included. It is asked when Redis is away, and at the start:
	// the first one alone need not wait for others.
	Replicas func() int
	// Degraded is told when a group falls back to this replica's share, and when that is over.
	Degraded func(group string, degraded bool)
}

// Pool gives out permits. It is safe for concurrent use.
type Pool struct{ agents map[string]*agent }

// New returns a Pool, which gives out permits once Run is called.
func New(deps Deps, cfg Config) *Pool {
	p := &Pool{agents: map[string]*agent{}}
	for group, limit := range cfg.Limits {
		p.agents[group] = newAgent(deps, cfg.TTL, group, limit)
	}
	return p
}

// Run keeps the permits up to date until ctx ends, and then gives back those that are free.
func (p *Pool) Run(ctx context.Context) error {
	var agents sync.WaitGroup
	for _, a := range p.agents {
		agents.Go(func() { a.run(ctx) })
	}
	agents.Wait()
	return ctx.Err()
}

// Acquire returns a permit of the group, which must be one of Config.Limits. It waits until ctx ends; if it has to wait, it
// calls waiting before.
func (p *Pool) Acquire(ctx context.Context, group string, class Class, waiting func()) (*Permit, error) {
	a := p.agents[group]
	w := a.take(class)
	if w == nil {
		return &Permit{agent: a}, nil
	}
	waiting()
	select {
	case <-w.granted:
		return &Permit{agent: a}, nil
	case <-ctx.Done():
		a.withdraw(w)
		return nil, fault.Of(ctx.Err()).WithCause(context.Cause(ctx))
	}
}

// Permit is the right to have one request in flight.
type Permit struct {
	agent *agent
	once  sync.Once
}

// Release gives the permit back. Repeating it does nothing.
func (p *Permit) Release() { p.once.Do(p.agent.release) }
