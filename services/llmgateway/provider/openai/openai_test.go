package openai_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/golden"
	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/provider/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "sk-very-secret-123"

// ask is a request with every parameter.
func ask() provider.Request {
	return provider.Request{
		ID: "request-1", Model: "small-1", MaxOutputTokens: 700, Schema: []byte(`{"type":"object"}`),
		Messages: []*systemv1.Message{
			{Role: "system", Content: "You <b>split</b> contracts."}, {Role: "user", Content: "Договор № 7"},
		},
		Params: &systemv1.SamplingParams{
			Temperature: proto.Float64(0), TopP: proto.Float64(0.9), Stop: []string{"END"}, Seed: proto.Int64(7),
			MaxOutputTokens: proto.Int32(700),
		},
	}
}

// client returns a client of the handler behind a real server, with short timeouts.
func client(t *testing.T, h http.Handler) *openai.Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return clientOf(t, server.URL+"/v1")
}

func clientOf(t *testing.T, base string) *openai.Client {
	t.Helper()
	timeouts := provider.Timeouts{
		Connect: 2 * time.Second, Write: 2 * time.Second, FirstByte: time.Second, Idle: 500 * time.Millisecond,
	}
	transport := provider.NewTransport(timeouts)
	t.Cleanup(transport.CloseIdleConnections)
	c, err := openai.New(provider.NewClient(clock.System(), transport, timeouts), base, config.NewSecret(secret))
	require.NoError(t, err)
	return c
}

func TestTheRequestHasThePublicForm(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`)
	}))
	x := c.Send(t.Context(), ask())
	require.NoError(t, x.Err)
	require.Equal(t, "/v1/chat/completions", got.URL.Path)
	require.Equal(t, "Bearer "+secret, got.Header.Get("Authorization"))
	require.Equal(t, "request-1", got.Header.Get("X-Client-Request-Id"))
	require.Empty(t, got.Header.Get("Idempotency-Key"), "net/http would repeat the request by itself")
	golden.Assert(t, "testdata/request.golden", body)
}

func TestAnswersAreRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body   string
		text, finish string
		usage        *price.Usage
	}{
		{
			"plain", `{"choices":[{"finish_reason":"stop","message":{"content":"Да"}}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`,
			"Да", "stop", &price.Usage{Input: 9, Output: 2},
		},
		{
			"cached and reasoning", `{"choices":[{"finish_reason":"stop","message":{"content":"a"}}],"usage":{"prompt_tokens":9,"completion_tokens":5,
			"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":2},"completion_tokens_details":{"reasoning_tokens":3}}}`,
			"a", "stop", &price.Usage{Input: 9, CachedInput: 4, CacheWrite: 2, Output: 5, Reasoning: 3},
		},
		{
			"DeepSeek, after keep-alive lines", "\n\n\n" + `{"choices":[{"finish_reason":"stop","message":{"content":"a"}}],
			"usage":{"prompt_tokens":9,"completion_tokens":5,"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":1}}`,
			"a", "stop", &price.Usage{Input: 9, CachedInput: 8, Output: 5},
		},
		{
			"parts", `{"choices":[{"finish_reason":"stop","message":{"content":[{"type":"thinking","thinking":[]},{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}`,
			"ab", "stop", nil,
		},
		{"no finish reason", `{"choices":[{"message":{"content":"a"}}]}`, "a", "stop", nil},
		{
			"more cached than sent", `{"choices":[{"finish_reason":"stop","message":{"content":"a"}}],"usage":{"prompt_tokens":3,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":4}}}`,
			"a", "stop", nil,
		},
		{"odd usage", `{"choices":[{"finish_reason":"stop","message":{"content":"a"}}],"usage":{"prompt_tokens":"many"}}`, "a", "stop", nil},
		{"null usage", `{"choices":[{"finish_reason":"stop","message":{"content":"a","refusal":null}}],"usage":null}`, "a", "stop", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := openai.Read(provider.Exchange{Status: 200, Header: http.Header{"X-Request-Id": {"req_1"}}, Body: []byte(c.body)}, time.Time{})
			require.Equal(t, failure.None, r.Failure.Class, r.Failure)
			require.Equal(t, c.text, r.Text)
			require.Equal(t, c.finish, r.FinishReason)
			require.Equal(t, "req_1", r.RequestID)
			require.Equal(t, c.usage != nil, r.UsageKnown)
			if c.usage != nil {
				require.Equal(t, *c.usage, r.Usage)
			}
		})
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		x       provider.Exchange
		reason  string
		atFault bool
	}{
		{"HTML with status 200", provider.Exchange{Status: 200, Body: []byte("<html>")}, "json_validation_error", false},
		{"nothing", provider.Exchange{Status: 200}, "json_validation_error", false},
		{"no choices", provider.Exchange{Status: 200, Body: []byte(`{"choices":[]}`)}, "answer_empty", true},
		{"null content", provider.Exchange{Status: 200, Body: []byte(`{"choices":[{"finish_reason":"stop","message":{"content":null}}]}`)}, "answer_empty", true},
		{"only a tool call", provider.Exchange{Status: 200, Body: []byte(`{"choices":[{"finish_reason":"tool_calls","message":{"content":null}}]}`)}, "answer_empty", true},
		{"truncated", provider.Exchange{Status: 200, Body: []byte(`{"choices":[{"finish_reason":"length","message":{"content":"{"}}]}`)}, "truncated", true},
		{"truncated before it began", provider.Exchange{Status: 200, Body: []byte(`{"choices":[{"finish_reason":"length","message":{"content":""}}]}`)}, "truncated", true},
		{"filtered", provider.Exchange{Status: 200, Body: []byte(`{"choices":[{"finish_reason":"content_filter","message":{"content":"a"}}]}`)}, "content_refused", true},
		{"refused", provider.Exchange{Status: 200, Body: []byte(`{"choices":[{"finish_reason":"stop","message":{"content":null,"refusal":"I cannot"}}]}`)}, "content_refused", true},
		{"incomplete response", provider.Exchange{Status: 200, Body: []byte(`{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}`)}, "truncated", true},
		{"incomplete, filtered", provider.Exchange{Status: 200, Body: []byte(`{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}`)}, "content_refused", true},
		{"too long", provider.Exchange{Status: 200, Body: []byte(`{"choi`), TooLong: true}, "answer_too_long", true},
		{"an error with status 200", provider.Exchange{Status: 200, Body: []byte(`{"error":{"code":503,"message":"busy"}}`)}, "provider_503", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := openai.Read(c.x, time.Time{})
			require.Equal(t, c.reason, r.Failure.Reason)
			require.Equal(t, c.atFault, r.Failure.AnswerAtFault)
		})
	}
}

func TestAFailedAnswerKeepsItsUsage(t *testing.T) {
	t.Parallel()
	r := openai.Read(provider.Exchange{Status: 200, Body: []byte(
		`{"choices":[{"finish_reason":"length","message":{"content":"{"}}],"usage":{"prompt_tokens":5,"completion_tokens":6}}`)}, time.Time{})
	require.True(t, r.UsageKnown)
	require.Equal(t, price.Usage{Input: 5, Output: 6}, r.Usage)
}

func TestKeysDoNotComeBack(t *testing.T) {
	t.Parallel()
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "for "+secret)
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"message":"Incorrect API key provided: `+secret+`","code":"invalid_api_key"}}`)
	}))
	x := c.Send(t.Context(), ask())
	r := openai.Read(x, time.Time{})
	require.Equal(t, failure.Auth, r.Failure.Class)
	require.NotContains(t, string(x.Body)+r.Failure.Message+r.RequestID, secret)
	require.Contains(t, r.Failure.Message, "Incorrect API key provided: [key]")
}

func TestTheBaseAddress(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "api.example", "ftp://x/v1", "https://user:pw@host/v1", "https://host/v1?key=1", "http://", ":"} {
		_, err := openai.New(nil, bad, config.Secret{})
		require.Error(t, err, bad)
		require.NotContains(t, err.Error(), "pw")
	}
}

func TestNothingIsSentToAClosedPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	x := clientOf(t, "http://"+address+"/v1").Send(t.Context(), ask())
	require.Error(t, x.Err)
	require.False(t, x.Sent)
}

func TestSilenceTimesOut(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"no first byte": func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body); <-r.Context().Done() },
		"keep-alive lines are no progress": func(w http.ResponseWriter, r *http.Request) {
			_ = clock.Every(r.Context(), clock.System(), 10*time.Millisecond, func(context.Context) {
				_, _ = io.WriteString(w, "\n")
				w.(http.Flusher).Flush()
			})
		},
		"idle": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			_, _ = io.WriteString(w, `{"choi`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := client(t, h).Send(t.Context(), ask())
			require.ErrorContains(t, x.Err, "timeout")
			require.True(t, x.Sent)
			require.True(t, x.TimedOut)
		})
	}
}

