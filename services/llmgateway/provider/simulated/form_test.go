package simulated_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/internal/golden"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// send posts a body to a path and reads the answer.
func (s *server) send(t *testing.T, method, path, body string, header ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	r, err := s.do(req)
	require.NoError(t, err)
	return r
}

// asks asks for a text, with more members of the body, in each format.
type asks struct {
	format string
	path   string // of the model
	stream string // the same for a stream
	header []string
	body   string // with the model and a stream's member in it
}

func formats() []asks {
	return []asks{
		{
			"openai", "/v1/chat/completions", "/v1/chat/completions",
			[]string{"Authorization", "Bearer key-of-a-test"},
			`{"model":"MODEL","stream":STREAM,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"TEXT"}]}`,
		},
		{
			"anthropic", "/v1/messages", "/v1/messages",
			[]string{"X-Api-Key", "key-of-a-test", "Anthropic-Version", "2023-06-01"},
			`{"model":"MODEL","stream":STREAM,"max_tokens":1000,"messages":[{"role":"user","content":"TEXT"}]}`,
		},
		{
			"gemini", "/v1beta/models/MODEL:generateContent", "/v1beta/models/MODEL:streamGenerateContent?alt=sse",
			[]string{"X-Goog-Api-Key", "key-of-a-test"},
			`{"contents":[{"role":"user","parts":[{"text":"TEXT"}]}]}`,
		},
	}
}

// ask sends a text to a model, whole or streamed.
func (a asks) ask(t *testing.T, s *server, model, text string, stream bool) reply {
	t.Helper()
	path := a.path
	if stream {
		path = a.stream
	}
	body := strings.NewReplacer("MODEL", model, "STREAM", fmt.Sprint(stream), "TEXT", text).Replace(a.body)
	return s.send(t, "POST", strings.ReplaceAll(path, "MODEL", strings.ReplaceAll(model, "?", "%3F")), body, a.header...)
}

// shown is an answer as a golden file has it.
func (r reply) shown() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d\n", r.status)
	for _, name := range []string{"Content-Type", "Retry-After", "Retry-After-Ms"} {
		if value := r.header.Get(name); value != "" {
			fmt.Fprintf(&out, "%s: %s\n", name, value)
		}
	}
	return out.String() + "\n" + strings.TrimRight(r.body, "\n") + "\n"
}

// TestErrorsInEveryFormat asks each format for each kind of error that a header and a body can say.
func TestErrorsInEveryFormat(t *testing.T) {
	faults := []string{
		"400", "401", "402", "403", "404", "409", "413", "422", "429", "429=1500ms", "429=90s:seconds", "429=1500ms:ms", "429=90s:date",
		"500", "502", "503=5s", "504", "529", "quota", "daily=6h", "context_length", "model_not_found", "echo_key", "echo_prompt",
		"error_in_200", "not_json", "html", "html=502",
	}
	for _, f := range formats() {
		s := serve(t, simulated.Config{}, clocktest.New())
		var all strings.Builder
		for _, fault := range faults {
			s.Forget()
			r := f.ask(t, s, "sim-small?"+fault, "The total price is EUR 75.", false)
			fmt.Fprintf(&all, "== %s\n%s", fault, r.shown())
			kind, _, _ := strings.Cut(fault, "=")
			record := s.Report(1).Requests[0]
			require.Equal(t, "fault:"+kind, record.Outcome)
			require.Equal(t, r.status, record.Status)
		}
		golden.Assert(t, "testdata/errors-"+f.format+".golden", []byte(all.String()))
	}
}

// TestAnswersInEveryFormat asks each format for answers that are whole, streamed, and bad.
func TestAnswersInEveryFormat(t *testing.T) {
	for _, f := range formats() {
		s := serve(t, simulated.Config{}, clocktest.New())
		var all strings.Builder
		for _, fault := range []string{
			"", "?truncated", "?content_filter", "?refusal", "?empty", "?no_usage", "?wrong_usage", "?error_in_200", "?error_event=1",
			"?unfinished=1", "?usage=prompt:101000+cached:99000+cache_write_5m:400+cache_write_1h:600+completion:500+reasoning:405",
		} {
			for _, stream := range []bool{false, true} {
				fmt.Fprintf(&all, "== %s streamed: %v\n%s", fault, stream, f.ask(t, s, "sim-small"+fault, "How much is the fish, and how long do we wait for it?", stream).shown())
			}
		}
		golden.Assert(t, "testdata/answers-"+f.format+".golden", []byte(all.String()))
	}
}

