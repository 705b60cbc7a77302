package orchestrator

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/clock"
)

// runnersKept is how many leases are remembered before those that have run out are forgotten.
const runnersKept = 1024

// runners remembers which leases this replica has confirmed, so that most claims need not ask the database. Leases that
// another replica has confirmed are not known here.
type runners struct {
	clock clock.Clock

	mu    sync.Mutex
	until map[uuid.UUID]time.Time // guarded by mu; by this process's clock, from before the database's began
}

func newRunners(c clock.Clock) *runners { return &runners{clock: c, until: map[uuid.UUID]time.Time{}} }

func (r *runners) confirm(runner uuid.UUID, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until[runner] = until
	if len(r.until) > runnersKept {
		r.sweep()
	}
}

func (r *runners) alive(runner uuid.UUID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, known := r.until[runner]
	return known && r.clock.Now().Before(until)
}

func (r *runners) forget(runner uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.until, runner)
}

// sweep forgets leases that have run out. r.mu is held.
func (r *runners) sweep() {
	now := r.clock.Now()
	for runner, until := range r.until {
		if !now.Before(until) {
			delete(r.until, runner)
		}
	}
}
