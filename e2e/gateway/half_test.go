package gateway

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	systemv1 "pawl.internal/gen/pawl/system/v1"
)

// half is a provider that allows half of what it was said to allow.
type half struct {
	limit, truth int
	// attempts is requests sent for each answer; ceiling what the gateways found the limit to be.
	attempts float64
	ceiling  int
}

// measure asks until enough is known. The askers repeat what the provider refuses, after a pause.
func (h *half) measure(t *testing.T, limits string, flags []string, pause func(*systemv1.CallFailure, int) time.Duration, n int) {
	t.Helper()
	provider := harness.StartProvider(t, flags...)
	gateways := harness.StartGateways(t, harness.GatewaysConfig{Replicas: 2, Models: models(provider, limits)})
	l := &load{gateways: gateways, askers: 3 * h.truth, pause: pause}
	require.NoError(t, l.ask(t.Context(), repeated(harness.Question{}, n)))
	require.Empty(t, l.failed, "nothing may fail")
	report := provider.Report()
	h.attempts = float64(report.Received) / float64(len(l.answers))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	groups, err := gateways.All[0].Client.GetLimits(ctx, &systemv1.GetLimitsRequest{})
	require.NoError(t, err)
	require.Len(t, groups.GetGroups(), 1)
	h.ceiling = int(groups.GetGroups()[0].GetCeiling())
	t.Logf("limit %d, true limit %d: ceiling %d, %.3f requests an answer, %v", h.limit, h.truth, h.ceiling, h.attempts, report.Outcomes)
}

// TestI11_HalfTheLimitIsFound: a provider enforces half of what is configured. The ceiling settles near the truth, few
// requests are wasted, and none fails. The same without it, with a fixed backoff only, is measured beside it.
func TestI11_HalfTheLimitIsFound(t *testing.T) {
	t.Parallel()
	flags := []string{"--concurrency", "32", "--latency", "100ms"}
	adaptive := half{limit: 64, truth: 32}
	adaptive.measure(t, "concurrency: 64", flags, backoff, 4000)
	require.InDelta(t, adaptive.truth, adaptive.ceiling, 0.15*float64(adaptive.truth))
	require.Less(t, adaptive.attempts, 1.3)

	fixed := half{limit: 64, truth: 32}
	fixed.measure(t, "concurrency: 64, adaptive: false", flags, func(*systemv1.CallFailure, int) time.Duration { return time.Second }, 1500)
	require.Greater(t, fixed.attempts, adaptive.attempts)
}
