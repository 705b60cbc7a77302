package simulated_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// TestLimitsHoldOverAllFormats shares two requests a minute among the formats, and then gives them to each key.
func TestLimitsHoldOverAllFormats(t *testing.T) {
	s := serve(t, simulated.Config{Limits: simulated.Limits{RequestsPerMinute: 2}}, clocktest.New())
	var got []int
	for _, f := range formats() {
		got = append(got, f.ask(t, s, "sim-small", "hi", false).status)
	}
	require.Equal(t, []int{200, 200, 429}, got)
	s.SetLimits(simulated.Limits{RequestsPerMinute: 1, PerKey: true})
	other := formats()[0]
	other.header = []string{"Authorization", "Bearer another-key"}
	require.Equal(t, []int{200, 429}, []int{other.ask(t, s, "sim-small", "hi", false).status, other.ask(t, s, "sim-small", "hi", false).status})
	report := s.Report(0)
	require.Equal(t, 2, report.PeaksByKey[simulated.KeyName("key-of-a-test")].RequestsPerMinute)
	require.Equal(t, 1, report.PeaksByKey[simulated.KeyName("another-key")].RequestsPerMinute)
	require.Equal(t, 3, report.Peaks.RequestsPerMinute)
	require.Equal(t, map[string]map[string]int{
		simulated.KeyName("key-of-a-test"): {"answered": 2, "limited": 1}, simulated.KeyName("another-key"): {"answered": 1, "limited": 1},
	}, report.ByKey)
	require.Equal(t, map[string]map[string]int{"sim-small": {"answered": 3, "limited": 2}}, report.ByModel)
	require.Equal(t, map[string]map[string]int{
		"openai": {"answered": 2, "limited": 1}, "anthropic": {"answered": 1}, "gemini": {"limited": 1},
	}, report.ByFormat)
}

// TestInputAndOutputTokensAreEnforced fills each limit of tokens, and reads what Anthropic's headers say of it.
func TestInputAndOutputTokensAreEnforced(t *testing.T) {
	fake := clocktest.New()
	s := serve(t, simulated.Config{Limits: simulated.Limits{
		RequestsPerMinute: 10, TokensPerMinute: 5000, InputTokensPerMinute: 100, OutputTokensPerMinute: 1500,
	}}, fake)
	anthropic := formats()[1]
	r := anthropic.ask(t, s, "sim-small?truncated", strings.Repeat("word", 60), false)
	require.Equal(t, 200, r.status)
	for name, want := range map[string]string{
		"requests-limit": "10", "requests-remaining": "9", "tokens-limit": "5000", "tokens-remaining": "3940",
		"input-tokens-limit": "100", "input-tokens-remaining": "40", "output-tokens-limit": "1500", "output-tokens-remaining": "500",
		"requests-reset": "2026-01-02T03:05:05Z", "input-tokens-reset": "2026-01-02T03:05:05Z",
	} {
		require.Equal(t, want, r.header.Get("anthropic-ratelimit-"+name), name)
	}
	r = anthropic.ask(t, s, "sim-small", strings.Repeat("word", 60), false)
	require.Equal(t, 429, r.status)
	require.Equal(t, "60", r.header.Get("Retry-After"))
	require.Contains(t, r.body, "input tokens per minute: Limit 100, Used 60, Requested 60")
	anthropic.body = strings.ReplaceAll(anthropic.body, `"max_tokens":1000`, `"max_tokens":1490`)
	require.Contains(t, anthropic.ask(t, s, "sim-small", "word", false).body, "output tokens per minute: Limit 1500, Used 27, Requested 1490")
	gemini := formats()[2].ask(t, s, "sim-small", strings.Repeat("word", 60), false)
	require.Contains(t, gemini.body, `"retryDelay":"60s"`)
	require.Contains(t, gemini.body, "GenerateContentInputTokensPerModelPerMinute")
	require.Equal(t, 60, s.Report(0).Peaks.InputTokensPerMinute)
	require.Equal(t, 1000, s.Report(0).Peaks.OutputTokensPerMinute)
}

// TestAdmissionsCanBeCounted computes windows of its own from the series.
func TestAdmissionsCanBeCounted(t *testing.T) {
	fake := clocktest.New()
	s := serve(t, simulated.Config{Limits: simulated.Limits{RequestsPerMinute: 2}}, fake)
	for range 5 {
		formats()[1].ask(t, s, "sim-small", "hi", false)
		fake.Advance(20 * time.Second)
	}
	_, answer := s.admin(t, "GET", "admissions", "")
	var series struct{ Admissions []simulated.Admission }
	require.NoError(t, json.Unmarshal([]byte(answer), &series))
	var at []time.Duration
	for _, a := range series.Admissions {
		at = append(at, a.At.Sub(clocktest.Start))
		require.Equal(t, simulated.Admission{
			At: a.At, Number: a.Number, Format: "anthropic", Key: simulated.KeyName("key-of-a-test"), Model: "sim-small", InputTokens: 1, OutputTokens: 1000,
		}, a)
	}
	require.Equal(t, []time.Duration{0, 20 * time.Second, 60 * time.Second, 80 * time.Second}, at)
	s.Forget()
	require.Empty(t, s.Admissions())
}

