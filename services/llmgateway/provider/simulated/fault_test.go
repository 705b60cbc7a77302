package simulated_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// TestFaultKinds asks for each fault that ends with an answer, by the model's name.
func TestFaultKinds(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	for _, c := range []struct {
		fault  string
		status int
		check  func(*testing.T, reply)
	}{
		{"429=1500ms", 429, func(t *testing.T, r reply) {
			t.Helper()
			require.Equal(t, "2", r.header.Get("Retry-After"), "rounded up: never sooner than asked for")
			require.Equal(t, "1500", r.header.Get("Retry-After-Ms"))
			require.Equal(t, "rate_limit_exceeded", *r.parse(t).Error.Code)
		}},
		{"429", 429, func(t *testing.T, r reply) {
			t.Helper()
			require.Empty(t, r.header.Get("Retry-After"))
		}},
		{"500", 500, func(t *testing.T, r reply) {
			t.Helper()
			require.Equal(t, "server_error", r.parse(t).Error.Type)
		}},
		{"503", 503, func(t *testing.T, r reply) {
			t.Helper()
			require.Equal(t, "server_is_overloaded", *r.parse(t).Error.Code)
		}},
		{"529", 529, func(t *testing.T, r reply) {
			t.Helper()
			require.Equal(t, "overloaded_error", r.parse(t).Error.Type)
		}},
		{"422", 422, func(t *testing.T, r reply) {
			t.Helper()
			require.Equal(t, "invalid_request_error", r.parse(t).Error.Type)
		}},
		{"quota", 429, func(t *testing.T, r reply) {
			t.Helper()
			require.Equal(t, "insufficient_quota", *r.parse(t).Error.Code)
		}},
		{"context_length", 400, func(t *testing.T, r reply) {
			t.Helper()
			require.Equal(t, "context_length_exceeded", *r.parse(t).Error.Code)
		}},
		{"error_in_200", 200, func(t *testing.T, r reply) {
			t.Helper()
			require.Equal(t, "server_error", r.parse(t).Error.Type)
		}},
		{"not_json", 200, func(t *testing.T, r reply) {
			t.Helper()
			require.False(t, json.Valid([]byte(r.body)))
		}},
		{"empty", 200, func(t *testing.T, r reply) {
			t.Helper()
			require.Contains(t, r.body, `"choices":[]`)
		}},
		{"truncated", 200, func(t *testing.T, r reply) {
			t.Helper()
			require.Equal(t, "length", *r.parse(t).Choices[0].Finish)
			require.False(t, json.Valid([]byte(r.content(t))))
		}},
		{"content_filter", 200, func(t *testing.T, r reply) {
			t.Helper()
			require.Equal(t, "content_filter", *r.parse(t).Choices[0].Finish)
		}},
		{"refusal", 200, func(t *testing.T, r reply) {
			t.Helper()
			require.Nil(t, r.parse(t).Choices[0].Message.Content)
			require.NotEmpty(t, *r.parse(t).Choices[0].Message.Refusal)
		}},
		{"bad_schema", 200, func(t *testing.T, r reply) {
			t.Helper()
			require.True(t, strings.HasPrefix(r.content(t), "["))
		}},
		{"unfinished", 200, func(t *testing.T, r reply) {
			t.Helper()
			require.False(t, json.Valid([]byte(r.body)))
		}},
	} {
		t.Run(c.fault, func(t *testing.T) {
			r := s.mustPost(t, ask("sim-small?"+c.fault, "The total price is EUR 75.").withSchema(answerSchema))
			require.Equal(t, c.status, r.status, r.body)
			c.check(t, r)
			kind, _, _ := strings.Cut(c.fault, "=")
			require.Equal(t, 1, s.Report(0).Outcomes["fault:"+kind])
			s.Forget()
		})
	}
}

func TestStreamFaults(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	text := strings.Repeat("so many words that they make many deltas, ", 5)
	events := s.stream(t, ask("sim-small?unfinished", text))
	require.NotEmpty(t, events)
	require.NotContains(t, events, "[DONE]")
	require.NotContains(t, strings.Join(events, ""), `"finish_reason":"stop"`)
	events = s.stream(t, ask("sim-small?error_in_200", text))
	require.Len(t, events, 1)
	require.Contains(t, events[0], `"error":{`)
	cut, err := s.post(t.Context(), ask("sim-small?cut_body", text).with("stream", true))
	require.NoError(t, err)
	require.ErrorIs(t, cut.err, io.ErrUnexpectedEOF)
	require.Contains(t, cut.body, "data: ")
}

