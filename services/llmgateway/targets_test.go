package llmgateway_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/llmgateway/provider/simulated"
	"pawl.internal/services/testkit"
)

// withKeys makes the main provider one that accepts some of five keys of one account.
func (b *bench) withKeys(t *testing.T, good ...string) {
	t.Helper()
	p := simulated.New(simulated.Config{Models: []string{"small", "large"}, APIKeys: good}, clock.System())
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	b.main = &upstream{Provider: p, url: server.URL + "/v1"}
	var names []string
	for i := 1; i <= 5; i++ {
		name := fmt.Sprint("KEY_", i)
		t.Setenv(name, keyNo(i))
		names = append(names, "{env: "+name+"}")
	}
	b.change = func(s string) string {
		return replace(s, "api_key_env: LLM_KEY", "api_keys: ["+strings.Join(names, ", ")+"]")
	}
}

func keyNo(i int) string { return fmt.Sprintf("sk-key-number-%d-0123456789", i) }

// metric reads one value.
func (g *gateway) metric(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := g.metrics.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if strings.Join(values, " ") == strings.Join(labels, " ") {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return -1
}

// Keys that the provider refuses are walked past at once: that spends none of the requests that the step may send, and
// somebody is told of each of them.
func TestRefusedKeysAreWalkedPast(t *testing.T) {
	b := newBench(t)
	b.withKeys(t, keyNo(5))
	g := b.gateway(nil)
	run := b.ids.V7()
	q := b.question(run, "a")
	q.CallsLeft, q.Failures, q.FallbackAfter = 1, 0, 2
	a := g.answer(t, q)
	require.Equal(t, int32(1), a.GetCalls(), "the walk is not counted")
	require.Equal(t, 5, b.main.received())
	require.Equal(t, "KEY_1 KEY_2 KEY_3 KEY_4 KEY_5", one[string](b, "SELECT string_agg(key_id, ' ' ORDER BY try_no) FROM llm.llm_try"))
	require.Equal(t, 4, strings.Count(b.log.String(), "provider refuses our key"))
	for i := 1; i <= 5; i++ {
		want := 1.0
		if i == 5 {
			want = 0
		}
		require.InDelta(t, want, g.metric(t, "pawl_llm_gateway_key_refused", fmt.Sprint("KEY_", i), "main"), 0)
		require.NotContains(t, b.log.String(), keyNo(i))
	}
	for i := range 10 {
		g.answer(t, b.question(run, fmt.Sprint("again ", i)))
	}
	require.Equal(t, 15, b.main.received(), "who was refused is left alone")
	b.balanced()
}

func TestWhenEveryKeyIsRefusedThatIsTheFailure(t *testing.T) {
	b := newBench(t)
	b.withKeys(t, "another key that nobody has")
	g := b.gateway(nil)
	q := b.question(b.ids.V7(), "a")
	q.Route = "wide"
	f := g.failure(t, q)
	require.Equal(t, permanent, f.GetClass())
	require.Equal(t, "auth", f.GetReason())
	require.Equal(t, int32(1), f.GetCalls(), "the last one counts")
	require.Equal(t, 5, b.main.received())
	require.Zero(t, b.spare.received(), "somebody must act: another target would hide it")
	g.failure(t, b.question(b.ids.V7(), "b"))
	require.Equal(t, 6, b.main.received(), "then one at a time")
}

// A project that has no money left is one key's; another key is asked, which counts.
func TestAnotherProjectsKeyIsAsked(t *testing.T) {
	b := newBench(t)
	b.withKeys(t)
	g := b.gateway(nil)
	b.main.inject(t, simulated.Fault{Kind: "reply", Count: 1, Reply: &simulated.Reply{
		Status: 429, Body: `{"error":{"message":"no more","type":"insufficient_quota","code":"project_spend_limit_exceeded"}}`,
	}})
	a := g.answer(t, b.question(b.ids.V7(), "a"))
	require.Equal(t, int32(2), a.GetCalls())
	require.Equal(t, "KEY_1 KEY_2", one[string](b, "SELECT string_agg(key_id, ' ' ORDER BY try_no) FROM llm.llm_try"))
}

// An account without money is left alone as long as there is another; one call now and then looks whether it is so still.
func TestAnEmptyAccountIsLeftAlone(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	b.main.inject(t, simulated.Fault{Kind: "quota"})
	ask := func(route string) *systemv1.GenerateRequest {
		q := b.question(b.ids.V7(), "a")
		q.Route, q.FallbackAfter = route, 2
		return q
	}
	a := g.answer(t, ask("wide"))
	require.Equal(t, "spare", a.GetProvider())
	require.Equal(t, int32(2), a.GetCalls())
	a = g.answer(t, ask("wide"))
	require.Equal(t, "spare", a.GetProvider())
	require.Equal(t, int32(1), a.GetCalls(), "it was known")
	require.Equal(t, "quota_exhausted", g.failure(t, ask("default")).GetReason(), "without another target it is asked")
	require.Equal(t, 2, b.main.received())
}

// A target that does not work rests; calls go to the next one, or wait without spending an attempt; after the pause one
// request finds out.
func TestATargetThatDoesNotWorkRests(t *testing.T) {
	b := newBench(t)
	b.change = func(s string) string { return "breaker: {failures: 3, window: 1m, pause: 1500ms}" + s }
	first, second := b.gateway(nil), b.gateway(nil)
	b.main.inject(t, simulated.Fault{Kind: "500", Model: "small"})
	for range 3 {
		require.Equal(t, "provider_500", first.failure(t, b.question(b.ids.V7(), "a")).GetReason())
	}
	testkit.Eventually(t, patience, func() error {
		if second.metric(t, "pawl_llm_gateway_breaker_open", "main/small") != 1 {
			return fmt.Errorf("the other gateway has not heard of it")
		}
		return nil
	})
	for _, g := range []*gateway{first, second} {
		f := g.failure(t, b.question(b.ids.V7(), "b"))
		require.Equal(t, transient, f.GetClass())
		require.Equal(t, "breaker_open", f.GetReason())
		require.True(t, f.GetPark())
		require.Positive(t, f.GetRetryAfter().AsDuration())
		require.LessOrEqual(t, f.GetRetryAfter().AsDuration(), 1500*time.Millisecond)
		require.Zero(t, f.GetCalls(), "it spends no attempt")
		q := b.question(b.ids.V7(), "c")
		q.Route, q.FallbackAfter = "wide", 2
		require.Equal(t, "spare", g.answer(t, q).GetProvider())
	}
	require.Equal(t, 3, b.main.received())
	b.main.DeleteFaults()
	testkit.Eventually(t, patience, func() error {
		s, err := second.ask(t.Context(), b.question(b.ids.V7(), "d"))
		if err != nil || s.answer == nil {
			return fmt.Errorf("it still rests: %v %w", s.failure, err)
		}
		return nil
	})
	require.InDelta(t, 0, second.metric(t, "pawl_llm_gateway_breaker_open", "main/small"), 0)
	require.Equal(t, 4, b.main.received(), "the probe")
	b.balanced()
}

// What callers do wrong, and limits, say nothing against a target.
func TestRefusalsOpenNoBreaker(t *testing.T) {
	b := newBench(t)
	b.change = func(s string) string { return "breaker: {failures: 1, window: 1m, pause: 1m}" + s }
	g := b.gateway(nil)
	for _, kind := range []string{"400", "429", "context_length", "truncated", "content_filter", "refusal", "empty", "model_not_found", "echo_key"} {
		b.main.inject(t, simulated.Fault{Kind: kind, Count: 1})
		require.NotEqual(t, "breaker_open", g.failure(t, b.question(b.ids.V7(), kind)).GetReason(), kind)
	}
	g.answer(t, b.question(b.ids.V7(), "a"))
}

// When a second permit is awaited, behind the failure of the first target, the step hears of that wait too: its clock stands
// still meanwhile.
func TestASecondWaitIsTold(t *testing.T) {
	b := newBench(t)
	b.change = func(s string) string { return replace(s, "limits:", "limits:\n  spare: {concurrency: 1}") }
	g := b.gateway(nil)
	letGo := b.spare.hold(t)
	b.main.inject(t, simulated.Fault{Kind: "500", Model: "small"})
	busy := make(chan story, 1)
	go func() {
		q := b.question(b.ids.V7(), "x")
		q.Route = "wide"
		s, _ := g.ask(t.Context(), q)
		busy <- s
	}()
	b.spare.awaitInFlight(t, 1)
	q := b.question(b.ids.V7(), "a")
	q.Route = "wide"
	stream, err := g.Generate(t.Context(), q)
	require.NoError(t, err)
	var heard []string
	for news, err := stream.Recv(); err == nil; news, err = stream.Recv() {
		switch {
		case news.GetWaiting().GetLimit() == "account": // perhaps, for a moment
		case news.GetWaiting() != nil:
			heard = append(heard, "waiting for "+news.GetWaiting().GetLimit())
			letGo()
		case news.GetGranted() != nil:
			heard = append(heard, "granted")
			if len(heard) > 1 {
				require.Positive(t, news.GetGranted().GetPermitWait().AsDuration())
			}
		case news.GetAnswer() != nil:
			heard = append(heard, "answer of "+news.GetAnswer().GetProvider())
		}
	}
	require.Equal(t, []string{"granted", "waiting for spare", "granted", "answer of spare"}, heard)
	require.NotNil(t, (<-busy).answer)
}

// A target for timeouts may be asked less than the whole question. The key and what is stored of the question stay the same,
// and the request says that it was cut.
func TestAfterATimeoutAShorterQuestionMayBeAsked(t *testing.T) {
	b := newBench(t)
	b.change = func(s string) string {
		return replace(s, "match: [context_too_long, timeout]", "match: [timeout], max_input_tokens: 300")
	}
	g := b.gateway(nil)
	b.main.inject(t, simulated.Fault{Kind: "hang", Model: "small"})
	run := b.ids.V7()
	question := func() *systemv1.GenerateRequest {
		q := b.question(run, strings.Repeat("Words of a contract. ", 500))
		q.Route, q.LlmTimeout = "long", durationpb.New(300*time.Millisecond)
		return q
	}
	f := g.failure(t, question())
	require.Equal(t, ambiguous, f.GetClass())
	q := question()
	q.AmbiguousOk, q.LlmTimeout = 1, durationpb.New(5*time.Second)
	a := g.answer(t, q)
	require.Equal(t, "large", a.GetModel())
	require.Equal(t, f.GetCallKey(), a.GetCallKey())
	input := one[int](b, "SELECT input_tokens FROM llm.llm_try WHERE try_no = 2")
	require.LessOrEqual(t, input, 310)
	require.Greater(t, input, 200)
	require.Contains(t, one[string](b, "SELECT message FROM llm.llm_try WHERE try_no = 2"), "of the question's 10500 bytes")
	require.Equal(t, 2, one[int](b, "SELECT count(*)::int FROM llm.llm_try WHERE run_id = $1", run))
	b.balanced()
}
