// Package repeat says when a call that failed is repeated as it is, and how soon: because another process or a store is
// away, not because the call was wrong. Repeating such a call is not a new attempt of a step.
package repeat

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/retry"
)

// Pace spaces the repeats of one call, or of one loop: the first comes at once, the later ones after growing pauses of at
// most a second, so that work resumes soon after the other side's return. It belongs to one goroutine.
type Pace struct {
	clock    clock.Clock
	failures int
}

// NewPace returns a Pace without failures.
func NewPace(c clock.Clock) *Pace { return &Pace{clock: c} }

// Wait pauses before the next try. Its error is that ctx has ended.
func (p *Pace) Wait(ctx context.Context) error {
	policy := retry.Policy{Initial: 50 * time.Millisecond, Factor: 2, Max: time.Second}
	var pause time.Duration
	if p.failures > 0 {
		pause = policy.Backoff(p.failures)
	}
	p.failures++
	if err := p.clock.Sleep(ctx, pause); err != nil {
		return err
	}
	return ctx.Err()
}

// Reset is called after a success.
func (p *Pace) Reset() { p.failures = 0 }

// Passing reports whether err may pass by itself: whoever should have answered is away, or did not answer in time.
func Passing(err error) bool {
	switch fault.CodeOf(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.Canceled:
		return true
	default:
		return false
	}
}
