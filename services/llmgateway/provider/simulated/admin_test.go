package simulated_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// admin calls the admin API and returns the status and the body.
func (s *server) admin(t *testing.T, method, path, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+"/admin/"+path, strings.NewReader(body))
	require.NoError(t, err)
	r, err := s.do(req)
	require.NoError(t, err)
	return r.status, strings.TrimSpace(r.body)
}

func TestAdminFaults(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	status, answer := s.admin(t, "POST", "faults", `{"kind":"429","argument":"2s","count":2}`)
	require.Equal(t, http.StatusCreated, status)
	require.JSONEq(t, `{"id":"1"}`, answer)
	require.Equal(t, []int{429}, statuses(t, s, ask("sim-small", "hi"), 1))
	_, answer = s.admin(t, "GET", "faults", "")
	require.JSONEq(t, `{"faults":[{"id":"1","kind":"429","argument":"2s","count":2,"left":1}]}`, answer)
	status, _ = s.admin(t, "DELETE", "faults/1", "")
	require.Equal(t, http.StatusNoContent, status)
	require.Equal(t, []int{200}, statuses(t, s, ask("sim-small", "hi"), 1))
	status, answer = s.admin(t, "DELETE", "faults/1", "")
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, answer, "there is no fault")
	_, _ = s.admin(t, "POST", "faults", `{"kind":"503"}`)
	status, _ = s.admin(t, "DELETE", "faults", "")
	require.Equal(t, http.StatusNoContent, status)
	require.Empty(t, s.Faults())
}

func TestAdminIsStrict(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	for _, c := range []struct{ method, path, body, message string }{
		{"POST", "faults", `{"kind":"429","retry":1}`, "unknown field"},
		{"POST", "faults", `{"kind":"429"} {}`, "one JSON object"},
		{"POST", "faults", `{"kind":"nonsense"}`, "there is no fault"},
		{"PUT", "limits", `{"concurrency":-1}`, "must not be negative"},
		{"PUT", "limits", `[]`, "not what this takes"},
		{"GET", "requests?last=all", "", `last is \"all\"`},
	} {
		status, answer := s.admin(t, c.method, c.path, c.body)
		require.Equal(t, http.StatusBadRequest, status, answer)
		require.Contains(t, answer, c.message)
	}
}

func TestAdminLimits(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	_, answer := s.admin(t, "PUT", "limits", `{"requests_per_minute":1}`)
	want := `{"concurrency":0,"requests_per_minute":1,"tokens_per_minute":0}`
	require.JSONEq(t, want, answer)
	_, answer = s.admin(t, "GET", "limits", "")
	require.JSONEq(t, want, answer)
	require.Equal(t, []int{200, 429}, statuses(t, s, ask("sim-small", "hi"), 2))
}

func TestAdminRequests(t *testing.T) {
	fake := clocktest.New()
	s := serve(t, simulated.Config{}, fake)
	s.mustPost(t, ask("sim-small", "a"), "X-Pawl-Call-Key", "key-1", "X-Client-Request-Id", "id-1")
	s.mustPost(t, ask("sim-small", "a"), "X-Client-Request-Id", "id-2")
	s.mustPost(t, ask("sim-large?500", "b").with("stream", true), "X-Pawl-Call-Key", "key-1")
	_, answer := s.admin(t, "GET", "requests?last=2", "")
	var report simulated.Report
	require.NoError(t, json.Unmarshal([]byte(answer), &report))
	require.Equal(t, 3, report.Received)
	require.Equal(t, 0, report.InFlight)
	require.Equal(t, 1, report.MaxInFlight)
	require.Equal(t, 3, report.PeakRequestsPerMinute)
	require.Positive(t, report.PeakTokensPerMinute)
	require.Equal(t, map[string]int{"answered": 2, "fault:500": 1}, report.Outcomes)
	require.Equal(t, map[string]int{"key-1": 2, "id-2": 1}, report.ByCallKey)
	require.ElementsMatch(t, []int{2, 1}, values(report.ByFingerprint))
	require.Len(t, report.Requests, 2)
	require.Equal(t, "answered", report.Requests[0].Outcome)
	require.Equal(t, 1, report.Requests[0].PromptTokens)
	last := report.Requests[1]
	require.Equal(t, simulated.Record{
		Number: 3, ReceivedAt: fake.Now().UTC(), CallKey: "key-1", Fingerprint: last.Fingerprint, Model: "sim-large?500", Streamed: true,
		Outcome: "fault:500", Status: 500, Format: "openai", Admitted: true,
	}, last)
	status, _ := s.admin(t, "DELETE", "requests", "")
	require.Equal(t, http.StatusNoContent, status)
	empty := s.Report(10)
	require.Zero(t, empty.Received)
	require.Empty(t, empty.ByCallKey)
	require.Empty(t, empty.Requests)
}

