package rate_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/intake/rate"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const patience = 10 * time.Second

// replica is a limiter that runs.
type replica struct {
	*rate.Limiter
	degraded chan bool
}

func start(t *testing.T, client redis.UniversalClient, prefix, name string, c clock.Clock) replica {
	t.Helper()
	r := replica{degraded: make(chan bool, 16)}
	r.Limiter = rate.New(rate.Deps{
		Redis: client, Prefix: prefix, Replica: name, Patience: time.Second, Clock: c, Log: slog.New(slog.DiscardHandler),
		Degraded: func(yes bool) { r.degraded <- yes },
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return r
}

// awaitReplicas waits until Redis knows of so many.
func awaitReplicas(t *testing.T, client redis.UniversalClient, prefix string, count int64) {
	t.Helper()
	require.Eventually(t, func() bool { return client.ZCard(t.Context(), prefix+":submits").Val() == count }, patience, 5*time.Millisecond)
}

// TestReplicasShareARate: what one takes the other does not have, and what is refused takes nothing.
func TestReplicasShareARate(t *testing.T) {
	t.Parallel()
	keys := testkit.Redis(t)
	limit := rate.Limit{PerMinute: 1, Burst: 10}
	a, b := start(t, keys.Client, keys.Prefix, "a", clock.System()), start(t, keys.Client, keys.Prefix, "b", clock.System())
	allowed := 0
	for i := range 20 {
		taker := a
		if i%2 == 1 {
			taker = b
		}
		decision := taker.Take(t.Context(), "acme", limit, 1)
		if decision.Allowed {
			allowed++
			require.Equal(t, 10-allowed, decision.Remaining)
			continue
		}
		require.InDelta(t, time.Minute, decision.RetryAfter, float64(10*time.Second))
		require.InDelta(t, 10*time.Minute, decision.Reset, float64(10*time.Second))
	}
	require.Equal(t, 10, allowed)
	require.True(t, a.Take(t.Context(), "rival", limit, 1).Allowed, "another tenant has its own")
	require.True(t, a.Take(t.Context(), "acme", rate.Limit{PerMinute: 1, Burst: 11}, 1).Allowed, "another limit is another bucket")
}

// TestTheRateComesBack: at the pace that was set.
func TestTheRateComesBack(t *testing.T) {
	t.Parallel()
	keys := testkit.Redis(t)
	a := start(t, keys.Client, keys.Prefix, "a", clock.System())
	limit := rate.Limit{PerMinute: 6000, Burst: 1} // one every 10 ms
	began, allowed := time.Now(), 0
	for time.Since(began) < 300*time.Millisecond {
		if a.Take(t.Context(), "acme", limit, 1).Allowed {
			allowed++
		}
	}
	took := time.Since(began)
	require.LessOrEqual(t, allowed, int(took/(10*time.Millisecond))+2)
	require.GreaterOrEqual(t, allowed, 5)
}

// TestMoreThanABurstIsPaidOff: a large batch is taken from a full bucket, and what follows waits as long as its items.
func TestMoreThanABurstIsPaidOff(t *testing.T) {
	t.Parallel()
	keys := testkit.Redis(t)
	a := start(t, keys.Client, keys.Prefix, "a", clock.System())
	limit := rate.Limit{PerMinute: 60, Burst: 10}
	require.True(t, a.Take(t.Context(), "acme", limit, 100).Allowed)
	next := a.Take(t.Context(), "acme", limit, 1)
	require.False(t, next.Allowed)
	require.InDelta(t, 91*time.Second, next.RetryAfter, float64(5*time.Second))
	require.False(t, a.Take(t.Context(), "acme", limit, 100).Allowed, "not from one that is not full")
}

// TestEachReplicaGoesByItsShareWithoutRedis, and finds back.
func TestEachReplicaGoesByItsShareWithoutRedis(t *testing.T) {
	t.Parallel()
	server := testkit.PrivateRedis(t)
	keys := testkit.KeysAt(t, server.URL())
	limit := rate.Limit{PerMinute: 60, Burst: 10}
	clk := clocktest.New()
	a := start(t, keys.Client, keys.Prefix, "a", clk)
	b := start(t, keys.Client, keys.Prefix, "b", clk)
	awaitReplicas(t, keys.Client, keys.Prefix, 2)
	clk.BlockUntil(t, 2)
	clk.Advance(5 * time.Second) // both have counted both
	clk.BlockUntil(t, 2)
	require.NoError(t, keys.Client.FlushAll(t.Context()).Err())
	require.True(t, a.Take(t.Context(), "acme", limit, 1).Allowed)

	server.Kill()
	for _, each := range []replica{a, b} {
		allowed := 0
		for range 20 {
			if each.Take(t.Context(), "acme", limit, 1).Allowed {
				allowed++
			}
		}
		require.Equal(t, 5, allowed, "half of the burst")
		require.True(t, <-each.degraded)
	}
	require.InDelta(t, 2*time.Second, a.Take(t.Context(), "acme", limit, 1).RetryAfter, float64(100*time.Millisecond), "half of the rate")

	require.NoError(t, server.Start(context.WithoutCancel(t.Context())))
	for _, each := range []replica{a, b} {
		require.Eventually(t, func() bool {
			clk.Advance(250 * time.Millisecond)
			select {
			case degraded := <-each.degraded:
				return !degraded
			default:
				return false
			}
		}, patience, 20*time.Millisecond)
	}
	require.True(t, a.Take(t.Context(), "acme", limit, 1).Allowed)
}

// TestARedisThatHangsHoldsUpOneSubmit: those after it do not wait.
func TestARedisThatHangsHoldsUpOneSubmit(t *testing.T) {
	t.Parallel()
	server := testkit.PrivateRedis(t)
	keys := testkit.KeysAt(t, server.URL())
	clk := clocktest.New()
	a := start(t, keys.Client, keys.Prefix, "a", clk)
	awaitReplicas(t, keys.Client, keys.Prefix, 1)
	clk.BlockUntil(t, 1)
	server.Pause()
	defer server.Resume()
	limit := rate.Limit{PerMinute: 60, Burst: 1000}
	require.True(t, a.Take(t.Context(), "acme", limit, 1).Allowed)
	require.True(t, <-a.degraded)
	began := time.Now()
	for range 100 {
		require.True(t, a.Take(t.Context(), "acme", limit, 1).Allowed)
	}
	require.Less(t, time.Since(began), 100*time.Millisecond)
}
