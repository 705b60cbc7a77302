package clock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clock"
)

func TestSystemSleepsUntilTimeOrContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.NoError(t, clock.System().Sleep(t.Context(), time.Hour))
		require.Equal(t, time.Hour, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, clock.System().Sleep(ctx, time.Hour), context.DeadlineExceeded)
		require.Equal(t, time.Hour+time.Minute, time.Since(began))
	})
}

func TestSleepOfNothingStillSeesAnEndedContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, clock.System().Sleep(ctx, 0))
	cancel()
	require.ErrorIs(t, clock.System().Sleep(ctx, 0), context.Canceled)
}

func TestTimerIsReusable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		timer := clock.System().NewTimer(time.Second)
		<-timer.C()
		require.False(t, timer.Stop())
		require.False(t, timer.Reset(time.Minute))
		require.True(t, timer.Reset(time.Second))
		began := time.Now()
		<-timer.C()
		require.Equal(t, time.Second, time.Since(began))
	})
}

func TestEveryWaitsBetweenTheCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		var at []time.Duration
		err := clock.Every(ctx, clock.System(), 3*time.Second, func(context.Context) {
			at = append(at, time.Since(began))
			require.NoError(t, clock.System().Sleep(t.Context(), time.Second))
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, []time.Duration{0, 4 * time.Second, 8 * time.Second}, at)
	})
}

func TestOffsetIsWrongAboutTheTimeAndRightAboutItsPassing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		behind := clock.Offset(clock.System(), -time.Hour)
		began := behind.Now()
		require.Equal(t, time.Hour, time.Since(began))
		require.NoError(t, behind.Sleep(t.Context(), time.Minute))
		require.Equal(t, time.Minute, behind.Now().Sub(began))
		<-behind.NewTimer(time.Minute).C()
		require.Equal(t, 2*time.Minute, behind.Now().Sub(began))
	})
}
