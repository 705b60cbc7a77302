package failure_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pawl.internal/services/llmgateway/failure"
)

func TestHeadroom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		header http.Header
		want   []failure.Room
	}{
		{"nothing said", header("Content-Type: application/json"), []failure.Room{}},
		{"OpenAI", header(
			"X-Ratelimit-Limit-Requests: 500", "X-Ratelimit-Remaining-Requests: 499", "X-Ratelimit-Reset-Requests: 120ms",
			"X-Ratelimit-Limit-Tokens: 200000", "X-Ratelimit-Remaining-Tokens: 149984", "X-Ratelimit-Reset-Tokens: 6m0s",
		), []failure.Room{
			{failure.Requests, 500, 499, 120 * time.Millisecond}, {failure.Tokens, 200000, 149984, 6 * time.Minute},
		}},
		{"the tighter of two limits on the same", header(
			"X-Ratelimit-Limit-Tokens: 200000", "X-Ratelimit-Remaining-Tokens: 9000", "X-Ratelimit-Reset-Tokens: 1h2m3s",
			"X-Ratelimit-Limit-Tokens_usage_based: 50000", "X-Ratelimit-Remaining-Tokens_usage_based: 70", "X-Ratelimit-Reset-Tokens_usage_based: 1s",
		), []failure.Room{{failure.Tokens, 50000, 70, time.Second}}},
		{"Azure, plain seconds", header(
			"X-Ratelimit-Limit-Requests: 60", "X-Ratelimit-Remaining-Requests: 0", "X-Ratelimit-Reset-Requests: 7",
		), []failure.Room{{failure.Requests, 60, 0, 7 * time.Second}}},
		{"Azure does not know", header(
			"X-Ratelimit-Limit-Requests: -1", "X-Ratelimit-Remaining-Requests: -1", "X-Ratelimit-Reset-Requests: 0",
			"X-Ratelimit-Limit-Tokens: 0", "X-Ratelimit-Remaining-Tokens: 0", "X-Ratelimit-Reset-Tokens: 0",
		), []failure.Room{}},
		{"Azure knows what is left", header("X-Ratelimit-Remaining-Tokens: 17"), []failure.Room{{failure.Tokens, 0, 17, 0}}},
		{"Anthropic", header(
			"Anthropic-Ratelimit-Requests-Limit: 50", "Anthropic-Ratelimit-Requests-Remaining: 49", "Anthropic-Ratelimit-Requests-Reset: 2026-11-30T12:00:01Z",
			"Anthropic-Ratelimit-Tokens-Limit: 60000", "Anthropic-Ratelimit-Tokens-Remaining: 58000", "Anthropic-Ratelimit-Tokens-Reset: 2026-11-30T12:00:02.5Z",
			"Anthropic-Ratelimit-Input-Tokens-Limit: 50000", "Anthropic-Ratelimit-Input-Tokens-Remaining: 49000", "Anthropic-Ratelimit-Input-Tokens-Reset: 2026-11-30T11:59:59Z",
			"Anthropic-Ratelimit-Output-Tokens-Limit: 10000", "Anthropic-Ratelimit-Output-Tokens-Remaining: 9000", "Anthropic-Ratelimit-Output-Tokens-Reset: 2026-11-30T15:00:04+03:00",
		), []failure.Room{
			{failure.InputTokens, 50000, 49000, 0},
			{failure.OutputTokens, 10000, 9000, 4 * time.Second},
			{failure.Requests, 50, 49, time.Second},
			{failure.Tokens, 60000, 58000, 2500 * time.Millisecond},
		}},
		{"Mistral", header(
			"X-Ratelimitbysize-Limit-Minute: 500000", "X-Ratelimitbysize-Remaining-Minute: 499000", "Ratelimitbysize-Reset: 13",
		), []failure.Room{{failure.Tokens, 500000, 499000, 13 * time.Second}}},
		{"OpenRouter", header("X-Ratelimit-Limit: 20", "X-Ratelimit-Remaining: 3", "X-Ratelimit-Reset: 1796040060000"), []failure.Room{
			{failure.Requests, 20, 3, time.Minute},
		}},
		{"nonsense", header("X-Ratelimit-Remaining-Requests: NaN", "X-Ratelimit-Remaining-Tokens: many", "X-Ratelimit-Remaining: 1e300"), []failure.Room{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, failure.Headroom(c.header, now))
		})
	}
}

func TestHeadroomIsNeverNegativeAndNeverPanics(t *testing.T) {
	t.Parallel()
	names := []string{"Limit", "Remaining", "Reset"}
	of := []string{"-Requests", "-Tokens", "-Tokens_usage_based", "-Requests_usage_based", ""}
	value := rapid.OneOf(
		rapid.String(), rapid.SampledFrom([]string{"-1", "0", "NaN", "-Inf", "1e19", "6m0s", "-3s", "2020-01-01T00:00:00Z", "99999999999999"}),
		rapid.Custom(func(t *rapid.T) string { return time.Duration(rapid.Int64().Draw(t, "d")).String() }),
	)
	rapid.Check(t, func(t *rapid.T) {
		h := http.Header{}
		for _, name := range names {
			for _, dimension := range of {
				h.Set("X-Ratelimit-"+name+dimension, value.Draw(t, "value"))
			}
			h.Set("Anthropic-Ratelimit-Input-Tokens-"+name, value.Draw(t, "value"))
		}
		rooms := failure.Headroom(h, now)
		seen := map[failure.Dimension]bool{}
		for _, r := range rooms {
			seen[r.Of] = true
			if r.Limit < 0 || r.Remaining < 0 || r.Reset < 0 {
				t.Fatalf("negative: %+v", r)
			}
		}
		if len(seen) != len(rooms) {
			t.Fatalf("a dimension twice: %+v", rooms)
		}
	})
}
