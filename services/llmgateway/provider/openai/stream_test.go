package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/provider/openai"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// sse frames every text as an event.
func sse(data ...string) string {
	return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n"
}

// delta is a chunk with a piece of the first choice, as JSON.
func delta(piece string) string {
	return `{"object":"chat.completion.chunk","choices":[{"index":0,"delta":` + piece + `,"finish_reason":null}],"usage":null}`
}

func finish(reason string) string {
	return `{"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

const streamUsage = `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4}}}`

func readBody(body string) provider.Reading {
	return openai.Read(provider.Exchange{Status: 200, Header: http.Header{}, Body: []byte(body)}, time.Time{})
}

// A streamed answer means what the same answer means in one piece.
func TestStreamsReadLikeWholeAnswers(t *testing.T) {
	t.Parallel()
	const usage = `"usage":{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4}}`
	for name, c := range map[string]struct{ stream, whole string }{
		"text": {
			sse(delta(`{"role":"assistant","content":""}`), delta(`{"content":"Да"}`), delta(`{"content":"!"}`), finish("stop"), streamUsage, "[DONE]"),
			`{"choices":[{"finish_reason":"stop","message":{"content":"Да!"}}],` + usage + `}`,
		},
		"usage beside the last piece, and no [DONE]": {
			sse(delta(`{"content":"a"}`), `{"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}],`+usage+`}`),
			`{"choices":[{"finish_reason":"stop","message":{"content":"ab"}}],` + usage + `}`,
		},
		"cumulative usage": {
			sse(`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`, finish("stop"), streamUsage, "[DONE]"),
			`{"choices":[{"finish_reason":"stop","message":{"content":"a"}}],` + usage + `}`,
		},
		"no usage, and [DONE] without a finish reason": {
			sse(delta(`{"content":"a"}`), "[DONE]"), `{"choices":[{"finish_reason":"stop","message":{"content":"a"}}]}`,
		},
		"parts": {
			sse(delta(`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`), finish("stop")),
			`{"choices":[{"finish_reason":"stop","message":{"content":"ab"}}]}`,
		},
		"thoughts are not the answer": {
			": keep-alive\n\n\n" + sse(delta(`{"reasoning_content":"hm","content":null}`), delta(`{"content":"a"}`), finish("stop")),
			`{"choices":[{"finish_reason":"stop","message":{"content":"a"}}]}`,
		},
		"truncated": {
			sse(delta(`{"content":"{"}`), finish("length"), streamUsage, "[DONE]"),
			`{"choices":[{"finish_reason":"length","message":{"content":"{"}}],` + usage + `}`,
		},
		"filtered": {
			sse(delta(`{"content":"a"}`), finish("content_filter")), `{"choices":[{"finish_reason":"content_filter","message":{"content":"a"}}]}`,
		},
		"refused": {
			sse(delta(`{"refusal":"I "}`), delta(`{"refusal":"cannot"}`), finish("stop"), "[DONE]"),
			`{"choices":[{"finish_reason":"stop","message":{"content":null,"refusal":"I cannot"}}]}`,
		},
		"empty":     {sse(delta(`{"role":"assistant"}`), finish("stop"), "[DONE]"), `{"choices":[{"finish_reason":"stop","message":{"content":""}}]}`},
		"no choice": {sse(streamUsage, "[DONE]"), `{"choices":[],` + usage + `}`},
		"tool calls": {
			sse(
				delta(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}}]}`),
				delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}`),
				delta(`{"tool_calls":[{"index":1,"id":"c2","function":{"name":"g","arguments":"{}"}},{"index":0,"function":{"arguments":":1}"}}]}`),
				finish("tool_calls"), "[DONE]"),
			`{"choices":[{"finish_reason":"tool_calls","message":{"content":null,"tool_calls":[
				{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"c2","function":{"name":"g","arguments":"{}"}}]}}]}`,
		},
		"tool calls that all have the index 0": {
			sse(
				delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}]}`),
				delta(`{"tool_calls":[{"index":0,"id":"c2","function":{"name":"g","arguments":"["}}]}`),
				delta(`{"tool_calls":[{"index":0,"id":"c2","function":{"arguments":"]"}}]}`), finish("tool_calls")),
			`{"choices":[{"finish_reason":"tool_calls","message":{"tool_calls":[
				{"id":"c1","function":{"name":"f","arguments":"{}"}},{"id":"c2","function":{"name":"g","arguments":"[]"}}]}}]}`,
		},
		"another choice": {
			sse(`{"choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"length"},{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`),
			`{"choices":[{"index":0,"finish_reason":"stop","message":{"content":"a"}}]}`,
		},
	} {
		require.Equal(t, readBody(c.whole), readBody(c.stream), name)
	}
	calls := readBody(sse(delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}]}`), finish("tool_calls")))
	require.Equal(t, []*systemv1.ToolCall{{Id: "c1", Name: "f", Arguments: "{}"}}, calls.ToolCalls)
	require.Equal(t, failure.None, calls.Failure.Class)
}

func TestStreamsThatAreNoAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body   string
		class  failure.Class
		reason string
	}{
		"cut off":                      {sse(delta(`{"content":"a"}`)), failure.Unsure, "network"},
		"cut off within an event":      {sse(delta(`{"content":"a"}`)) + `data: {"choices":[{"delta":{"con`, failure.Unsure, "network"},
		"cut off after the usage":      {sse(delta(`{"content":"a"}`), streamUsage), failure.Unsure, "network"},
		"nothing but signs of life":    {": keep-alive\n\n: keep-alive\n\n", failure.Unsure, "network"},
		"an event that is none":        {sse(delta(`{"content":"a"}`), `{"choices":[}`, finish("stop")), failure.Transient, "json_validation_error"},
		"an error event":               {sse(delta(`{"content":"a"}`), `{"error":{"message":"x","code":"server_error"}}`), failure.Transient, "provider_500"},
		"an error event, then [DONE]":  {sse(`{"error":{"message":"busy","code":503}}`, "[DONE]"), failure.Overloaded, "provider_503"},
		"an error event with a name":   {"event: error\n" + sse(`{"type":"error","code":"rate_limit_exceeded","message":"x"}`), failure.Rate, "provider_429"},
		"a code that beats its type":   {sse(`{"type":"error","error":{"type":"invalid_request_error","code":"request_timeout"}}`), failure.Unsure, "provider_timeout"},
		"an error as a line of JSON":   {sse(delta(`{"content":"a"}`)) + `{"object":"error","message":"engine died","type":"InternalServerError","code":500}` + "\n", failure.Transient, "provider_500"},
		"an error line before [DONE]":  {`{"error":{"message":"This model's maximum context length is 4096","type":"BadRequestError","code":400}}` + "\ndata: [DONE]\n\n", failure.Context, "context_too_long"},
		"an error instead of a stream": {`{"error":{"message":"x","code":502}}`, failure.Transient, "provider_502"},
		"an error inside a choice":     {sse(`{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"code":429,"message":"slow"}}]}`), failure.Rate, "provider_429"},
	} {
		r := readBody(c.body)
		require.Equal(t, c.class.String(), r.Failure.Class.String(), name)
		require.Equal(t, c.reason, r.Failure.Reason, name)
		require.False(t, r.Failure.AnswerAtFault, name)
	}
	require.Equal(t, "a", readBody(sse(delta(`{"content":"a"}`), `{"error":{"code":500}}`)).Text, "what came before was generated, and may be charged")
	require.NotEqual(t, failure.None, readBody(sse(delta(`{"content":"an error\""}`))).Failure.Class)
	require.Equal(t, failure.None, readBody(sse(delta(`{"content":"{\"error\":1}"}`), finish("stop"))).Failure.Class, "an answer about errors is none")
}

// streaming is a handler that sends the text of a stream piece by piece.
func streaming(size int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for len(body) > 0 {
			n := min(size, len(body))
			_, _ = io.WriteString(w, body[:n])
			w.(http.Flusher).Flush()
			body = body[n:]
		}
	}
}

// streamed asks for a stream, and returns the pieces of text and of tools that were told live.
func streamed(t *testing.T, c *openai.Client) (x provider.Exchange, text string, tools []provider.ToolDelta) {
	t.Helper()
	r := ask()
	r.Stream = true
	r.Heard = func(d provider.Delta) {
		text += d.Text + d.Refusal
		if d.Tool != nil {
			tools = append(tools, *d.Tool)
		}
	}
	return c.Send(t.Context(), r), text, tools
}

func TestAStreamIsAskedForWithItsUsage(t *testing.T) {
	t.Parallel()
	var body map[string]any
	var accept string
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(&body)
		accept = r.Header.Get("Accept")
		streaming(1000, sse(finish("stop")))(w, r)
	}))
	_, _, _ = streamed(t, c)
	require.Equal(t, true, body["stream"])
	require.Equal(t, map[string]any{"include_usage": true}, body["stream_options"])
	require.Equal(t, "text/event-stream", accept)
}

