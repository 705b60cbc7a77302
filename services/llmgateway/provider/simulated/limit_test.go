package simulated_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// ofTokens returns a request whose prompt and bound of the answer make so many tokens.
func ofTokens(prompt, answer int) request {
	return ask("sim-small", strings.Repeat("word", prompt)).with("max_tokens", answer)
}

func TestConcurrencyIsEnforced(t *testing.T) {
	s := serve(t, simulated.Config{Limits: simulated.Limits{Concurrency: 2}}, clocktest.New())
	_, err := s.Inject(simulated.Fault{Kind: "hold", Contains: "slow"})
	require.NoError(t, err)
	var slow sync.WaitGroup
	for range 2 {
		slow.Go(func() { _, _ = s.post(t.Context(), ask("sim-small", "slow")) })
	}
	eventually(t, func() bool { return s.Report(0).AdmittedInFlight == 2 })
	r := s.mustPost(t, ask("sim-small", "third"))
	require.Equal(t, http.StatusTooManyRequests, r.status)
	require.Equal(t, "1", r.header.Get("Retry-After"))
	require.Contains(t, r.parse(t).Error.Message, "concurrent requests: Limit 2, Used 2, Requested 1")
	s.DeleteFaults()
	slow.Wait()
	require.Equal(t, http.StatusOK, s.mustPost(t, ask("sim-small", "third")).status)
	report := s.Report(0)
	require.Equal(t, 3, report.MaxInFlight, "the refused one is counted too")
	require.Equal(t, map[string]int{"answered": 3, "limited": 1}, report.Outcomes)
}

func TestRequestsPerMinuteAreEnforced(t *testing.T) {
	fake := clocktest.New()
	s := serve(t, simulated.Config{Limits: simulated.Limits{RequestsPerMinute: 2}}, fake)
	r := s.mustPost(t, ask("sim-small", "a"))
	require.Equal(t, "2", r.header.Get("X-Ratelimit-Limit-Requests"))
	require.Equal(t, "1", r.header.Get("X-Ratelimit-Remaining-Requests"))
	require.Equal(t, "1m0s", r.header.Get("X-Ratelimit-Reset-Requests"))
	require.Empty(t, r.header.Get("X-Ratelimit-Limit-Tokens"))
	fake.Advance(15 * time.Second)
	require.Equal(t, http.StatusOK, s.mustPost(t, ask("sim-small", "b")).status)
	r = s.mustPost(t, ask("sim-small", "c"))
	require.Equal(t, http.StatusTooManyRequests, r.status)
	require.Equal(t, "requests", r.parse(t).Error.Type)
	require.Equal(t, "45", r.header.Get("Retry-After"))
	fake.Advance(45*time.Second - 1)
	require.Equal(t, http.StatusTooManyRequests, s.mustPost(t, ask("sim-small", "c")).status)
	fake.Advance(1)
	require.Equal(t, []int{200, 429}, statuses(t, s, ask("sim-small", "c"), 2))
	s.SetLimits(simulated.Limits{})
	require.Equal(t, []int{200, 200}, statuses(t, s, ask("sim-small", "c"), 2))
}

// TestTokensPerMinuteAreEnforced sends 60 requests of 500 tokens against a limit of 10 000.
func TestTokensPerMinuteAreEnforced(t *testing.T) {
	fake := clocktest.New()
	s := serve(t, simulated.Config{Limits: simulated.Limits{TokensPerMinute: 10_000}}, fake)
	_, err := s.Inject(simulated.Fault{Kind: "hold"})
	require.NoError(t, err)
	var mu sync.Mutex
	got := map[int]int{}
	var all sync.WaitGroup
	for range 60 {
		all.Go(func() {
			r, err := s.post(t.Context(), ofTokens(300, 200))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				got[r.status]++
			}
		})
	}
	eventually(t, func() bool { return s.Report(0).Outcomes["limited"] == 40 })
	s.DeleteFaults()
	all.Wait()
	require.Equal(t, map[int]int{200: 20, 429: 40}, got)

	// The answers were shorter than their bound, so what was counted too much is free again.
	report := s.Report(100)
	used := 0
	for _, r := range report.Requests {
		used += r.PromptTokens + r.CompletionTokens
	}
	require.Less(t, used, 8_000)
	require.Equal(t, 10_000, report.PeakTokensPerMinute)
	r := s.mustPost(t, ofTokens(10_000-used-100, 100))
	require.Equal(t, http.StatusOK, r.status)
	r = s.mustPost(t, ofTokens(300, 200))
	require.Equal(t, http.StatusTooManyRequests, r.status)
	require.Equal(t, "tokens", r.parse(t).Error.Type)
	require.Equal(t, "60", r.header.Get("Retry-After"))
	r = s.mustPost(t, ofTokens(9_000, 2_000))
	require.Contains(t, r.parse(t).Error.Message, "Limit 10000, Requested 11000", "can never fit")
	require.Empty(t, r.header.Get("Retry-After"))
}

// TestNoMinuteExceedsTheLimit draws arrivals and checks every minute of what was let in, with its own arithmetic.
func TestNoMinuteExceedsTheLimit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(rt, "limit")
		fake := clocktest.New()
		p := simulated.New(simulated.Config{Limits: simulated.Limits{RequestsPerMinute: limit}}, fake)
		var admitted []time.Time
		for range 60 {
			fake.Advance(time.Duration(rapid.IntRange(0, 30_000).Draw(rt, "pause ms")) * time.Millisecond)
			w := httptest.NewRecorder()
			p.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions",
				strings.NewReader(`{"model":"sim-small","messages":[{"role":"user","content":"x"}]}`)))
			if w.Code == http.StatusOK {
				admitted = append(admitted, fake.Now())
			} else if len(admitted) < limit {
				rt.Fatalf("refused with only %d requests admitted so far", len(admitted))
			}
		}
		for i := limit; i < len(admitted); i++ {
			if within := admitted[i].Sub(admitted[i-limit]); within < time.Minute {
				rt.Fatalf("%d requests within %v", limit+1, within)
			}
		}
		require.LessOrEqual(rt, p.Report(0).PeakRequestsPerMinute, limit)
	})
}
