package steprunner

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/retry"
)

// backoff paces the repeats of what fails because another process or a store is away: the first repeat comes at once, the
// later ones after growing pauses, so that work resumes within a second or two of the other side's return.
type backoff struct {
	clock    clock.Clock
	failures int
}

// wait pauses before the next try; its error is that ctx ended.
func (b *backoff) wait(ctx context.Context) error {
	policy := retry.Policy{Initial: 50 * time.Millisecond, Factor: 2, Max: time.Second}
	var pause time.Duration
	if b.failures > 0 {
		pause = policy.Backoff(b.failures)
	}
	b.failures++
	if err := b.clock.Sleep(ctx, pause); err != nil {
		return err
	}
	return ctx.Err()
}

// reset is called after a success.
func (b *backoff) reset() { b.failures = 0 }

// isPassing reports whether the same call may succeed later, so that it is to be repeated as it is.
func isPassing(err error) bool {
	switch fault.CodeOf(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.Canceled:
		return true
	default:
		return false
	}
}
