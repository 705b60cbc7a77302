package simulated_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/llmgateway/provider/simulated"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a provider behind a real listener.
type server struct {
	*simulated.Provider
	url    string
	client *http.Client
}

func serve(t *testing.T, cfg simulated.Config, c clock.Clock) *server {
	t.Helper()
	p := simulated.New(cfg, c)
	s := httptest.NewServer(p)
	t.Cleanup(func() {
		p.DeleteFaults()
		s.CloseClientConnections()
		s.Close()
	})
	return &server{Provider: p, url: s.URL, client: s.Client()}
}

// request is the body of a chat request.
type request map[string]any

// ask returns a request for a text, to which more members can be added.
func ask(model, text string) request {
	return request{"model": model, "messages": []any{map[string]any{"role": "user", "content": text}}}
}

func (r request) with(name string, value any) request {
	r[name] = value
	return r
}

const answerSchema = `{"type":"object","required":["amount"],"properties":{"amount":{"type":["number","null"]}}}`

func (r request) withSchema(schema string) request {
	return r.with("response_format", map[string]any{
		"type": "json_schema", "json_schema": map[string]any{"name": "answer", "strict": true, "schema": json.RawMessage(schema)},
	})
}

// reply is what came back.
type reply struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

// post sends a request and reads the answer; the error is of the connection.
func (s *server) post(ctx context.Context, body any, header ...string) (reply, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return reply{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", bytes.NewReader(encoded))
	if err != nil {
		return reply{}, err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return s.do(req)
}

func (s *server) do(req *http.Request) (reply, error) {
	resp, err := s.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(body), err: err}, nil
}

func (s *server) mustPost(t *testing.T, body any, header ...string) reply {
	t.Helper()
	r, err := s.post(t.Context(), body, header...)
	require.NoError(t, err)
	require.NoError(t, r.err)
	return r
}

// chatCompletion is the public form of an answer.
type chatCompletion struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Message struct {
			Role    string  `json:"role"`
			Content *string `json:"content"`
			Refusal *string `json:"refusal"`
		} `json:"message"`
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
		Finish *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	} `json:"usage"`
	Error *struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Code    *string `json:"code"`
	} `json:"error"`
}

func (r reply) parse(t *testing.T) chatCompletion {
	t.Helper()
	var c chatCompletion
	require.NoError(t, json.Unmarshal([]byte(r.body), &c), r.body)
	return c
}

// content returns the text of an answer that has one.
func (r reply) content(t *testing.T) string {
	t.Helper()
	c := r.parse(t)
	require.Equal(t, http.StatusOK, r.status, r.body)
	require.Len(t, c.Choices, 1, r.body)
	require.NotNil(t, c.Choices[0].Message.Content, r.body)
	return *c.Choices[0].Message.Content
}

func TestWholeAnswer(t *testing.T) {
	fake := clocktest.New()
	s := serve(t, simulated.Config{}, fake)
	r := s.mustPost(t, ask("sim-small", "The total price is EUR 75.").withSchema(answerSchema))
	require.Equal(t, `{"amount":75}`, r.content(t))
	require.Equal(t, "application/json", r.header.Get("Content-Type"))
	require.Contains(t, r.header.Get("X-Request-Id"), "simulated")
	c := r.parse(t)
	require.Equal(t, "chat.completion", c.Object)
	require.Equal(t, "sim-small", c.Model)
	require.Contains(t, c.ID, "simulated")
	require.Equal(t, fake.Now().Unix(), c.Created)
	require.Equal(t, "stop", *c.Choices[0].Finish)
	require.Equal(t, "assistant", c.Choices[0].Message.Role)
	require.Equal(t, 7+(len(answerSchema)+3)/4, c.Usage.Prompt, "four bytes a token, the schema included")
	require.Equal(t, 4, c.Usage.Completion)
	require.Equal(t, c.Usage.Prompt+c.Usage.Completion, c.Usage.Total)
	require.Equal(t, r.body, s.mustPost(t, ask("sim-small", "The total price is EUR 75.").withSchema(answerSchema)).body, "same bytes every time")
}

func TestFormsOfAnswers(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	require.Equal(t, "Simulated answer: How are you?", s.mustPost(t, ask("sim-small", "How are you?")).content(t))
	require.JSONEq(t, `{"answer":"Simulated answer: How are you?"}`,
		s.mustPost(t, ask("sim-large", "How are you?").with("response_format", map[string]any{"type": "json_object"})).content(t))
	parts := []any{map[string]any{"type": "text", "text": "Как дела?"}, map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:"}}}
	spoken := request{"model": "sim-small", "messages": []any{
		map[string]any{"role": "system", "content": "Be brief."},
		map[string]any{"role": "assistant", "content": nil},
		map[string]any{"role": "user", "content": parts},
	}}
	require.Equal(t, "Ответ имитатора: Как дела?", s.mustPost(t, spoken).content(t))
}

// stream sends a request for a stream and returns its events.
func (s *server) stream(t *testing.T, r request) []string {
	t.Helper()
	got := s.mustPost(t, r.with("stream", true))
	require.Equal(t, "text/event-stream", got.header.Get("Content-Type"))
	var events []string
	for lines := bufio.NewScanner(strings.NewReader(got.body)); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			events = append(events, data)
		}
	}
	return events
}

