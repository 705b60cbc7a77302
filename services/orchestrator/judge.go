package orchestrator

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/clock"
)

// judge decides whether this replica may take steps from silent runners. A runner may be silent because PostgreSQL, or the
// replica itself, was away: so nobody is expired before the replica has been serving, and its own write of every second has
// succeeded, without interruption for a whole lease.
type judge struct {
	clock clock.Clock
	lease time.Duration
	show  func(context.Context, uuid.UUID) error
	self  uuid.UUID

	mu    sync.Mutex
	since time.Time // guarded by mu; of the unbroken row of successes; zero after a failure
	last  time.Time // guarded by mu; of the newest success
}

// beat shows PostgreSQL that the replica lives, and starts over when that fails or comes late.
func (j *judge) beat(ctx context.Context) {
	began := j.clock.Now()
	ctx, cancel := context.WithTimeout(ctx, sweepEvery)
	defer cancel()
	err := j.show(ctx, j.self)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.since = time.Time{}
		return
	}
	if j.since.IsZero() || began.Sub(j.last) > 3*sweepEvery {
		j.since = began
	}
	j.last = j.clock.Now()
}

// mayExpire reports whether leases that have run out may be acted on now.
func (j *judge) mayExpire() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.clock.Now()
	return !j.since.IsZero() && now.Sub(j.last) < 3*sweepEvery && now.Sub(j.since) >= j.lease
}
