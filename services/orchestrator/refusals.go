package orchestrator

import (
	"sync"
	"time"

	"pawl.internal/services/orchestrator/store"
)

const (
	// putOffFirst is the pause after the first refusal, which every further one doubles, up to putOffMost.
	putOffFirst, putOffMost = time.Second, 5 * time.Minute
	// refusalKept is how long after its pause a refusal is remembered: what is not owed any more is forgotten.
	refusalKept = 10 * time.Minute
)

// refusals remembers what the gateway has refused, and until when each is put off. A restart forgets them: then everything
// is told once more. It is safe for concurrent use, and its zero value is ready.
type refusals struct {
	mu     sync.Mutex
	byName map[store.Owed]postponement // guarded by mu
}

type postponement struct {
	until time.Time
	pause time.Duration
}

// add notes a refusal, and reports whether it is the first.
func (r *refusals) add(o store.Owed, now time.Time) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName == nil {
		r.byName = map[store.Owed]postponement{}
	}
	before, known := r.byName[o]
	pause := putOffFirst
	if known {
		pause = min(2*before.pause, putOffMost)
	}
	r.byName[o] = postponement{until: now.Add(pause), pause: pause}
	return !known
}

// putOff lists what is not to be told yet, and forgets what is long over.
func (r *refusals) putOff(now time.Time) (waiting []store.Owed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, each := range r.byName {
		switch {
		case each.until.After(now):
			waiting = append(waiting, name)
		case now.Sub(each.until) > refusalKept:
			delete(r.byName, name)
		}
	}
	return waiting
}

// pause returns how long it is until something is to be told again, at most so long.
func (r *refusals) pause(now time.Time, most time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, each := range r.byName {
		if left := each.until.Sub(now); left > 0 && left < most {
			most = left
		}
	}
	return most
}
