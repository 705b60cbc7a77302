package step_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/steprunner/step"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ended tells whether the stopwatch's time is used up.
func ended(t *testing.T, s *step.Stopwatch) <-chan bool {
	t.Helper()
	done := make(chan bool, 1)
	go func() { done <- s.Wait(t.Context()) }()
	return done
}

func TestStopwatchCountsWorkingTimeOnly(t *testing.T) {
	t.Parallel()
	clock := clocktest.New()
	s := step.NewStopwatch(clock, 10*time.Second)
	done := ended(t, s)
	clock.Advance(4 * time.Second)
	s.Pause()
	s.Pause() // twice is once
	clock.Advance(time.Hour)
	require.Equal(t, time.Hour, s.Waited())
	s.Resume()
	s.Resume()
	clock.Advance(3 * time.Second)
	s.Pause()
	clock.Advance(time.Minute)
	s.Resume()
	require.Equal(t, time.Hour+time.Minute, s.Waited())
	clock.Advance(3*time.Second - 1)
	require.Empty(t, done)
	clock.Advance(1)
	require.True(t, <-done)
}

// What is awaited is told as long as it is.
func TestStopwatchTellsOfThePermitThatIsAwaited(t *testing.T) {
	t.Parallel()
	clock := clocktest.New()
	s := step.NewStopwatch(clock, 10*time.Second)
	s.Pause()
	clock.Advance(time.Minute)
	_, _, awaits := s.Awaited()
	require.False(t, awaits, "it waits for something else")
	s.AwaitPermit("main")
	clock.Advance(time.Second)
	s.AwaitPermit("main") // twice is once
	clock.Advance(time.Second)
	limit, waited, awaits := s.Awaited()
	require.True(t, awaits)
	require.Equal(t, "main", limit)
	require.Equal(t, 2*time.Second, waited)
	require.Equal(t, time.Minute+2*time.Second, s.Waited())
	s.Pause()
	_, _, awaits = s.Awaited()
	require.False(t, awaits, "the gateway went away")
	s.AwaitPermit("main")
	s.Resume()
	_, _, awaits = s.Awaited()
	require.False(t, awaits, "it was granted")
}

func TestStopwatchThatIsUsedUpWhenPausedEndsWhenResumed(t *testing.T) {
	t.Parallel()
	clock := clocktest.New()
	s := step.NewStopwatch(clock, time.Second)
	clock.Advance(2 * time.Second) // fired, and nobody has looked yet
	s.Pause()
	done := ended(t, s)
	clock.Advance(time.Second)
	require.Empty(t, done)
	s.Resume()
	require.True(t, <-done)
}

func TestStopwatchEndsWithItsAttempt(t *testing.T) {
	t.Parallel()
	clock := clocktest.New()
	s := step.NewStopwatch(clock, time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, s.Wait(ctx))
}