func TestAttemptsPerAnswer(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	require.Zero(t, s.Report(0).AttemptsPerAnswer)
	for range 3 {
		s.mustPost(t, ask("sim-small?500*2", "a"), "X-Pawl-Call-Key", "thrice")
	}
	s.mustPost(t, ask("sim-small", "b"))
	s.mustPost(t, ask("sim-small?503", "c"), "X-Pawl-Call-Key", "never")
	require.InDelta(t, 2, s.Report(0).AttemptsPerAnswer, 1e-9, "three and one; what was never answered does not count")
}

// TestDeadConnectionsAreCounted breaks a connection in the middle of a request, and in the middle of an answer.
func TestDeadConnectionsAreCounted(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	_, err = io.WriteString(conn, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nAnthropic-Version: 1\r\nContent-Length: 1000\r\n\r\n{")
	require.NoError(t, err)
	eventually(t, func() bool { return s.Report(0).InFlight == 1 })
	require.NoError(t, conn.Close())
	eventually(t, func() bool { return s.Report(0).Outcomes["abandoned"] == 1 })
	report := s.Report(1)
	require.Equal(t, 1, report.Received)
	require.False(t, report.Requests[0].Admitted)
	require.Equal(t, map[string]int{"abandoned": 1}, report.ByFormat["anthropic"])
}

// TestHangs lets requests hang at each of their stages, in each format, until their callers go away.
func TestHangs(t *testing.T) {
	for _, f := range formats() {
		s := serve(t, simulated.Config{}, clocktest.New())
		for kind, begins := range map[string]bool{"hang": false, "hang_headers": true, "hang_body=1": true, "cut": false, "cut_headers": true} {
			ctx, cancel := context.WithCancel(t.Context())
			body := strings.NewReplacer("MODEL", "sim-small?"+kind, "STREAM", "true", "TEXT", strings.Repeat("many words ", 30)).Replace(f.body)
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+strings.ReplaceAll(f.stream, "MODEL", "sim-small%3F"+kind), strings.NewReader(body))
			require.NoError(t, err)
			for i := 0; i < len(f.header); i += 2 {
				req.Header.Set(f.header[i], f.header[i+1])
			}
			answered := make(chan error, 1)
			go func() {
				resp, err := s.client.Do(req)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				answered <- err
			}()
			if strings.HasPrefix(kind, "hang") {
				eventually(t, func() bool {
					r := s.Report(1)
					return r.AdmittedInFlight == 1 && r.InFlight == 1
				})
				require.Empty(t, answered)
			}
			if !strings.HasPrefix(kind, "cut") {
				cancel()
			}
			require.Error(t, <-answered)
			cancel()
			name, _, _ := strings.Cut(kind, "=")
			eventually(t, func() bool { return s.Report(0).Outcomes["fault:"+name] == 1 })
			require.Equal(t, begins, s.Report(1).Requests[0].Status == 200, kind)
			s.Forget()
		}
	}
}

func TestFaultsForOneFormat(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	_, err := s.Inject(simulated.Fault{Kind: "500", Format: "gemini"})
	require.NoError(t, err)
	_, err = s.Inject(simulated.Fault{Kind: "500", Format: "ollama"})
	require.ErrorContains(t, err, `no format "ollama"`)
	var got []int
	for _, f := range formats() {
		got = append(got, f.ask(t, s, "sim-small", "hi", false).status)
	}
	require.Equal(t, []int{200, 200, 500}, got)
}

func TestBadArguments(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	for want, f := range map[string]simulated.Fault{
		"a number from 0 to 1000000":      {Kind: "cut_body", Argument: "x"},
		"a number from 200 to 599":        {Kind: "html", Argument: "42"},
		"for one header alone":            {Kind: "429", Argument: "2s:hours"},
		`"tokens:7" is no part`:           {Kind: "usage", Argument: "tokens:7"},
		`"" is no part of a usage`:        {Kind: "usage"},
		`"prompt:7+cached:8" cannot be`:   {Kind: "usage", Argument: "prompt:7+cached:8"},
		`"reasoning:1" cannot be`:         {Kind: "usage", Argument: "reasoning:1"},
		"echo_prompt takes no argument":   {Kind: "echo_prompt", Argument: "1"},
		`"-1s" is no argument for daily`:  {Kind: "daily", Argument: "-1s"},
		`"later" is no argument for drip`: {Kind: "drip", Argument: "later"},
	} {
		_, err := s.Inject(f)
		require.ErrorContains(t, err, want)
	}
}

// TestCachedPrompts asks the same long beginning twice, in each format's way.
func TestCachedPrompts(t *testing.T) {
	long := strings.Repeat("All work and no play. ", 300) // 1650 tokens
	ask := func(s *server, tail string) (openai, anthropic, gemini simulated.Record) {
		formats()[0].ask(t, s, "sim-small", long+tail, false)
		openai = s.Report(1).Requests[0]
		formats()[2].ask(t, s, "sim-large", long+tail, false)
		gemini = s.Report(1).Requests[0]
		body := `{"model":"sim-small","max_tokens":10,"system":[{"type":"text","text":"` + long + `","cache_control":{"type":"ephemeral"}}],` +
			`"messages":[{"role":"user","content":[{"type":"text","text":"` + long + `","cache_control":{"type":"ephemeral","ttl":"1h"}},{"type":"text","text":"` + tail + `"}]}]}`
		require.Equal(t, 200, s.send(t, "POST", "/v1/messages", body, "Anthropic-Version", "1").status)
		return openai, s.Report(1).Requests[0], gemini
	}
	fake := clocktest.New()
	s := serve(t, simulated.Config{}, fake)
	for range 2 {
		openai, anthropic, gemini := ask(s, "What now?")
		require.Equal(t, []int{0, 0, 0}, []int{openai.CachedTokens, anthropic.CachedTokens, gemini.CachedTokens}, "off unless it is asked for")
	}
	_, answer := s.admin(t, "PUT", "cache", `{"on":true}`)
	require.JSONEq(t, `{"on":true}`, answer)
	openai, anthropic, gemini := ask(s, "What now?")
	require.Equal(t, []int{0, 0, 0}, []int{openai.CachedTokens, anthropic.CachedTokens, gemini.CachedTokens}, "the first writes")
	openai, anthropic, gemini = ask(s, "What then?")
	require.Equal(t, []int{1536, 3300, 1536}, []int{openai.CachedTokens, anthropic.CachedTokens, gemini.CachedTokens})
	fake.Advance(6 * time.Minute)
	openai, anthropic, gemini = ask(s, "What if?")
	require.Equal(t, []int{0, 3300, 0}, []int{openai.CachedTokens, anthropic.CachedTokens, gemini.CachedTokens}, "an hour was asked for")
	fake.Advance(2 * time.Hour)
	r := s.send(t, "POST", "/v1/messages", `{"model":"sim-small","max_tokens":10,"system":[{"type":"text","text":"`+long+`","cache_control":{"type":"ephemeral"}}],`+
		`"messages":[{"role":"user","content":"x"}]}`, "Anthropic-Version", "1")
	require.Contains(t, r.body, `"input_tokens":1,"cache_creation_input_tokens":1650,"cache_read_input_tokens":0,`+
		`"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":1650}`)
}

// TestStart serves a provider without the help of a test server.
func TestStart(t *testing.T) {
	started, err := simulated.Start(t.Context(), "127.0.0.1:0", simulated.Config{}, clock.System())
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	s := &server{Provider: started.Provider, url: started.URL, client: client}
	require.Equal(t, "Simulated answer: hi", s.mustPost(t, ask("sim-small", "hi")).content(t))
	_, err = simulated.Start(t.Context(), strings.TrimPrefix(started.URL, "http://"), simulated.Config{}, clock.System())
	require.ErrorContains(t, err, "cannot listen")
	require.NoError(t, started.Close())
	require.NoError(t, started.Wait())
	_, err = s.post(t.Context(), ask("sim-small", "hi"))
	require.Error(t, err)
}

func TestModelsInEveryFormat(t *testing.T) {
	s := serve(t, simulated.Config{Models: []string{"a", "b"}, APIKeys: []string{"k"}}, clocktest.New())
	get := func(path string, header ...string) string {
		return strings.TrimSpace(s.send(t, "GET", path, "", header...).body)
	}
	require.JSONEq(t, `{"id":"b","object":"model","created":1767323045,"owned_by":"simulated"}`, get("/v1/models/b", "Authorization", "Bearer k"))
	require.JSONEq(t, `{"data":[{"type":"model","id":"b","display_name":"b (simulated)","created_at":"2026-01-02T03:04:05Z"}],"has_more":false,"first_id":"b","last_id":"b"}`,
		get("/v1/models?after_id=a", "X-Api-Key", "k", "Anthropic-Version", "1"))
	require.Contains(t, get("/v1/models/c", "X-Api-Key", "k", "Anthropic-Version", "1"), `"message":"model: c"`)
	require.Contains(t, get("/v1beta/models?key=k"), `"name":"models/a"`)
	require.Contains(t, get("/v1beta/models/b?key=k"), `"name":"models/b"`)
	require.Contains(t, get("/v1beta/models/c?key=k"), "models/c is not found")
	require.Contains(t, get("/v1beta/models?key=x"), "API_KEY_INVALID")
	require.Contains(t, get("/v1/models?limit=0", "X-Api-Key", "k", "Anthropic-Version", "1"), "limit is")
	require.Contains(t, get("/v1/models?after_id=z", "X-Api-Key", "k", "Anthropic-Version", "1"), "not in the list")
	require.Equal(t, map[string]int{"models": 9}, s.Report(0).Others)
}
