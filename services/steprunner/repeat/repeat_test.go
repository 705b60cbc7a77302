package repeat_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/steprunner/repeat"
)

func TestPace(t *testing.T) {
	t.Parallel()
	clock := clocktest.New()
	pace := repeat.NewPace(clock)
	require.NoError(t, pace.Wait(t.Context()), "the first repeat comes at once")
	waits := func(d time.Duration) {
		t.Helper()
		waited := make(chan error, 1)
		go func() { waited <- pace.Wait(t.Context()) }()
		clock.BlockUntil(t, 1)
		clock.Advance(d - 1)
		require.Empty(t, waited)
		clock.Advance(1)
		require.NoError(t, <-waited)
	}
	for _, ms := range []int{50, 100, 200, 400, 800, 1000, 1000} {
		waits(time.Duration(ms) * time.Millisecond)
	}
	pace.Reset()
	require.NoError(t, pace.Wait(t.Context()))
	waits(50 * time.Millisecond)

	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, pace.Wait(ended), context.Canceled)
	require.ErrorIs(t, repeat.NewPace(clock).Wait(ended), context.Canceled, "also when there is nothing to wait for")
}

func TestPassing(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		fault.Unavailable(nil, "away"): true,
		context.DeadlineExceeded:       true,
		context.Canceled:               true,
		fault.New(faultv1.ErrorReason_ERROR_REASON_CONFLICT, "again"):       true,
		fault.New(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, "bad"): false,
		fault.New(faultv1.ErrorReason_ERROR_REASON_RATE_LIMITED, "big"):     false,
		errors.New("broken"): false,
	} {
		require.Equal(t, want, repeat.Passing(err), err)
	}
}
