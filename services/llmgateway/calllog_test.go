package llmgateway_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/llmgateway"
)

const personal = "Write to ivan.petrov@example.com, pay with 4111 1111 1111 1111, and use sk-another-secret-123456789."

func TestTheCallLogKeepsTheRequestMasked(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	run := b.ids.V7()
	first := g.answer(t, b.question(run, personal))
	require.True(t, g.answer(t, b.question(run, personal)).GetReplayed(), "the key is that of the unmasked request")
	other := g.answer(t, b.question(run, "Write to maria.petrova@example.com, pay with 4111 1111 1111 1111, and use sk-another-secret-123456789."))
	require.NotEqual(t, first.GetCallKey(), other.GetCallKey(), "what is masked alike is not the same question")

	got, err := g.GetCall(t.Context(), &systemv1.GetCallRequest{Tenant: "acme", RunId: run[:], CallKey: first.GetCallKey()})
	require.NoError(t, err)
	call := got.GetCall()
	var request struct {
		Route    string
		Messages []struct{ Role, Content string }
		Params   map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(call.GetRequest().GetJson()), &request))
	require.Equal(t, "default", request.Route)
	require.Equal(t, "Write to [EMAIL], pay with [CARD], and use [KEY].", request.Messages[0].Content)
	require.InDelta(t, 100, request.Params["max_output_tokens"], 0)
	require.Equal(t, int32(1), call.GetReplays())
	require.Equal(t, "v", call.GetPromptVersion())
	require.Len(t, call.GetTries(), 1)
	try := call.GetTries()[0]
	require.Contains(t, string(try.GetRawAnswer()), `"choices"`)
	require.Equal(t, "answered", try.GetState())
	require.Equal(t, "LLM_KEY", try.GetKeyId())
	require.Equal(t, "stop", try.GetFinishReason())
	require.Equal(t, "counted", try.GetCostBasis())
	require.Equal(t, "openai", try.GetFormat())
	require.NotEmpty(t, try.GetProviderRequestId())
	require.Positive(t, try.GetFirstByte().AsDuration())
	require.LessOrEqual(t, try.GetFirstByte().AsDuration(), try.GetLatency().AsDuration())

	for name, req := range map[string]*systemv1.GetCallRequest{
		"another tenant": {Tenant: "rival", RunId: run[:], CallKey: first.GetCallKey()},
		"another key":    {Tenant: "acme", RunId: run[:], CallKey: make([]byte, 32)},
	} {
		_, err := g.GetCall(t.Context(), req)
		require.Equal(t, codes.NotFound, fault.CodeOf(err), "%s: %v", name, err)
	}
}

func TestTheCallLogMayKeepNothingOfRequests(t *testing.T) {
	b := newBench(t)
	g := b.gateway(func(c *llmgateway.Config) { c.LogRequests = "none" })
	run := b.ids.V7()
	a := g.answer(t, b.question(run, personal))
	require.True(t, g.answer(t, b.question(run, personal)).GetReplayed())
	got, err := g.GetCall(t.Context(), &systemv1.GetCallRequest{Tenant: "acme", RunId: run[:], CallKey: a.GetCallKey()})
	require.NoError(t, err)
	require.Nil(t, got.GetCall().Request)
	require.Equal(t, "null", one[string](b, "SELECT request::text FROM llm.llm_call_log"))
}

// misread makes the store look as if the answers had been read by a faulty reader: paid for, and taken for failures.
func (b *bench) misread(run uuid.UUID) {
	b.t.Helper()
	for _, statement := range []string{
		`UPDATE llm.llm_try SET state = 'failed', reason = 'misread', finish_reason = 'unreadable', cost = 0, input_tokens = 0,
			output_tokens = 0 WHERE run_id = $1`,
		`UPDATE llm.llm_call_log SET state = 'failed', winning_try = NULL, cost = 0 WHERE run_id = $1`,
		`UPDATE llm.run_spend SET spent = 0, version = version + 1 WHERE run_id = $1`,
	} {
		_, err := b.database.Pool.Exec(b.t.Context(), statement, run)
		require.NoError(b.t, err)
	}
}

// reparse reads the stored answers again.
func (b *bench) reparse(o llmgateway.ReparseOptions) (read int, found []llmgateway.Reparsed) {
	b.t.Helper()
	var err error
	o.Prices, err = llmgateway.PricesOf(b.models(), os.LookupEnv, clock.System().Now())
	require.NoError(b.t, err)
	read, err = llmgateway.Reparse(b.t.Context(), b.database.Pool, clock.System().Now(), o, func(r llmgateway.Reparsed) { found = append(found, r) })
	require.NoError(b.t, err)
	return read, found
}

func TestI02_AnAnswerThatWasMisreadIsCorrectedAndReplayedWithoutAskingAgain(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	run, other := b.ids.V7(), b.ids.V7()
	first := g.answer(t, b.question(run, "a"))
	g.answer(t, b.question(other, "a"))
	b.misread(run)
	asked := b.main.received()

	read, found := b.reparse(llmgateway.ReparseOptions{Run: run})
	require.Equal(t, 1, read)
	require.Len(t, found, 1)
	require.False(t, found[0].Corrected)
	require.Equal(t, "misread", found[0].Before.Outcome.Reason)
	require.Equal(t, "failed", one[string](b, "SELECT state FROM llm.llm_try WHERE run_id = $1", run), "nothing is changed without being told to")

	now := clock.System().Now()
	read, found = b.reparse(llmgateway.ReparseOptions{From: now.Add(-time.Hour), To: now.Add(time.Hour), Format: "openai", Apply: true})
	require.Equal(t, 2, read)
	require.Len(t, found, 1, "an answer that reads as before is left alone")
	require.True(t, found[0].Corrected)
	require.Equal(t, first.GetCostPicoUsd(), int64(found[0].After.Cost))
	b.balanced()
	require.Equal(t, usd(t, one[string](b, "SELECT spent::text FROM llm.run_spend WHERE run_id = $1", run)), first.GetCostPicoUsd())

	_, found = b.reparse(llmgateway.ReparseOptions{Run: run, Apply: true})
	require.Empty(t, found, "what is corrected stays so")

	again := g.answer(t, b.question(run, "a"))
	require.True(t, again.GetReplayed())
	require.Equal(t, first.GetText(), again.GetText())
	// A person's retry asks under the next number; it gets the corrected answer too, and always the same question does.
	retried := b.question(run, "a")
	retried.Ask = 1
	for range 2 {
		a := g.answer(t, retried)
		require.True(t, a.GetReplayed())
		require.Equal(t, first.GetText(), a.GetText())
	}
	require.Equal(t, asked, b.main.received(), "nobody was asked")
	// A step that has no use for it asks anew.
	retried.Ask = 2
	require.False(t, g.answer(t, retried).GetReplayed())
	require.Equal(t, asked+1, b.main.received())
	b.balanced()
}

func TestReparseReadsNothingOfOthers(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	run := b.ids.V7()
	g.answer(t, b.question(run, "a"))
	now := clock.System().Now()
	for name, o := range map[string]llmgateway.ReparseOptions{
		"another form": {Run: run, Format: "anthropic"},
		"another run":  {Run: b.ids.V7()},
		"before":       {From: now.Add(-2 * time.Hour), To: now.Add(-time.Hour)},
		"after":        {From: now.Add(time.Hour), To: now.Add(2 * time.Hour)},
	} {
		read, found := b.reparse(o)
		require.Zero(t, read, name)
		require.Empty(t, found, name)
	}
}