// TestKindsAreDocumented holds the package's comment and the help against the kinds that there are.
func TestKindsAreDocumented(t *testing.T) {
	help := simulated.FaultHelp()
	comment := packageComment(t)
	_, err := simulated.New(simulated.Config{}, clocktest.New()).Inject(simulated.Fault{Kind: "nonsense"})
	require.Error(t, err)
	_, list, _ := strings.Cut(err.Error(), "or one of ")
	kinds := strings.Split(list, ", ")
	require.Greater(t, len(kinds), 25)
	for _, kind := range kinds {
		require.Contains(t, help, "\n  "+kind+" ")
		require.Contains(t, comment, "//\t"+kind+" ")
	}
	lines := strings.Split(strings.TrimSpace(help), "\n")
	require.False(t, slices.ContainsFunc(lines, func(line string) bool { return len(line) > 90 }))
}

// TestBadKeysInEveryFormat asks with a key that is not accepted.
func TestBadKeysInEveryFormat(t *testing.T) {
	s := serve(t, simulated.Config{APIKeys: []string{"another"}}, clocktest.New())
	want := map[string]string{
		"openai":    `401 {"error":{"message":"the simulated provider does not accept this API key","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`,
		"anthropic": `401 {"error":{"type":"authentication_error","message":"the simulated provider does not accept this API key"},"request_id":"req_simulated_2","type":"error"}`,
		"gemini": `400 {"error":{"code":400,"message":"API key not valid. Please pass a valid API key. the simulated provider does not accept this API key",` +
			`"status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","domain":"googleapis.com","reason":"API_KEY_INVALID"}]}}`,
	}
	for _, f := range formats() {
		r := f.ask(t, s, "sim-small", "hi", false)
		require.Equal(t, want[f.format], fmt.Sprintf("%d %s", r.status, strings.TrimSpace(r.body)))
	}
	require.Equal(t, map[string]map[string]int{"openai": {"invalid": 1}, "anthropic": {"invalid": 1}, "gemini": {"invalid": 1}}, s.Report(0).ByFormat)
}

// TestStreamsBreakAfterDeltas counts the deltas that come before a stream breaks off.
func TestStreamsBreakAfterDeltas(t *testing.T) {
	text := strings.Repeat("so many words that they make many deltas, ", 5)
	delta := map[string]string{"openai": `"delta":{"content"`, "anthropic": "content_block_delta", "gemini": `"parts":[{"text"`}
	for _, f := range formats() {
		s := serve(t, simulated.Config{}, clocktest.New())
		for _, kind := range []string{"cut_body", "unfinished", "error_event"} {
			r := f.ask(t, s, "sim-small?"+kind+"=3", text, true)
			name := delta[f.format]
			if f.format == "anthropic" {
				name = "event: " + name
			}
			require.Equal(t, 3, strings.Count(r.body, name), r.body)
			require.Equal(t, kind == "cut_body", r.err != nil)
			require.NotContains(t, r.body, "[DONE]")
			require.NotContains(t, r.body, "message_stop")
			require.NotContains(t, r.body, "finishReason")
		}
		whole := f.ask(t, s, "sim-small?unfinished=10000", text, true)
		require.NotContains(t, whole.body, "[DONE]", "no broken answer is whole")
		require.NotContains(t, whole.body, "message_stop")
	}
}

// TestSameAnswersInEveryFormat holds the formats' texts and tokens against one another.
func TestSameAnswersInEveryFormat(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	for _, f := range formats() {
		r := f.ask(t, s, "sim-small", "How are you?", false)
		require.Contains(t, r.body, "Simulated answer: How are you?")
		record := s.Report(1).Requests[0]
		require.Equal(t, []any{f.format, 3, 8}, []any{record.Format, record.PromptTokens, record.CompletionTokens})
		require.Equal(t, simulated.KeyName("key-of-a-test"), record.Key)
		require.NotContains(t, record.Key, "key-of")
		again := f.ask(t, s, "sim-small", "How are you?", false)
		require.Equal(t, strings.ReplaceAll(r.body, "\n", ""), strings.ReplaceAll(again.body, "\n", ""))
		require.True(t, json.Valid([]byte(r.body)))
	}
}
