package step

import (
	"context"
	"sync"
	"time"

	"pawl.internal/services/internal/clock"
)

// Stopwatch bounds the working time of an attempt. It stands still while the attempt waits for something that is not its
// own work: a permit, or a part of the system that is away. It is safe for concurrent use.
type Stopwatch struct {
	clock clock.Clock
	timer clock.Timer

	mu     sync.Mutex
	left   time.Duration // guarded by mu; working time left when the current phase began
	since  time.Time     // guarded by mu; when the current phase, of working or of standing still, began
	paused bool          // guarded by mu
	waited time.Duration // guarded by mu; time that it stood still in earlier phases
	limit  string        // guarded by mu; the limit of whose permits one is awaited; empty if none is
	asked  time.Time     // guarded by mu; since when
}

// NewStopwatch returns a running stopwatch that ends after limit of working time.
func NewStopwatch(c clock.Clock, limit time.Duration) *Stopwatch {
	return &Stopwatch{clock: c, timer: c.NewTimer(limit), left: limit, since: c.Now()}
}

// Wait blocks until the working time is used up, and then returns true, or until ctx ends.
func (s *Stopwatch) Wait(ctx context.Context) bool {
	defer s.timer.Stop()
	select {
	case <-s.timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// Pause makes the stopwatch stand still.
func (s *Stopwatch) Pause() { s.pause("") }

// AwaitPermit makes the stopwatch stand still while a permit of the limit is awaited.
func (s *Stopwatch) AwaitPermit(limit string) { s.pause(limit) }

func (s *Stopwatch) pause(limit string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit != limit {
		s.limit, s.asked = limit, s.clock.Now()
	}
	if s.paused {
		return
	}
	s.timer.Stop()
	now := s.clock.Now()
	s.left -= now.Sub(s.since)
	s.since, s.paused = now, true
}

// Resume makes the stopwatch go on.
func (s *Stopwatch) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.paused {
		return
	}
	now := s.clock.Now()
	s.waited += now.Sub(s.since)
	s.since, s.paused, s.limit = now, false, ""
	s.timer.Reset(s.left)
}

// Waited returns how long the stopwatch has stood still in all.
func (s *Stopwatch) Waited() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused {
		return s.waited + s.clock.Now().Sub(s.since)
	}
	return s.waited
}

// Awaited returns the limit of whose permits one is awaited, and how long it has been; false if none is.
func (s *Stopwatch) Awaited() (limit string, waited time.Duration, awaits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit == "" {
		return "", 0, false
	}
	return s.limit, s.clock.Now().Sub(s.asked), true
}
