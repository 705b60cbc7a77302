package compat_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/llmgateway/provider"
)

func durationOf(d time.Duration) *durationpb.Duration { return durationpb.New(d) }

func TestKeysOpenAsTheirRoleAllows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for key, want := range map[string][2]int{
		clientKey: {200, 200}, viewerKey: {200, 403}, strange: {403, 403}, "pawl_unknown0_x": {401, 401},
	} {
		header := "Authorization: Bearer " + key
		require.Equal(t, want[0], b.send(t, "GET", "/v1/models", "", header).status, key)
		require.Equal(t, want[1], b.send(t, "POST", chatPath, hello, header).status, key)
	}
	refused := b.send(t, "POST", chatPath, hello)
	require.Equal(t, 401, refused.status)
	require.Equal(t, "Bearer", refused.header.Get("WWW-Authenticate"))
	require.Equal(t, "invalid_api_key", *refused.problem(t).Code)
	require.Equal(t, 401, b.send(t, "POST", chatPath, hello, "Authorization: Basic "+clientKey).status)
	require.Equal(t, 1, b.gateway.count())
}

func TestKeysAreRememberedForAMinute(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.Equal(t, 200, b.post(t, chatPath, hello).status)
	b.access.setAway(true)
	require.Equal(t, 200, b.post(t, chatPath, hello).status, "a key that is known opens while intake is away")
	require.Equal(t, 1, b.access.count())
	unknown := b.send(t, "GET", "/v1/models", "", "Authorization: Bearer "+viewerKey)
	require.Equal(t, 503, unknown.status)
	require.Equal(t, "1", unknown.header.Get("Retry-After"))
	require.Equal(t, "unavailable", *unknown.problem(t).Code)
	b.clock.advance(time.Minute)
	require.Equal(t, 503, b.post(t, chatPath, hello).status, "a key may have been revoked since")
	b.access.setAway(false)
	require.Equal(t, 200, b.post(t, chatPath, hello).status)

	asked := b.access.count()
	for range 3 {
		require.Equal(t, 401, b.send(t, "GET", "/v1/models", "", "Authorization: Bearer wrong").status)
	}
	require.Equal(t, asked+1, b.access.count())
	b.clock.advance(5 * time.Second)
	require.Equal(t, 401, b.send(t, "GET", "/v1/models", "", "Authorization: Bearer wrong").status)
	require.Equal(t, asked+2, b.access.count())
}

// streamed is the body of a stream, read to its end.
func (b *bench) streamed(t *testing.T, members string) (answer, []string) {
	t.Helper()
	a := b.post(t, chatPath, strings.Replace(hello, "{", `{"stream":true,`+members, 1))
	var events []string
	for event := range strings.SplitSeq(strings.TrimSuffix(a.body, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		require.True(t, ok, event)
		events = append(events, data)
	}
	return a, events
}

func TestAStreamOfAStoredAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.gateway.call.replayed = true
	a, events := b.streamed(t, `"stream_options":{"include_usage":true},`)
	require.Equal(t, 200, a.status)
	require.Equal(t, "text/event-stream; charset=utf-8", a.header.Get("Content-Type"))
	require.Equal(t, "true", a.header.Get("X-Pawl-Replayed"))
	require.Equal(t, "0.0000145", a.header.Get("X-Pawl-Cost-Usd"))
	require.Equal(t, []bool{true}, b.gateway.live)
	require.Len(t, events, 5)
	scope := strings.Split(a.header.Get("X-Pawl-Call"), "/")[0]
	for i, want := range []string{
		`[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}`,
		`[{"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null}],"usage":null}`,
		`[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}`,
		`[],"usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":3}}}`,
	} {
		require.Contains(t, events[i], `{"id":"chatcmpl-`+scope+`","object":"chat.completion.chunk","created":`)
		require.True(t, strings.HasSuffix(events[i], `,"model":"small-1","choices":`+want), events[i])
	}
	require.Equal(t, "[DONE]", events[4])

	_, events = b.streamed(t, "")
	require.Len(t, events, 4)
	require.NotContains(t, strings.Join(events, ""), "usage")
}

// live is a stream that is being read.
type live struct {
	*http.Response
	lines *bufio.Reader
}

func (b *bench) live(t *testing.T) *live {
	t.Helper()
	r := b.open(t, "POST", chatPath, strings.Replace(hello, "{", `{"stream":true,`, 1), "Authorization: Bearer "+clientKey)
	t.Cleanup(func() { r.Body.Close() })
	return &live{r, bufio.NewReader(r.Body)}
}

// next is the data of the next event.
func (l *live) next(t *testing.T) string {
	t.Helper()
	for {
		line, err := l.lines.ReadString('\n')
		require.NoError(t, err)
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			return data
		}
	}
}