func TestCutConnections(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	_, err := s.post(t.Context(), ask("sim-small?cut", "hi"))
	require.ErrorIs(t, err, io.EOF)
	r, err := s.post(t.Context(), ask("sim-small?cut_body", "hi"))
	require.NoError(t, err)
	require.ErrorIs(t, r.err, io.ErrUnexpectedEOF)
	require.Equal(t, http.StatusOK, r.status)
	require.NotEmpty(t, r.body)
	eventually(t, func() bool { return s.Report(0).InFlight == 0 })
	require.Equal(t, map[string]int{"fault:cut": 1, "fault:cut_body": 1}, s.Report(0).Outcomes)
}

func TestHangEndsWithItsCaller(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.post(ctx, ask("sim-small?hang", "hi"))
		done <- err
	}()
	eventually(t, func() bool { return s.Report(0).InFlight == 1 })
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	eventually(t, func() bool { return s.Report(0).InFlight == 0 })
}

func TestHoldWaitsForItsDeletion(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	id, err := s.Inject(simulated.Fault{Kind: "hold", Count: 1, Contains: "second"})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, s.mustPost(t, ask("sim-small", "the first")).status)
	done := make(chan reply, 1)
	go func() {
		r, _ := s.post(t.Context(), ask("sim-small", "the second"))
		done <- r
	}()
	eventually(t, func() bool { return s.Report(0).InFlight == 1 })
	require.Equal(t, http.StatusOK, s.mustPost(t, ask("sim-small", "another second")).status, "the count is used up")
	require.Len(t, s.Faults(), 1)
	require.Empty(t, done)
	require.True(t, s.DeleteFault(id))
	require.Equal(t, http.StatusOK, (<-done).status)
	require.Equal(t, map[string]int{"answered": 3}, s.Report(0).Outcomes)
	require.False(t, s.DeleteFault(id))
}

// TestKeepAlive reads signs of life at the pace of the fake clock, and no answer.
func TestKeepAlive(t *testing.T) {
	for stream, sign := range map[bool]string{false: "\n\n\n", true: ": keep-alive\n\n: keep-alive\n\n: keep-alive\n\n"} {
		fake := clocktest.New()
		s := serve(t, simulated.Config{}, fake)
		body := open(t, s, ask("sim-small?keep_alive=10s", "hi").with("stream", stream))
		for range 2 {
			fake.BlockUntil(t, 1)
			fake.Advance(10 * time.Second)
		}
		got := make([]byte, len(sign))
		_, err := io.ReadFull(body, got)
		require.NoError(t, err)
		require.Equal(t, sign, string(got))
		require.NoError(t, body.Close())
		eventually(t, func() bool {
			fake.Advance(10 * time.Second) // the server notices at its next sign
			return s.Report(0).InFlight == 0
		})
	}
}

// open sends a request and returns the body of the answer, unread.
func open(t *testing.T, s *server, r request) io.ReadCloser {
	t.Helper()
	encoded, err := json.Marshal(r)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/chat/completions", bytes.NewReader(encoded))
	require.NoError(t, err)
	resp, err := s.client.Do(req)
	require.NoError(t, err)
	return resp.Body
}

func TestDripComesInPieces(t *testing.T) {
	fake := clocktest.New()
	s := serve(t, simulated.Config{}, fake)
	body := open(t, s, ask("sim-small?drip=1s", "hello"))
	first := make([]byte, 10)
	_, err := io.ReadFull(body, first)
	require.NoError(t, err, "the first piece is there before the clock moves")
	done := make(chan string, 1)
	go func() {
		rest, _ := io.ReadAll(body)
		done <- string(first) + string(rest)
	}()
	pauses := 0
	for {
		select {
		case whole := <-done:
			require.True(t, json.Valid([]byte(whole)), whole)
			require.GreaterOrEqual(t, pauses, 10)
			require.NoError(t, body.Close())
			return
		default:
			if s.Report(0).InFlight == 1 {
				fake.Advance(time.Second)
				pauses++
			}
		}
	}
}

// statuses posts a request n times and returns what came.
func statuses(t *testing.T, s *server, r request, n int) []int {
	t.Helper()
	got := make([]int, n)
	for i := range got {
		got[i] = s.mustPost(t, r).status
	}
	return got
}

func TestScripts(t *testing.T) {
	for model, want := range map[string][]int{
		"sim-small?503":                 {503, 503, 503},
		"sim-small?429*2":               {429, 429, 200, 429, 429, 200},
		"sim-small?500*1,503*2":         {500, 503, 503, 200, 500},
		"sim-small?429*1,503":           {429, 503, 503, 503},
		"sim-small?latency=0s*2,502*1":  {502, 200, 200, 502},
		"sim-large?empty,drip=1ns":      {200, 200},
		"sim-small?truncated*1,400=5s*": nil,
	} {
		t.Run(model, func(t *testing.T) {
			s := serve(t, simulated.Config{}, clock.System())
			if want == nil {
				require.Equal(t, []int{400, 400}, statuses(t, s, ask(model, "hi"), 2), "not a script")
				return
			}
			require.Equal(t, want, statuses(t, s, ask(model, "hi"), len(want)))
		})
	}
}