func TestPiecesAreToldLive(t *testing.T) {
	t.Parallel()
	body := sse(delta(`{"content":"Да"}`), delta(`{"refusal":"!"}`),
		delta(`{"tool_calls":[{"index":1,"id":"c","function":{"name":"f","arguments":"{}"}}]}`), finish("stop"), streamUsage, "[DONE]")
	for _, size := range []int{1, 7, 10000} {
		x, text, tools := streamed(t, client(t, streaming(size, body)))
		require.NoError(t, x.Err)
		require.True(t, x.Stream)
		require.Equal(t, "Да!", text)
		require.Equal(t, []provider.ToolDelta{{Index: 1, ID: "c", Name: "f", Arguments: "{}"}}, tools)
		require.Equal(t, body, string(x.Body))
		require.Equal(t, openai.Read(x, time.Time{}), readBody(string(x.Body)), "what is stored reads as what came")
	}
}

func TestAServerThatDoesNotStreamIsHeardAllTheSame(t *testing.T) {
	t.Parallel()
	x, text, tools := streamed(t, client(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"finish_reason":"stop","message":{"content":"a","tool_calls":[{"id":"c1"},{"id":"c2"}]}}]}`)
	})))
	require.False(t, x.Stream)
	require.Equal(t, "a", text)
	require.Equal(t, []provider.ToolDelta{{ID: "c1"}, {Index: 1, ID: "c2"}}, tools)
	require.Equal(t, "a", openai.Read(x, time.Time{}).Text)
}

// Case 29: 40 pieces, and then the end of the connection, in due form or not.
func TestAStreamThatIsCutOffIsUnsure(t *testing.T) {
	t.Parallel()
	var data []string
	for i := range 40 {
		data = append(data, delta(fmt.Sprintf(`{"content":"%d "}`, i)))
	}
	x, text, _ := streamed(t, client(t, streaming(1000, sse(data...))))
	require.NoError(t, x.Err)
	require.Equal(t, sse(data...), string(x.Body))
	require.True(t, strings.HasSuffix(text, " 39 "))
	r := openai.Read(x, time.Time{})
	require.Equal(t, failure.Unsure, r.Failure.Class)

	x, _, _ = streamed(t, client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		streaming(1000, sse(data...))(w, r)
		panic(http.ErrAbortHandler)
	})))
	require.Error(t, x.Err)
	require.True(t, x.Sent)
	require.Equal(t, sse(data...), string(x.Body))

	x, _, _ = streamed(t, client(t, streaming(1, "")))
	require.Equal(t, failure.Unsure, openai.Read(x, time.Time{}).Failure.Class, "a stream of nothing")
}

func TestABreakAfterTheEndOrAnErrorIsReadFromTheText(t *testing.T) {
	t.Parallel()
	for last, class := range map[string]failure.Class{
		finish("stop"): failure.None, "[DONE]": failure.None, `{"error":{"code":503,"message":"busy"}}`: failure.Overloaded,
	} {
		x, _, _ := streamed(t, client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			streaming(1000, sse(delta(`{"content":"a"}`), last))(w, r)
			panic(http.ErrAbortHandler)
		})))
		require.NoError(t, x.Err, last)
		require.Equal(t, class.String(), openai.Read(x, time.Time{}).Failure.Class.String(), last)
	}
}

func TestTheSimulatedProviderSaysTheSameInPieces(t *testing.T) {
	t.Parallel()
	handler := simulated.New(simulated.Config{Models: []string{"small-1"}}, clock.System())
	c, err := openai.New(provider.NewClient(clock.System(), provider.Local{Handler: handler}, provider.Timeouts{}), "http://simulated/v1", config.Secret{})
	require.NoError(t, err)
	r := ask()
	r.Schema, r.Messages[1].Content = nil, strings.Repeat("What is a pawl, and what is it for? ", 40)
	whole := openai.Read(c.Send(t.Context(), r), time.Time{})
	require.Equal(t, failure.None, whole.Failure.Class, whole.Failure.Message)
	require.True(t, whole.UsageKnown)

	var heard []string
	r.Stream, r.Heard = true, func(d provider.Delta) { heard = append(heard, d.Text) }
	x := c.Send(t.Context(), r)
	require.True(t, x.Stream)
	inPieces := openai.Read(x, time.Time{})
	inPieces.RequestID = whole.RequestID
	require.Equal(t, whole, inPieces)
	require.Greater(t, len(heard), 1)
	require.Equal(t, whole.Text, strings.Join(heard, ""))
}

func FuzzStreamsWithoutAnEndAreNoSuccess(f *testing.F) {
	f.Add(sse(delta(`{"content":"a"}`)) + `data: {"choices`)
	f.Add(": c\n\n" + sse(delta(`{"tool_calls":[{"index":-1,"id":"x"}]}`), streamUsage))
	f.Add("data: [DONE]")
	f.Fuzz(func(t *testing.T, body string) {
		r := readBody("data: {}\n\n" + body)
		ends := strings.Contains(body, "[DONE]") || strings.Contains(strings.ToLower(body), "finish_reason") || strings.Contains(body, `\u`)
		require.True(t, ends || r.Failure.Class != failure.None, "%q", body)
	})
}
