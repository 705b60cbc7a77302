// Package permit is the semaphore that all replicas share: how many requests a limit group may have in flight, and how many
// requests and tokens it may use per minute.
//
// The count stands in Redis. Each replica has one agent per group, which brings it up to date with one script: what the
// replica keeps, what its calls in line need, what their requests have used and what the provider has answered. A call gets
// everything that it needs or takes nothing. Where only the number of requests in flight is limited, a free permit costs no
// round trip of its own, calls that come together share one, and a permit that was just given back is used again at once.
// Calls wait in line inside their replica, interactive ones first and tenants in turns, and are woken; only an agent that got
// less than it wants asks again. Among replicas, what is scarce is shared by class and tenant.
//
// What a replica holds expires unless it is renewed, so a replica that dies gives back its permits by doing nothing. When
// Redis has forgotten everything, nothing new begins until every replica has had the time to declare what it holds and what
// it has learned, and buckets begin empty. While Redis is away, each replica keeps to its share of the limits.
//
// The limits adapt to what the provider answers (adapt.lua): one factor for all of a group falls when the provider says that
// we ask too fast, and grows while it answers.
package permit

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
)

// defaultLongestPause is the longest pause of a group that calls wait for in line.
const defaultLongestPause = 5 * time.Second

// Config says how permits are kept.
type Config struct {
	// TTL is how long a replica's permits outlive its last sign of life.
	TTL time.Duration
	// LongestPause is the longest pause of a group that calls wait for in line; 0 for 5 s.
	LongestPause time.Duration
	// Limits are those of each group.
	Limits map[string]Limit
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
type Pool struct {
	deps Deps
	cfg  Config

	mu     sync.RWMutex
	agents map[string]*agent      // guarded by mu
	begin  func(agents ...*agent) // guarded by mu; nil unless Run runs
	limits map[string]Limit       // guarded by mu
}

// New returns a Pool, which gives out permits once Run is called.
func New(deps Deps, cfg Config) *Pool {
	if cfg.LongestPause <= 0 {
		cfg.LongestPause = defaultLongestPause
	}
	p := &Pool{deps: deps, cfg: cfg, agents: map[string]*agent{}}
	p.SetLimits(cfg.Limits)
	return p
}

// Run keeps the permits up to date until ctx ends, and then gives back those that are free.
func (p *Pool) Run(ctx context.Context) error {
	var running sync.WaitGroup
	p.mu.Lock()
	p.begin = func(agents ...*agent) {
		for _, a := range agents {
			running.Go(func() { p.end(a, a.run(ctx)) })
		}
	}
	for _, a := range p.agents {
		p.begin(a)
	}
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	p.begin = nil
	p.mu.Unlock()
	running.Wait()
	return ctx.Err()
}

// end forgets an agent whose group is gone for good.
func (p *Pool) end(a *agent, gone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if gone && p.agents[a.group] == a {
		delete(p.agents, a.group)
		if limit, again := p.limits[a.group]; again { // it came back just now
			p.add(a.group, limit)
		}
	}
}

// SetLimits replaces the groups and their limits. Calls in line for a group that is gone are refused; those that have a
// permit of it keep it.
func (p *Pool) SetLimits(limits map[string]Limit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits = maps.Clone(limits)
	for group, limit := range limits {
		if a := p.agents[group]; a == nil || !a.setLimit(limit) {
			p.add(group, limit)
		}
	}
	for group, a := range p.agents {
		if _, kept := limits[group]; !kept {
			a.retire()
		}
	}
}

// add makes an agent of a new group. p.mu is held.
func (p *Pool) add(group string, limit Limit) {
	a := newAgent(p.deps, p.cfg, group, limit)
	p.agents[group] = a
	if p.begin != nil {
		p.begin(a)
	}
}

func (p *Pool) agent(group string) *agent {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.agents[group]
}

// Acquire returns a permit for what is needed. It waits until ctx ends; if it has to wait, it calls waiting before. It returns
// a *Refusal when waiting would be in vain or too long, and a fault when ctx ends or there is no such group.
func (p *Pool) Acquire(ctx context.Context, need Need, waiting func()) (*Permit, error) {
	if err := ctx.Err(); err != nil { // also where a permit is free
		return nil, fault.Of(err).WithCause(context.Cause(ctx))
	}
	a := p.agent(need.Group)
	if a == nil {
		return nil, fault.Unavailable(nil, "there is no limit group %s any more; ask again", need.Group)
	}
	w, granted, err := a.take(need)
	switch {
	case err != nil:
		return nil, err
	case granted:
		return newPermit(a, w), nil
	}
	waiting()
	select {
	case <-w.decided:
		if w.refusal != nil {
			return nil, w.refusal
		}
		return newPermit(a, w), nil
	case <-ctx.Done():
		a.withdraw(w)
		return nil, fault.Of(ctx.Err()).WithCause(context.Cause(ctx))
	}
}

// Feedback tells what an answer says about the limits of its group.
func (p *Pool) Feedback(group string, f Feedback) {
	if a := p.agent(group); a != nil {
		a.learn(f)
	}
}

// States returns how every group stands, as far as this replica knows.
func (p *Pool) States() map[string]State {
	p.mu.RLock()
	agents := maps.Clone(p.agents)
	p.mu.RUnlock()
	states := make(map[string]State, len(agents))
	for group, a := range agents {
		states[group] = a.state()
	}
	return states
}

// Permit is the right to have one request in flight.
type Permit struct {
	agent   *agent
	waiter  *waiter
	freed   sync.Once
	settled sync.Once
}

func newPermit(a *agent, w *waiter) *Permit { return &Permit{agent: a, waiter: w} }

// Settle replaces the estimate by what the request has really used, and ends it as Release does. What is not known is not
// given back. Repeating it does nothing.
func (p *Permit) Settle(u Used) {
	p.settled.Do(func() { p.agent.settle(p.waiter, u) })
	p.Release()
}

// Unsent gives everything back: nothing was sent. After Settle it does nothing.
func (p *Permit) Unsent() {
	p.settled.Do(func() { p.agent.refund(p.waiter) })
	p.Release()
}

// Release frees the place in flight; what was taken per minute stays taken until Settle. Repeating it does nothing.
func (p *Permit) Release() { p.freed.Do(func() { p.agent.release(p.waiter) }) }
