// Package clock is the only place of the system that reads the machine's time or waits for it.
//
// Code that waits takes a Clock, so that its tests advance a fake one (package clocktest) and never sleep. The times of
// record are PostgreSQL's; a Clock serves timers, intervals and ages within one process. Clocks are safe for concurrent use.
package clock

import (
	"context"
	"time"
)

// Clock tells the time and waits for it.
type Clock interface {
	// Now returns the current time with its monotonic reading, so that differences are not bent by clock steps.
	Now() time.Time
	// NewTimer returns a timer that fires once, d from now.
	NewTimer(d time.Duration) Timer
	// Sleep waits for d, or until ctx ends, and then returns ctx's error.
	Sleep(ctx context.Context, d time.Duration) error
}

// Timer is one pending wake-up. Stop and Reset never leave a stale value in C, as with time.Timer since Go 1.23.
type Timer interface {
	// C delivers the time at which the timer fired.
	C() <-chan time.Time
	// Stop prevents the timer from firing; it reports whether it was still pending.
	Stop() bool
	// Reset makes the timer fire d from now; it reports whether it was still pending.
	Reset(d time.Duration) bool
}

// System returns the machine's own clock.
func System() Clock { return system{} }

type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) NewTimer(d time.Duration) Timer { return timer{time.NewTimer(d)} }

func (s system) Sleep(ctx context.Context, d time.Duration) error {
	return Sleep(ctx, s, d)
}

type timer struct{ t *time.Timer }

func (t timer) C() <-chan time.Time        { return t.t.C }
func (t timer) Stop() bool                 { return t.t.Stop() }
func (t timer) Reset(d time.Duration) bool { return t.t.Reset(d) }

// Sleep waits on a timer of c; it is how every Clock implements its own Sleep.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	t := c.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Every calls fn now and then each time interval has passed since fn last returned, until ctx ends; it returns ctx's error.
func Every(ctx context.Context, c Clock, interval time.Duration, fn func(context.Context)) error {
	for {
		fn(ctx)
		if err := c.Sleep(ctx, interval); err != nil {
			return err
		}
	}
}