func TestAnAnswerThatBreaksOffKeepsWhatCame(t *testing.T) {
	t.Parallel()
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"choices":`)
	}))
	x := c.Send(t.Context(), ask())
	require.Error(t, x.Err)
	require.True(t, x.Sent)
	require.False(t, x.TimedOut)
	require.Equal(t, `{"choices":`, string(x.Body))
}

func TestAConnectionCutAfterTheRequestIsSent(t *testing.T) {
	t.Parallel()
	c := client(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		panic(http.ErrAbortHandler)
	}))
	x := c.Send(t.Context(), ask())
	require.Error(t, x.Err)
	require.True(t, x.Sent)
}

// A server that accepts, reads a part of a large request and resets: the request never was whole, so it cannot be charged.
func TestAConnectionCutWhileTheRequestIsWritten(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = bufio.NewReader(conn).Peek(1024)
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}()
	r := ask()
	r.Messages[1].Content = strings.Repeat("x", 30<<20)
	x := clientOf(t, "http://"+l.Addr().String()+"/v1").Send(t.Context(), r)
	require.Error(t, x.Err)
	require.False(t, x.Sent)
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	requests := 0
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	x := c.Send(t.Context(), ask())
	require.NoError(t, x.Err)
	require.Equal(t, http.StatusTemporaryRedirect, x.Status)
	require.Equal(t, 1, requests)
}

func TestTheCallersCauseComesBack(t *testing.T) {
	t.Parallel()
	errStop := errors.New("stop it")
	entered, gone := make(chan struct{}), make(chan struct{})
	c := client(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		close(entered)
		<-r.Context().Done() // the provider sees the connection closed
		close(gone)
	}))
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-entered; cancel(errStop) }()
	x := c.Send(ctx, ask())
	require.ErrorIs(t, x.Err, errStop)
	require.False(t, x.TimedOut)
	<-gone
}
