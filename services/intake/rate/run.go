package rate

import (
	"context"
	"time"
)

// Run keeps the count of replicas, and tries Redis while it is away, until ctx ends.
func (l *Limiter) Run(ctx context.Context) {
	for ctx.Err() == nil {
		l.look(ctx)
		l.rest(ctx)
	}
	l.leave(context.WithoutCancel(ctx))
}

// look says that this replica is there, which also tells whether Redis is.
func (l *Limiter) look(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, l.deps.Patience)
	defer cancel()
	replicas, err := l.announce.Run(bounded, l.deps.Redis, []string{l.replicasKey()}, l.deps.Replica).Int()
	switch {
	case ctx.Err() != nil:
	case err != nil:
		l.lose(ctx, err)
	default:
		l.find(ctx, replicas)
	}
}

func (l *Limiter) replicasKey() string { return l.deps.Prefix + ":submits" }

// rest waits for the next look, which comes soon when Redis was just lost.
func (l *Limiter) rest(ctx context.Context) {
	interval := announceEvery
	if l.isAway() {
		interval = probeEvery
	}
	timer := l.deps.Clock.NewTimer(interval)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-l.wake:
	case <-ctx.Done():
	}
}

// leave takes this replica off the list, so that the others have its share at once.
func (l *Limiter) leave(ctx context.Context) {
	if l.isAway() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = l.deps.Redis.ZRem(ctx, l.replicasKey(), l.deps.Replica).Err() // the others find out by themselves
}

func (l *Limiter) isAway() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.away
}

// lose notes that Redis does not answer, and begins to go by this replica's own buckets.
func (l *Limiter) lose(ctx context.Context, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return
	}
	l.away = true
	l.deps.Degraded(true)
	l.deps.Log.WarnContext(ctx, "Redis does not answer in time: submits are limited by each replica for itself",
		"replicas", l.replicas, "error", err)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// find notes that Redis answers.
func (l *Limiter) find(ctx context.Context, replicas int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replicas = max(1, replicas)
	if !l.away {
		return
	}
	l.away = false
	clear(l.local)
	l.deps.Degraded(false)
	l.deps.Log.InfoContext(ctx, "Redis answers again: submits are limited over all replicas")
}
