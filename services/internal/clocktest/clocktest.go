// Package clocktest gives tests a clock that stands still until they advance it.
//
// Use it where a test also does real I/O; a test of pure concurrency is better served by testing/synctest.
package clocktest

import (
	"context"
	"sync"
	"testing"
	"time"

	"pawl.internal/services/internal/clock"
)

// Start is the time at which every Fake begins.
//
//nolint:gochecknoglobals // a constant
var Start = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)

// patience bounds BlockUntil: a test that waits longer than this waits for something that will not come.
const patience = 10 * time.Second

// Fake is a clock.Clock under the control of a test. It is safe for concurrent use.
type Fake struct {
	mu      sync.Mutex
	now     time.Time
	pending map[*timer]struct{}
	changed chan struct{} // closed and replaced whenever pending grows
}

// New returns a Fake that shows Start.
func New() *Fake {
	return &Fake{now: Start, pending: map[*timer]struct{}{}, changed: make(chan struct{})}
}

// Now returns the fake's time.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// NewTimer returns a timer that fires when the fake has been advanced by d. One with d <= 0 fires at once.
func (f *Fake) NewTimer(d time.Duration) clock.Timer {
	t := &timer{clock: f, c: make(chan time.Time, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.arm(t, d)
	return t
}

// Sleep waits until the fake has been advanced by d, or until ctx ends.
func (f *Fake) Sleep(ctx context.Context, d time.Duration) error { return clock.Sleep(ctx, f, d) }

// Advance moves the time forward by d and fires the timers that are then due, each at its own time and in their order.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	target := f.now.Add(d)
	for t := f.next(target); t != nil; t = f.next(target) {
		f.now = t.due
		f.fire(t)
	}
	f.now = target
}

// BlockUntil waits until at least n timers or sleepers are waiting, so that the next Advance reaches them all.
func (f *Fake) BlockUntil(tb testing.TB, n int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	for {
		f.mu.Lock()
		waiting, changed := len(f.pending), f.changed
		f.mu.Unlock()
		if waiting >= n {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			tb.Fatalf("%d timers are waiting on the fake clock, not the %d expected", waiting, n)
		}
	}
}

// arm makes t due d from now. f.mu is held.
func (f *Fake) arm(t *timer, d time.Duration) {
	t.due = f.now.Add(d)
	if d <= 0 {
		f.fire(t)
		return
	}
	f.pending[t] = struct{}{}
	close(f.changed)
	f.changed = make(chan struct{})
}

// fire delivers the time on t's channel. f.mu is held, and the channel is empty since t was armed only once.
func (f *Fake) fire(t *timer) {
	delete(f.pending, t)
	t.c <- f.now
}

// next returns the pending timer that is due first, if it is due by then. f.mu is held.
func (f *Fake) next(by time.Time) *timer {
	var first *timer
	for t := range f.pending {
		if !t.due.After(by) && (first == nil || t.due.Before(first.due)) {
			first = t
		}
	}
	return first
}

type timer struct {
	clock *Fake
	c     chan time.Time
	due   time.Time // guarded by clock.mu
}

func (t *timer) C() <-chan time.Time { return t.c }

func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.disarm()
}

func (t *timer) Reset(d time.Duration) bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	was := t.disarm()
	t.clock.arm(t, d)
	return was
}

// disarm takes t out of the pending ones and drops a time that was delivered and not read. clock.mu is held.
func (t *timer) disarm() bool {
	_, was := t.clock.pending[t]
	delete(t.clock.pending, t)
	select {
	case <-t.c:
	default:
	}
	return was
}