func TestPiecesAreForwardedAsTheyCome(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.gateway.call = newCall()
	b.gateway.call.say(provider.Delta{Text: "On"})
	b.gateway.call.say(provider.Delta{Text: "ce"})
	s := b.live(t)
	require.Contains(t, s.next(t), `"delta":{"role":"assistant","content":""}`)
	require.Contains(t, s.next(t), `"delta":{"content":"Once"}`, "what was said before is told at once")
	b.gateway.call.say(provider.Delta{Text: " upon"})
	require.Contains(t, s.next(t), `"delta":{"content":" upon"}`)
	b.gateway.call.say(provider.Delta{Tool: &provider.ToolDelta{Index: 1, ID: "c", Name: "f", Arguments: "{"}})
	require.Contains(t, s.next(t), `"delta":{"tool_calls":[{"index":1,"id":"c","type":"function","function":{"name":"f","arguments":"{"}}]}`)
	b.gateway.call.say(provider.Delta{Tool: &provider.ToolDelta{Index: 1, Arguments: "}"}})
	require.Contains(t, s.next(t), `"delta":{"tool_calls":[{"index":1,"function":{"arguments":"}"}}]}`)
	b.gateway.call.answer(&systemv1.Answer{
		Text: "Once upon a time", Model: "small-1", CostPicoUsd: 7, ToolCalls: []*systemv1.ToolCall{{Id: "c", Name: "f", Arguments: "{}"}},
	})
	require.Contains(t, s.next(t), `"delta":{"content":" a time"}`, "what is left is told at the end, and nothing twice")
	require.Contains(t, s.next(t), `"delta":{},"logprobs":null,"finish_reason":"tool_calls"`)
	require.Equal(t, "[DONE]", s.next(t))
	_, err := io.ReadAll(s.lines)
	require.NoError(t, err)
	require.Equal(t, "0.000000000007", s.Trailer.Get("X-Pawl-Cost-Usd"))
}

func TestAFailureInTheMiddleOfAStreamIsItsLastEvent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.gateway.call = newCall()
	b.gateway.call.say(provider.Delta{Text: "Once"})
	s := b.live(t)
	s.next(t)
	s.next(t)
	b.gateway.call.fail(failureOf(systemv1.Outcome_FAILURE_CLASS_AMBIGUOUS, "provider_timeout", 0, false))
	require.Equal(t, "provider_timeout", *problemIn(t, s.next(t)).Code)
	rest, err := io.ReadAll(s.lines)
	require.NoError(t, err)
	require.NotContains(t, string(rest), "[DONE]")
}

func TestARefusalInPieces(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.gateway.call = newCall()
	b.gateway.call.say(provider.Delta{Refusal: "I can"})
	b.gateway.call.say(provider.Delta{Refusal: "not."})
	b.gateway.call.result.Answer = &systemv1.Answer{FinishReason: "(refusal)", Model: "small-1"}
	b.gateway.call.fail(failureOf(systemv1.Outcome_FAILURE_CLASS_PERMANENT, "content_refused", 0, false))
	_, events := b.streamed(t, "")
	require.Len(t, events, 4)
	require.Contains(t, events[1], `"delta":{"refusal":"I cannot."}`)
	require.Contains(t, events[2], `"finish_reason":"stop"`)
}

func TestAClientThatGoesEndsItsRequestAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.gateway.call = newCall()
	for _, body := range []string{hello, strings.Replace(hello, "{", `{"stream":true,`, 1)} {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+chatPath, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+clientKey)
		asked := b.gateway.count()
		ended := make(chan error, 1)
		go func() {
			resp, err := http.DefaultClient.Do(r)
			if err == nil {
				resp.Body.Close()
			}
			ended <- err
		}()
		require.Eventually(t, func() bool { return b.gateway.count() > asked }, 10*time.Second, time.Millisecond)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	}
	require.Eventually(t, func() bool {
		return strings.Count(b.log.String(), `"status":499`) == 2
	}, 10*time.Second, 5*time.Millisecond)
	require.Contains(t, b.log.String(), `"level":"DEBUG"`)
	require.NotContains(t, b.log.String(), `"level":"WARN"`)
}

func TestARequestIsNotWaitedForLongerThanItSays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.gateway.call = newCall()
	a := b.post(t, chatPath, hello, "X-Pawl-Timeout: 1s")
	require.Equal(t, 504, a.status)
	require.Equal(t, "timeout", *a.problem(t).Code)
	require.Equal(t, "false", a.header.Get("X-Should-Retry"))
}

func TestErrorsOfTheGatewaysOwn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.gateway.err = fault.Unavailable(errors.New("secret address"), "the gateway is stopping; ask another one")
	away := b.post(t, chatPath, hello)
	require.Equal(t, 503, away.status)
	require.Equal(t, "1", away.header.Get("Retry-After"))
	b.gateway.err = errors.New("secret address")
	broken := b.post(t, chatPath, hello)
	require.Equal(t, 500, broken.status)
	require.NotContains(t, away.body+broken.body, "secret")
	b.gateway.err, b.gateway.call = nil, nil // a fault of the program
	require.Equal(t, 500, b.post(t, chatPath, hello).status)
	require.Contains(t, b.log.String(), "panic")
}