// TestScriptsFollowConversations runs two conversations side by side, one of which is repaired by a further message.
func TestScriptsFollowConversations(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	first := func() request {
		return ask("sim-small?bad_schema*1", "The total price is EUR 75.").withSchema(answerSchema)
	}
	require.NotEqual(t, `{"amount":75}`, s.mustPost(t, first()).content(t))
	other := ask("sim-small?bad_schema*1", "Another text.").withSchema(answerSchema)
	require.NotEqual(t, `{"amount":null}`, s.mustPost(t, other).content(t))
	repaired := first()
	messages, ok := repaired["messages"].([]any)
	require.True(t, ok)
	repaired["messages"] = append(messages, map[string]any{"role": "assistant", "content": "[]"},
		map[string]any{"role": "user", "content": "That does not fit the schema."})
	require.Equal(t, `{"amount":75}`, s.mustPost(t, repaired).content(t))
	require.Equal(t, `{"amount":null}`, s.mustPost(t, other).content(t))
}

func TestOrderedFaults(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	for _, f := range []simulated.Fault{
		{Kind: "500", Count: 1, Model: "sim-large"},
		{Kind: "429", Argument: "3s", Count: 2},
		{Kind: "reply", Count: 1, Reply: &simulated.Reply{Status: 402, Header: map[string]string{"X-A": "b"}, Body: "pay"}},
	} {
		_, err := s.Inject(f)
		require.NoError(t, err)
	}
	require.Equal(t, []int{429, 429, 402, 200}, statuses(t, s, ask("sim-small", "hi"), 4))
	require.Equal(t, []int{500, 200}, statuses(t, s, ask("sim-large", "hi"), 2))
	require.Empty(t, s.Faults())
	_, err := s.Inject(simulated.Fault{Kind: "503"})
	require.NoError(t, err)
	require.Equal(t, []int{503, 503, 503}, statuses(t, s, ask("sim-small", "hi"), 3))
	require.Equal(t, -1, s.Faults()[0].Left)
	s.DeleteFaults()
	require.Equal(t, []int{200}, statuses(t, s, ask("sim-small", "hi"), 1))
}

func TestBadFaults(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	for want, f := range map[string]simulated.Fault{
		"count is -1":                           {Kind: "500", Count: -1},
		"a reply go only together":              {Kind: "reply"},
		"reply.status is 42":                    {Kind: "reply", Reply: &simulated.Reply{Status: 42}},
		`there is no fault "300"`:               {Kind: "300"},
		`"x" is no latency`:                     {Kind: "latency", Argument: "x"},
		`"0s" is no argument for keep_alive`:    {Kind: "keep_alive", Argument: "0s"},
		"cut takes no argument, and has \"1s\"": {Kind: "cut", Argument: "1s"},
	} {
		_, err := s.Inject(f)
		require.ErrorContains(t, err, want)
	}
}

// TestLatency waits as long as configured, unless the request asks for another latency.
func TestLatency(t *testing.T) {
	fake := clocktest.New()
	s := serve(t, simulated.Config{Latency: simulated.Latency{Median: 3 * time.Second}}, fake)
	require.Equal(t, []int{200}, statuses(t, s, ask("sim-small?latency=0s", "hi"), 1))
	done := make(chan reply, 1)
	go func() {
		r, _ := s.post(t.Context(), ask("sim-small", "hi"))
		done <- r
	}()
	fake.BlockUntil(t, 1)
	fake.Advance(3 * time.Second)
	require.Equal(t, http.StatusOK, (<-done).status)
	require.InDelta(t, 3, s.Report(1).Requests[0].Seconds, 0)
}

func TestAbandonedWhileSlow(t *testing.T) {
	fake := clocktest.New()
	s := serve(t, simulated.Config{Latency: simulated.Latency{Median: time.Hour}}, fake)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.post(ctx, ask("sim-small", "hi"))
		done <- err
	}()
	fake.BlockUntil(t, 1)
	require.Equal(t, "running", s.Report(1).Requests[0].Outcome)
	cancel(errors.New("no longer wanted"))
	require.Error(t, <-done)
	eventually(t, func() bool { return s.Report(0).Outcomes["abandoned"] == 1 })
}
