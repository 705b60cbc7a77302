package retry_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pawl.internal/services/internal/retry"
)

func never() float64  { return 0 }
func always() float64 { return math.Nextafter(1, 0) }

func TestBackoffGrowsByTheFactorUpToItsMax(t *testing.T) {
	t.Parallel()
	policy := retry.Policy{Initial: 5 * time.Second, Factor: 3, Max: time.Minute}
	for failures, want := range map[int]time.Duration{
		-1: 5 * time.Second, 0: 5 * time.Second, 1: 5 * time.Second, 2: 15 * time.Second, 3: 45 * time.Second,
		4: time.Minute, 1000: time.Minute, math.MaxInt: time.Minute,
	} {
		require.Equal(t, want, policy.Backoff(failures), "after %d failures", failures)
	}
}

func TestBackoffOfOddPolicies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy retry.Policy
		want   time.Duration
	}{
		"no policy":           {retry.Policy{}, 0},
		"nothing, endlessly":  {retry.Policy{Factor: math.Inf(1)}, 0},
		"a factor below one":  {retry.Policy{Initial: time.Second, Factor: 0.1}, time.Second},
		"a factor of no kind": {retry.Policy{Initial: time.Second, Factor: math.NaN()}, time.Second},
		"negative":            {retry.Policy{Initial: -time.Second, Factor: 2}, 0},
		"without a max":       {retry.Policy{Initial: time.Second, Factor: 10}, retry.Longest},
		"a max beyond all":    {retry.Policy{Initial: time.Second, Factor: 10, Max: math.MaxInt64}, retry.Longest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, c.policy.Backoff(40))
		})
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	policy := retry.Policy{Initial: 10 * time.Second, Factor: 2, Max: time.Minute, Jitter: 0.2}
	for name, c := range map[string]struct {
		failures   int
		retryAfter time.Duration
		random     func() float64
		want       time.Duration
	}{
		"no jitter drawn":                     {1, 0, never, 10 * time.Second},
		"full jitter drawn":                   {1, 0, always, 12 * time.Second},
		"jitter beyond the max":               {9, 0, always, 72 * time.Second},
		"the other side's wait is longer":     {1, time.Minute, never, time.Minute},
		"its wait gets up to a second on top": {1, time.Minute, always, 61 * time.Second},
		"the backoff is longer":               {3, 5 * time.Second, never, 40 * time.Second},
		"a wait in the past":                  {1, -time.Hour, never, 10 * time.Second},
		"a wait beyond all":                   {1, math.MaxInt64, always, retry.Longest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.InDelta(t, c.want, policy.Delay(c.failures, c.retryAfter, c.random), 2)
		})
	}
}

func TestUsedUp(t *testing.T) {
	t.Parallel()
	require.False(t, retry.Policy{MaxAttempts: 3}.UsedUp(2))
	require.True(t, retry.Policy{MaxAttempts: 3}.UsedUp(3))
	require.True(t, retry.Policy{}.UsedUp(1), "no policy means no retry")
}

func TestDelayKeepsItsBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policy := retry.Policy{
			Initial: time.Duration(rapid.Int64().Draw(t, "initial")),
			Factor:  rapid.Float64().Draw(t, "factor"),
			Max:     time.Duration(rapid.Int64().Draw(t, "max")),
			Jitter:  rapid.Float64Range(-1, 2).Draw(t, "jitter"),
		}
		failures := rapid.Int().Draw(t, "failures")
		retryAfter := time.Duration(rapid.Int64().Draw(t, "retry after"))
		draw := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "random")
		delay := policy.Delay(failures, retryAfter, func() float64 { return draw })

		require.GreaterOrEqual(t, delay, policy.Backoff(failures))
		require.GreaterOrEqual(t, delay, min(retryAfter, retry.Longest))
		require.LessOrEqual(t, delay, retry.Longest)
		longest := max(3*float64(policy.Backoff(failures)), float64(max(retryAfter, 0))+float64(time.Second))
		require.LessOrEqual(t, float64(delay), longest, "the wait is longer than asked for")
		require.GreaterOrEqual(t, policy.Backoff(max(failures, 1)), policy.Backoff(1), "backoff shrinks")
	})
}
