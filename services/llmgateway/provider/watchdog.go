package provider

import (
	"bytes"
	"context"
	"sync"
	"time"

	"pawl.internal/services/internal/clock"
)

// phase is a part of an exchange that has a time limit of its own.
type phase string

const (
	phaseConnect   phase = "connect"
	phaseWrite     phase = "write"
	phaseFirstByte phase = "first byte"
	phaseIdle      phase = "idle"
	// phaseEnd: the answer is whole, and the server may still close the stream, so that the connection can serve again.
	phaseEnd phase = "end"
	// phaseTotal is all of the exchange.
	phaseTotal phase = "total"
)

// endTime is how long a server may take to close a stream that is over.
const endTime = time.Second

// phaseError says which limit passed.
type phaseError struct {
	phase phase
	limit time.Duration
}

func (e *phaseError) Error() string {
	return "no progress within the " + string(e.phase) + " timeout of " + e.limit.String()
}

// watchdog ends an exchange whose current phase takes too long. As a writer it sees the bytes of the answer.
type watchdog struct {
	clock    clock.Clock
	timeouts Timeouts
	timer    clock.Timer

	mu    sync.Mutex
	phase phase // guarded by mu
	// first is when the answer first said something.
	first time.Time // guarded by mu
}

// newWatchdog begins with the phase connect; its goroutine ends with ctx, which cancel ends.
func newWatchdog(ctx context.Context, c clock.Clock, timeouts Timeouts, cancel context.CancelCauseFunc) *watchdog {
	w := &watchdog{clock: c, timeouts: timeouts, timer: c.NewTimer(limitOrEver(timeouts.Connect)), phase: phaseConnect}
	go w.watch(ctx, c.NewTimer(limitOrEver(timeouts.Total)), cancel)
	return w
}

func (w *watchdog) watch(ctx context.Context, total clock.Timer, cancel context.CancelCauseFunc) {
	defer w.timer.Stop()
	defer total.Stop()
	select {
	case <-total.C():
		cancel(&phaseError{phase: phaseTotal, limit: w.timeouts.Total})
	case <-w.timer.C():
		w.mu.Lock()
		defer w.mu.Unlock()
		cancel(&phaseError{phase: w.phase, limit: w.limit(w.phase)})
	case <-ctx.Done():
	}
}

// enter begins a phase.
func (w *watchdog) enter(p phase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase = p
	if w.first.IsZero() && (p == phaseIdle || p == phaseEnd) {
		w.first = w.clock.Now()
	}
	w.timer.Reset(limitOrEver(w.limit(p)))
}

// firstByte is how long after the time the answer first said something; 0 if it has not.
func (w *watchdog) firstByte(began time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first.IsZero() {
		return 0
	}
	return w.first.Sub(began)
}

// Write notes progress of the answer.
func (w *watchdog) Write(p []byte) (int, error) {
	if len(bytes.TrimSpace(p)) > 0 {
		w.enter(phaseIdle)
	}
	return len(p), nil
}

func (w *watchdog) limit(p phase) time.Duration {
	switch p {
	case phaseConnect:
		return w.timeouts.Connect
	case phaseWrite:
		return w.timeouts.Write
	case phaseFirstByte:
		return w.timeouts.FirstByte
	case phaseIdle:
		return w.timeouts.Idle
	case phaseEnd:
		return endTime
	case phaseTotal:
		return w.timeouts.Total
	}
	return 0
}

// limitOrEver turns "no limit" into one that never passes.
func limitOrEver(limit time.Duration) time.Duration {
	const ever = 365 * 24 * time.Hour
	if limit <= 0 {
		return ever
	}
	return limit
}
