package gateway

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
)

// TestI11_TokensAMinuteNeverExceedTheLimit: sixty calls of 500 tokens at once, on three replicas that share 10 000 tokens a
// minute. What cannot be had before the deadline is refused.
func TestI11_TokensAMinuteNeverExceedTheLimit(t *testing.T) {
	t.Parallel()
	const tokens, each = 10_000, 500
	provider := harness.StartProvider(t, "--latency", "20ms")
	gateways := harness.StartGateways(t, harness.GatewaysConfig{
		Replicas: 3, Models: models(provider, "concurrency: 64, tokens_per_minute: 10000"),
	})
	question := harness.Question{Text: strings.Repeat("word", each), MaxOutputTokens: 100, Deadline: 75 * time.Second}
	l := &load{gateways: gateways, askers: 60}
	require.NoError(t, l.ask(t.Context(), repeated(question, 60)))
	report := provider.Report()
	require.GreaterOrEqual(t, report.Requests[0].PromptTokens, each)
	most := busiest(report.Requests, time.Minute)
	require.LessOrEqual(t, most, tokens/each)
	require.GreaterOrEqual(t, most, 15, "the limit is not used")
	require.LessOrEqual(t, report.PeakTokensPerMinute, tokens+200, "the provider counts max_tokens until a request is answered")
	require.Len(t, l.answers, len(report.Requests))
	require.Len(t, l.failed, 60-len(l.answers))
}

func TestI11_RequestsAMinuteNeverExceedTheLimit(t *testing.T) {
	t.Parallel()
	const limit = 240
	provider := harness.StartProvider(t, "--latency", "5ms")
	gateways := harness.StartGateways(t, harness.GatewaysConfig{
		Replicas: 2, Models: models(provider, "concurrency: 64, requests_per_minute: 240"),
	})
	l := &load{gateways: gateways, askers: 100}
	require.NoError(t, l.ask(t.Context(), repeated(harness.Question{Deadline: 70 * time.Second}, 400)))
	requests := provider.Report().Requests
	most := busiest(requests, time.Minute)
	require.LessOrEqual(t, most, limit)
	require.GreaterOrEqual(t, most, limit*8/10, "the limit is not used")
}
