package clocktest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/clocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ clock.Clock = (*clocktest.Fake)(nil)

func TestTimersFireAtTheirOwnTimeInTheirOrder(t *testing.T) {
	t.Parallel()
	f := clocktest.New()
	late, soon, never := f.NewTimer(3*time.Second), f.NewTimer(time.Second), f.NewTimer(time.Minute)
	f.Advance(5 * time.Second)
	require.Equal(t, clocktest.Start.Add(time.Second), <-soon.C())
	require.Equal(t, clocktest.Start.Add(3*time.Second), <-late.C())
	require.Empty(t, never.C())
	require.Equal(t, clocktest.Start.Add(5*time.Second), f.Now())
	require.True(t, never.Stop())
	require.False(t, late.Stop())
}

func TestResetDropsATimeThatWasNotRead(t *testing.T) {
	t.Parallel()
	f := clocktest.New()
	timer := f.NewTimer(time.Second)
	f.Advance(time.Second)
	require.False(t, timer.Reset(time.Second))
	require.Empty(t, timer.C())
	f.Advance(time.Second)
	require.Equal(t, clocktest.Start.Add(2*time.Second), <-timer.C())
	require.Empty(t, f.NewTimer(time.Second).C())
	require.Len(t, f.NewTimer(0).C(), 1)
}

func TestBlockUntilSeesSleepers(t *testing.T) {
	t.Parallel()
	f := clocktest.New()
	woken := make(chan error, 2)
	for range 2 {
		go func() { woken <- f.Sleep(t.Context(), time.Hour) }()
	}
	f.BlockUntil(t, 2)
	f.Advance(time.Hour)
	require.NoError(t, <-woken)
	require.NoError(t, <-woken)
}

func TestSleepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	f := clocktest.New()
	ctx, cancel := context.WithCancel(t.Context())
	woken := make(chan error, 1)
	go func() { woken <- f.Sleep(ctx, time.Hour) }()
	f.BlockUntil(t, 1)
	cancel()
	require.ErrorIs(t, <-woken, context.Canceled)
}
