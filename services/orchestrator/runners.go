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
	known map[uuid.UUID]*lease // guarded by mu
}

// lease is what is remembered of a runner.
type lease struct {
	until time.Time // by this process's clock, from before the database's began
	// unlisted is the bound of the search for steps that the runner does not list.
	unlisted bound
}

func newRunners(c clock.Clock) *runners { return &runners{clock: c, known: map[uuid.UUID]*lease{}} }

// confirm notes a lease, and returns since when to search for steps that the runner does not list.
func (r *runners) confirm(runner uuid.UUID, until time.Time) (claimedFrom time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.known[runner]
	if l == nil {
		l = &lease{}
		r.known[runner] = l
	}
	l.until = until
	if len(r.known) > runnersKept {
		r.sweep()
	}
	return l.unlisted.start(r.clock.Now())
}

// searched notes that all steps are dealt with that the runner had claimed until then and does not list.
func (r *runners) searched(runner uuid.UUID, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.known[runner]; l != nil {
		l.unlisted.pass(until)
	}
}

func (r *runners) alive(runner uuid.UUID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.known[runner]
	return l != nil && r.clock.Now().Before(l.until)
}

func (r *runners) forget(runner uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, runner)
}

// sweep forgets leases that have run out. r.mu is held.
func (r *runners) sweep() {
	now := r.clock.Now()
	for runner, l := range r.known {
		if !now.Before(l.until) {
			delete(r.known, runner)
		}
	}
}