func TestStreamedAnswer(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	text := strings.Repeat("Много слов в одном предложении. ", 9)
	whole := s.mustPost(t, ask("sim-small", text)).parse(t)
	events := s.stream(t, ask("sim-small", text).with("stream_options", map[string]any{"include_usage": true}))
	require.Equal(t, "[DONE]", events[len(events)-1])
	var content strings.Builder
	var finish []string
	var last chatCompletion
	for _, e := range events[:len(events)-1] {
		last = reply{body: e}.parse(t)
		require.Equal(t, "chat.completion.chunk", last.Object)
		for _, choice := range last.Choices {
			content.WriteString(choice.Delta.Content)
			if choice.Finish != nil {
				finish = append(finish, *choice.Finish)
			}
		}
	}
	require.Equal(t, *whole.Choices[0].Message.Content, content.String())
	require.Greater(t, len(events), 5)
	require.Equal(t, []string{"stop"}, finish)
	require.Empty(t, last.Choices, "usage comes last, without choices")
	require.Equal(t, whole.Usage, last.Usage)
}

func TestMaxTokensCutTheAnswer(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		c := s.mustPost(t, ask("sim-small", "Очень длинный вопрос?").with(name, 3)).parse(t)
		require.Equal(t, "length", *c.Choices[0].Finish)
		require.Equal(t, "Ответ ", *c.Choices[0].Message.Content, "whole characters, 12 bytes at most")
		require.LessOrEqual(t, c.Usage.Completion, 3)
	}
}

func TestBadRequests(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	for _, c := range []struct {
		name    string
		body    any
		status  int
		message string
	}{
		{"unknown model", ask("gpt-x", "hi"), 404, `The model "gpt-x" does not exist; the simulated provider has sim-small, sim-large`},
		{"unknown fault", ask("sim-small?500,flood", "hi"), 400, `model "sim-small?500,flood": there is no fault "flood"`},
		{"count", ask("sim-small?500*0", "hi"), 400, "the count after * must be a number from 1"},
		{"argument", ask("sim-small?429=soon", "hi"), 400, `"soon" is no argument for 429`},
		{"needless argument", ask("sim-small?hang=1s", "hi"), 400, "hang takes no argument"},
		{"latency", ask("sim-small?latency=2s~1s", "hi"), 400, `"2s~1s" is no latency`},
		{"hold", ask("sim-small?hold", "hi"), 400, "use POST /admin/faults"},
		{"no messages", request{"model": "sim-small"}, 400, "messages must have at least one entry"},
		{"several choices", ask("sim-small", "hi").with("n", 2), 400, "one choice"},
		{"negative tokens", ask("sim-small", "hi").with("max_tokens", -1).with("max_completion_tokens", -1), 400, "must not be negative"},
		{"format", ask("sim-small", "hi").with("response_format", map[string]any{"type": "xml"}), 400, "response_format.type"},
		{"schema", ask("sim-small", "hi").withSchema(`{"type":7}`), 400, "schema: type must be a name"},
		{"type", ask("sim-small", "hi").with("stream", "yes"), 400, "not what POST /v1/chat/completions takes"},
		{"content", request{"model": "sim-small", "messages": []any{map[string]any{"role": "user", "content": 5}}}, 400, "content must be a string"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := s.mustPost(t, c.body)
			require.Equal(t, c.status, r.status)
			e := r.parse(t).Error
			require.NotNil(t, e, r.body)
			require.Contains(t, e.Message, c.message)
			require.Equal(t, "invalid_request_error", e.Type)
		})
	}
	require.Equal(t, map[string]int{"invalid": 14}, s.Report(0).Outcomes)
}

func TestKeys(t *testing.T) {
	s := serve(t, simulated.Config{APIKeys: []string{"sk-good"}}, clocktest.New())
	r := s.mustPost(t, ask("sim-small", "hi"), "Authorization", "Bearer sk-bad")
	require.Equal(t, http.StatusUnauthorized, r.status)
	require.NotContains(t, r.body, "sk-bad")
	require.Equal(t, "invalid_api_key", *r.parse(t).Error.Code)
	require.Equal(t, http.StatusOK, s.mustPost(t, ask("sim-small", "hi"), "Authorization", "Bearer sk-good").status)
	r = s.mustPost(t, ask("sim-small?echo_key", "hi"), "Authorization", "Bearer sk-good")
	require.Equal(t, http.StatusUnauthorized, r.status)
	require.Contains(t, r.body, "sk-good")
}

func TestModels(t *testing.T) {
	s := serve(t, simulated.Config{Models: []string{"a", "b"}}, clocktest.New())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/models", http.NoBody)
	require.NoError(t, err)
	r, err := s.do(req)
	require.NoError(t, err)
	require.JSONEq(t, `{"object":"list","data":[
		{"id":"a","object":"model","created":1767323045,"owned_by":"simulated"},
		{"id":"b","object":"model","created":1767323045,"owned_by":"simulated"}]}`, r.body)
}

// TestContractThroughHTTP asks for a field of an example contract, as the gateway does.
func TestContractThroughHTTP(t *testing.T) {
	text, err := os.ReadFile("../../../../examples/contracts/01-ru-supply.txt")
	require.NoError(t, err)
	s := serve(t, simulated.Config{}, clock.System())
	r := s.mustPost(t, ask("sim-small", string(text)).withSchema(`{"type":"object","properties":{"valid_until":{"type":"string","format":"date"}}}`))
	require.JSONEq(t, `{"valid_until":"2026-12-31"}`, r.content(t))
}

// eventually waits until cond holds; it is for what other goroutines do on their own time.
func eventually(t *testing.T, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, 10*time.Second, time.Millisecond)
}