func values(m map[string]int) []int {
	var all []int
	for _, n := range m {
		all = append(all, n)
	}
	return all
}

func TestMemoryIsBounded(t *testing.T) {
	s := serve(t, simulated.Config{Remember: 5}, clocktest.New())
	for i := range 12 {
		s.mustPost(t, ask("sim-small", fmt.Sprint(i)), "X-Pawl-Call-Key", fmt.Sprintf("key-%d", i%7))
	}
	report := s.Report(100)
	require.Equal(t, 12, report.Received, "counts go on")
	require.Len(t, report.Requests, 5)
	require.Len(t, report.ByFingerprint, 5)
	require.Equal(t, map[string]int{"key-0": 1, "key-1": 1, "key-2": 1, "key-3": 1, "key-4": 1}, report.ByCallKey)
	require.Equal(t, []int{8, 9, 10, 11, 12}, []int{
		report.Requests[0].Number, report.Requests[1].Number, report.Requests[2].Number, report.Requests[3].Number, report.Requests[4].Number,
	})
}

// TestForgetKeepsWhatIsInFlight forgets while a request is held.
func TestForgetKeepsWhatIsInFlight(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	_, err := s.Inject(simulated.Fault{Kind: "hold"})
	require.NoError(t, err)
	done := make(chan reply, 1)
	go func() {
		r, _ := s.post(t.Context(), ask("sim-small", "x"), "X-Pawl-Call-Key", "held")
		done <- r
	}()
	eventually(t, func() bool { return len(s.Report(0).ByFingerprint) == 1 })
	s.Forget()
	require.Equal(t, map[string]int{"held": 1}, s.Report(0).ByCallKey)
	s.DeleteFaults()
	require.Equal(t, http.StatusOK, (<-done).status)
	report := s.Report(1)
	require.Equal(t, 1, report.Received)
	require.Equal(t, map[string]int{"answered": 1}, report.Outcomes)
	require.Equal(t, map[string]int{"held": 1}, report.ByCallKey)
}

// TestInProcess serves the gateway's transport for handlers of its own process.
func TestInProcess(t *testing.T) {
	p := simulated.New(simulated.Config{}, clock.System())
	s := &server{Provider: p, url: "http://simulated", client: &http.Client{Transport: provider.Local{Handler: p}}}
	require.Equal(t, "Simulated answer: hi", s.mustPost(t, ask("sim-small", "hi")).content(t))
	require.NotEmpty(t, s.stream(t, ask("sim-small", "hi")))
	_, err := s.post(t.Context(), ask("sim-small?cut", "hi"))
	require.Error(t, err)
	r, err := s.post(t.Context(), ask("sim-small?cut_body", "hi"))
	require.NoError(t, err)
	require.Error(t, r.err)
	eventually(t, func() bool { return s.Report(0).InFlight == 0 })
}

// BenchmarkServe measures what a request without latency costs the provider itself.
func BenchmarkServe(b *testing.B) {
	p := simulated.New(simulated.Config{}, clock.System())
	body, err := json.Marshal(ask("sim-small", "Say what the weather is like.").withSchema(answerSchema))
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", bytes.NewReader(body)))
		if w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
	}
}
