// Package rate bounds how often each tenant may do something, over all replicas together.
//
// The buckets are in Redis, one small key each, and what Redis forgets is full again. While Redis is away every replica goes
// by buckets of its own, with its share of the limit: nobody waits for Redis, and nobody is refused because of it. (The
// libraries that do the first part put their own names before the keys, where an operator's prefix must stand.)
package rate

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/redisconn"
)

//go:embed gcra.lua
var takeScript string

//go:embed announce.lua
var announceScript string

const (
	// announceEvery is how often a replica says that it is there; others count it for three times as long.
	announceEvery = 5 * time.Second
	// probeEvery is how often Redis is tried while it is away.
	probeEvery = 250 * time.Millisecond
	// maxLocal bounds the buckets that are kept while Redis is away.
	maxLocal = 10_000
)

// Limit is how often something may be done.
type Limit struct {
	// PerMinute is the pace over a long time; at least 1.
	PerMinute int
	// Burst is how much may be done at once after a pause; at least 1.
	Burst int
}

// Decision says whether something may be done now.
type Decision struct {
	Allowed bool
	// Remaining is how much more could be done at once.
	Remaining int
	// RetryAfter is after what time a refused request will be allowed if nothing else is done meanwhile.
	RetryAfter time.Duration
	// Reset is the time until the whole burst is there again.
	Reset time.Duration
}

// Deps is what a Limiter works with.
type Deps struct {
	Redis redis.UniversalClient
	// Prefix begins the keys.
	Prefix string
	// Replica names this replica; no other one may have its name.
	Replica string
	// Patience is how long an answer of Redis is waited for.
	Patience time.Duration
	Clock    clock.Clock
	Log      *slog.Logger
	// Degraded is told when this replica begins and ends to go by its own buckets.
	Degraded func(bool)
}

// Limiter bounds rates. It is safe for concurrent use. Run must run for it to find back to Redis.
type Limiter struct {
	deps           Deps
	take, announce *redis.Script
	// wake holds a token when Redis was just lost.
	wake chan struct{}

	mu       sync.Mutex
	away     bool                 // guarded by mu
	replicas int                  // guarded by mu; how many there were when Redis last told
	local    map[string]time.Time // guarded by mu; when each bucket of this replica is full
}

// New returns a Limiter.
func New(deps Deps) *Limiter {
	return &Limiter{
		deps: deps, take: redis.NewScript(takeScript), announce: redis.NewScript(announceScript),
		wake: make(chan struct{}, 1), replicas: 1, local: map[string]time.Time{},
	}
}

// Take takes n of what the tenant may do, or nothing. More than the burst is taken from a full bucket, and paid off by the
// time that follows. It always decides, and waits for Redis no longer than the patience.
func (l *Limiter) Take(ctx context.Context, tenant string, limit Limit, n int) Decision {
	// Other limits are another bucket, so that a debt under the old ones does not outlast them.
	name := fmt.Sprintf("%s:%d:%d", tenant, limit.PerMinute, limit.Burst)
	if !l.isAway() {
		decision, err := l.ask(ctx, name, limit, n)
		if err == nil {
			return decision
		}
		if ctx.Err() == nil {
			l.lose(ctx, err)
		}
	}
	return l.takeLocally(name, limit, n)
}

// ask takes from the bucket that all replicas share.
func (l *Limiter) ask(ctx context.Context, name string, limit Limit, n int) (Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, l.deps.Patience)
	defer cancel()
	interval := strconv.FormatFloat(microseconds(limit), 'f', 3, 64)
	answer, err := l.take.Run(ctx, l.deps.Redis, []string{l.deps.Prefix + ":submits:" + name}, interval, limit.Burst, n).Slice()
	if err != nil {
		return Decision{}, redisconn.Fault(err)
	}
	if len(answer) != 2 {
		return Decision{}, errors.New("redis gave another answer than the script does")
	}
	allowed, isNumber := answer[0].(int64)
	text, isText := answer[1].(string)
	full, err := strconv.ParseInt(text, 10, 64)
	if !isNumber || !isText || err != nil {
		return Decision{}, errors.New("redis gave another answer than the script does")
	}
	return decide(limit, n, allowed == 1, time.Duration(full)*time.Microsecond), nil
}

// takeLocally takes from this replica's own bucket, which holds its share.
func (l *Limiter) takeLocally(name string, limit Limit, n int) Decision {
	now := l.deps.Clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	interval := microseconds(limit) * float64(l.replicas)
	share := Limit{PerMinute: limit.PerMinute, Burst: max(1, limit.Burst/l.replicas)}
	full := max(0, l.local[name].Sub(now))
	after := full + time.Duration(float64(n)*interval)*time.Microsecond
	most := time.Duration(float64(max(share.Burst, n))*interval) * time.Microsecond
	if after > most {
		return decideAt(interval, share.Burst, n, false, full)
	}
	if len(l.local) >= maxLocal {
		l.forget(now)
	}
	l.local[name] = now.Add(after)
	return decideAt(interval, share.Burst, n, true, after)
}

// forget drops buckets that are full, or all if there are too many others. l.mu is held.
func (l *Limiter) forget(now time.Time) {
	for name, full := range l.local {
		if !full.After(now) {
			delete(l.local, name)
		}
	}
	if len(l.local) >= maxLocal {
		clear(l.local)
	}
}

// microseconds is the time that one token takes to come back.
func microseconds(limit Limit) float64 {
	return float64(time.Minute/time.Microsecond) / float64(limit.PerMinute)
}

// decide tells what follows from a bucket that is full after the given time.
func decide(limit Limit, n int, allowed bool, full time.Duration) Decision {
	return decideAt(microseconds(limit), limit.Burst, n, allowed, full)
}

func decideAt(interval float64, burst, n int, allowed bool, full time.Duration) Decision {
	used := float64(full.Microseconds()) / interval
	decision := Decision{Allowed: allowed, Remaining: max(0, int(float64(burst)-used+1e-6)), Reset: full}
	if !allowed {
		over := used + float64(n) - float64(max(burst, n))
		decision.RetryAfter = max(time.Millisecond, time.Duration(over*interval)*time.Microsecond)
	}
	return decision
}
