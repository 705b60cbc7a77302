package llmgateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	systemv1 "pawl.internal/gen/pawl/system/v1"
)

// serve makes the provider main one of the format that answers with the body, and counts what it is asked.
func (b *bench) serve(format, contentType, body string) *atomic.Int64 {
	b.t.Helper()
	asked := &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		asked.Add(1)
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}))
	b.t.Cleanup(server.Close)
	b.change = func(s string) string {
		return strings.Replace(s, "kind: openai, base_url: "+b.main.url, "kind: "+format+", base_url: "+server.URL, 1)
	}
	return asked
}

// messageEvents is a stream of Anthropic's, up to its last event: 900 tokens in, of which a cache had none, and 100 out, which are counted from the answer's
// beginning in every event.
const messageEvents = `event: message_start
data: {"type":"message_start","message":{"type":"message","content":[],"usage":{"input_tokens":900,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Let me "}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"see."}}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"weather","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"city\": \"Псков\"}"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":100}}

`

const messageStop = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"

func TestAStreamOfAnthropicsIsAnsweredStoredAndReplayed(t *testing.T) {
	b := newBench(t)
	asked := b.serve("anthropic", "text/event-stream", messageEvents+messageStop)
	g := b.gateway(nil)
	q := b.question(b.ids.V7(), "Weather?")
	q.Tools = []*systemv1.Tool{{Name: "weather"}}
	q.Params.MaxOutputTokens = proto.Int32(50_000) // too long for a document
	for _, replayed := range []bool{false, true} {
		a := g.answer(t, q)
		require.Equal(t, replayed, a.GetReplayed())
		require.Equal(t, "Let me see.", a.GetText())
		require.Len(t, a.GetToolCalls(), 1)
		require.Equal(t, `{"city":"Псков"}`, a.GetToolCalls()[0].GetArguments())
		require.Equal(t, int64(900), a.GetInputTokens())
		require.Equal(t, int64(100), a.GetOutputTokens())
		require.Equal(t, int64(900*500_000+100*2_000_000), a.GetCostPicoUsd(), "at $0.50 and $2.00 a million")
	}
	require.Equal(t, int64(1), asked.Load())
}

func TestAStreamThatEndsEarlyIsOfUnknownFate(t *testing.T) {
	b := newBench(t)
	b.serve("anthropic", "text/event-stream", messageEvents)
	g := b.gateway(nil)
	q := b.question(b.ids.V7(), "Weather?")
	q.Params.MaxOutputTokens = proto.Int32(50_000)
	s, err := g.ask(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, systemv1.Outcome_FAILURE_CLASS_AMBIGUOUS, s.failure.GetClass())
	require.Equal(t, len(messageEvents), one[int](b, "SELECT octet_length(answer) FROM llm.llm_try"), "what came is kept")
}

func TestAGeminiAnswerIsBilledWithItsThoughts(t *testing.T) {
	b := newBench(t)
	b.serve("gemini", "application/json", `{"candidates":[{"content":{"parts":[{"text":"Seven"}]},"finishReason":"STOP"}],
		"usageMetadata":{"promptTokenCount":20,"candidatesTokenCount":198,"thoughtsTokenCount":405,"totalTokenCount":623},"responseId":"kP2s"}`)
	a := b.gateway(nil).answer(t, b.question(b.ids.V7(), "How many?"))
	require.Equal(t, "Seven", a.GetText())
	require.Equal(t, int64(603), a.GetOutputTokens())
	require.Equal(t, int64(20*500_000+603*2_000_000), a.GetCostPicoUsd())
	require.Equal(t, "kP2s", one[string](b, "SELECT provider_request_id FROM llm.llm_try"))
}

// Case 11: whatever the route says comes next, a call that no format can express fails at once, and nothing is spent on it.
func TestArgumentsThatAreNoJSONAreRefusedBeforeAnythingIsSent(t *testing.T) {
	b := newBench(t)
	asked := b.serve("anthropic", "application/json", "{}")
	g := b.gateway(nil)
	q := b.question(b.ids.V7(), "Weather?")
	q.Route = "wide"
	q.Messages = append(q.Messages,
		&systemv1.Message{Role: "assistant", ToolCalls: []*systemv1.ToolCall{{Id: "call_1", Name: "weather", Arguments: `{"x":`}}},
		&systemv1.Message{Role: "tool", ToolCallId: "call_1", Content: "rain"})
	s, err := g.ask(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, systemv1.Outcome_FAILURE_CLASS_PERMANENT, s.failure.GetClass())
	require.Equal(t, "invalid_input", s.failure.GetReason())
	require.Contains(t, s.failure.GetMessage(), "messages[1].tool_calls[0].arguments")
	require.Zero(t, s.failure.GetCalls())
	require.False(t, s.granted, "it waits for no permit")
	require.Zero(t, asked.Load())
	require.Equal(t, 0, one[int](b, "SELECT count(*) FROM llm.llm_call_log"), "nothing was about to be sent")
	require.Zero(t, b.spare.received())
}

func TestTextsAreEmbedded(t *testing.T) {
	b := newBench(t)
	asked := b.serve("openai", "application/json",
		`{"data":[{"index":1,"embedding":[0.5]},{"index":0,"embedding":"AACAPw=="}],"usage":{"prompt_tokens":8,"total_tokens":8}}`)
	g := b.gateway(nil)
	q := b.question(b.ids.V7(), "")
	q.Messages, q.Embed = nil, []string{"один", "два"}
	for _, replayed := range []bool{false, true} {
		a := g.answer(t, q)
		require.Equal(t, replayed, a.GetReplayed())
		require.Equal(t, []float32{1}, a.GetEmbeddings()[0].GetValues())
		require.Equal(t, []float32{0.5}, a.GetEmbeddings()[1].GetValues())
		require.Equal(t, int64(8*500_000), a.GetCostPicoUsd())
	}
	require.Equal(t, int64(1), asked.Load())

	one := b.question(b.ids.V7(), "")
	one.Messages, one.Embed = nil, []string{"один"}
	s, err := g.ask(t.Context(), one)
	require.NoError(t, err)
	require.Equal(t, "json_validation_error", s.failure.GetReason(), "there are vectors of other texts than those that were sent")
}
