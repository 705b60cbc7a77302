package orchestrator

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/clock"
)

const (
	// mostBeat bounds the time between two writes by which a replica shows that it lives: an eighth of a lease.
	mostBeat = time.Second
	// mostBeatPatience bounds how long the next write may take to come without breaking the row: half a lease. A runner renews
	// its lease when a quarter of it has passed, so whatever is long enough to cost runners theirs breaks the row.
	mostBeatPatience = 3 * time.Second
)

var errNoBeat = errors.New("nothing was written to PostgreSQL yet")

// judge decides whether this replica may take steps from silent runners. A runner may be silent because PostgreSQL, or the
// replica itself, was away: so nobody is expired before the replica has been serving, and its own regular writes have
// succeeded, without interruption for a whole lease. It knows PostgreSQL's clock only, by which leases run: a jump of that
// clock interrupts the row too, as a pause of this process does.
type judge struct {
	clock clock.Clock
	lease time.Duration
	show  func(context.Context, uuid.UUID) (time.Time, error)
	self  uuid.UUID

	mu          sync.Mutex
	since, last time.Time // guarded by mu; the first and the newest of the unbroken row of writes; zero after a failure
	err         error     // guarded by mu; of the newest write
}

// run writes until ctx ends.
func (j *judge) run(ctx context.Context) error {
	return clock.Every(ctx, j.clock, j.interval(), j.beat)
}

// interval is the time between two writes.
func (j *judge) interval() time.Duration { return min(mostBeat, j.lease/8) }

// patience is how long the next write may take to come without breaking the row.
func (j *judge) patience() time.Duration { return min(mostBeatPatience, j.lease/2) }

// beat shows PostgreSQL that the replica lives, and begins a new row when that fails or comes late.
func (j *judge) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, min(mostBeat, j.patience()))
	defer cancel()
	at, err := j.show(ctx, j.self)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.since, j.last, j.err = time.Time{}, time.Time{}, err
		return
	}
	if j.last.IsZero() || j.gap(at) {
		j.since = at
	}
	j.last, j.err = at, nil
}

// gap reports whether the row of writes does not reach to then. j.mu is held.
func (j *judge) gap(then time.Time) bool {
	return then.Sub(j.last).Abs() > j.patience()
}

// mayExpire reports whether leases that had run out at a time of PostgreSQL's may be acted on.
func (j *judge) mayExpire(then time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.last.IsZero() && !j.gap(then) && then.Sub(j.since) >= j.lease
}

// ready returns why the replica cannot write; nil if it can.
func (j *judge) ready() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.last.IsZero() && j.err == nil {
		return errNoBeat
	}
	return j.err
}