func TestEmbeddings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.gateway.call = newCall()
	b.gateway.call.answer(&systemv1.Answer{Model: "embed-1", InputTokens: 4, Embeddings: []*systemv1.Embedding{{Values: []float32{1, -0.5}}, {Values: []float32{0.25}}}})
	a := b.post(t, "/v1/embeddings", `{"model":"default","input":["a","b"],"dimensions":2,"user":"u"}`)
	require.Equal(t, 200, a.status, a.body)
	require.JSONEq(t, `{"object":"list","model":"embed-1","usage":{"prompt_tokens":4,"total_tokens":4},"data":[
		{"object":"embedding","index":0,"embedding":[1,-0.5]},{"object":"embedding","index":1,"embedding":[0.25]}]}`, a.body)
	q := b.gateway.question(t)
	require.Equal(t, []string{"a", "b"}, q.GetEmbed())
	require.Equal(t, int32(2), q.GetDimensions())
	require.Equal(t, "embeddings", q.GetStep().GetStep())
	a = b.post(t, "/v1/embeddings", `{"model":"default","input":"a","encoding_format":"base64"}`)
	require.Contains(t, a.body, `"embedding":"AACAPwAAAL8="`)
	for body, param := range map[string]string{
		`{"model":"default"}`: "input", `{"model":"default","input":[]}`: "input", `{"model":"default","input":[1,2]}`: "input",
		`{"model":"default","input":[""]}`: "input", `{"model":"default","input":"a","encoding_format":"hex"}`: "encoding_format",
		`{"model":"default","input":"a","dimensions":0}`: "dimensions", `{"input":"a"}`: "model", `{"model":"default","input":"a","x":1}`: "x",
	} {
		p := b.post(t, "/v1/embeddings", body)
		require.Equal(t, 400, p.status, body)
		require.Equal(t, param, p.problem(t).param(), body)
	}
}

func TestModelsAreListed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	header := "Authorization: Bearer " + viewerKey
	var list struct {
		Object string           `json:"object"`
		Data   []map[string]any `json:"data"`
	}
	require.NoError(t, json.Unmarshal([]byte(b.send(t, "GET", "/v1/models", "", header).body), &list))
	require.Equal(t, "list", list.Object)
	require.Len(t, list.Data, 2)
	require.Equal(t, "default model pawl", fmt.Sprintf("%v %v %v", list.Data[0]["id"], list.Data[0]["object"], list.Data[0]["owned_by"]))
	one := b.send(t, "GET", "/v1/models/org/small-1", "", header)
	require.Equal(t, 200, one.status)
	require.Contains(t, one.body, `"id":"org/small-1"`)
	require.Equal(t, 404, b.send(t, "GET", "/v1/models/gpt-9", "", header).status)
}

func TestOtherPathsAndMethods(t *testing.T) {
	t.Parallel()
	b := setup(t)
	gone := b.post(t, "/v1/responses", "{}")
	require.Equal(t, 404, gone.status)
	require.Equal(t, "unknown_url", *gone.problem(t).Code)
	wrong := b.send(t, "GET", chatPath, "")
	require.Equal(t, 405, wrong.status)
	require.Equal(t, "POST", wrong.header.Get("Allow"))
	require.Equal(t, "method_not_allowed", *wrong.problem(t).Code)
}

func TestRequestsAreCountedAndNotRepeated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := strings.Replace(hello, "Hello", "a-very-private-text", 1)
	own := b.post(t, chatPath, body, "X-Request-Id: mine")
	require.Equal(t, "mine", own.header.Get("X-Request-Id"))
	b.post(t, chatPath, strings.Replace(body, "default", "a-very-private-text", 1))
	b.post(t, "/v1/a-very-private-text", body)
	require.NoError(t, testutil.GatherAndCompare(b.registry, strings.NewReader(`
# HELP pawl_llm_gateway_endpoint_requests_total Requests to the OpenAI-compatible endpoint, by path and status (499: the client did not wait).
# TYPE pawl_llm_gateway_endpoint_requests_total counter
pawl_llm_gateway_endpoint_requests_total{path="/v1/chat/completions",status="200"} 1
pawl_llm_gateway_endpoint_requests_total{path="/v1/chat/completions",status="404"} 1
pawl_llm_gateway_endpoint_requests_total{path="other",status="404"} 1
`), "pawl_llm_gateway_endpoint_requests_total"))
	require.Contains(t, b.log.String(), `"request_id":"mine"`)
	require.Contains(t, b.log.String(), `"tenant":"acme"`)
	require.NotContains(t, b.log.String(), "private")
	require.NotContains(t, b.log.String(), clientKey)
}
