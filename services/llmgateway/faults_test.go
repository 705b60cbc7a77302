package llmgateway_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/llmgateway/provider/simulated"
	"pawl.internal/services/testkit"
)

func replace(text, old, replacement string) string {
	if !strings.Contains(text, old) {
		panic("nothing to replace: " + old)
	}
	return strings.ReplaceAll(text, old, replacement)
}

func inf() float64 { return math.Inf(1) }

const (
	transient = systemv1.Outcome_FAILURE_CLASS_TRANSIENT
	permanent = systemv1.Outcome_FAILURE_CLASS_PERMANENT
	ambiguous = systemv1.Outcome_FAILURE_CLASS_AMBIGUOUS
)

// Every way in which a provider fails, with what the step is told and what is booked.
func TestFailuresOfProviders(t *testing.T) {
	b := newBench(t)
	b.change = func(s string) string {
		return "breaker: {failures: 1000}" + replace(s, "first_byte: 10s", "first_byte: 300ms, idle: 300ms")
	}
	g := b.gateway(nil)
	for name, c := range map[string]struct {
		fault   simulated.Fault
		class   systemv1.Outcome_FailureClass
		reason  string
		state   string
		basis   string
		atFault bool
		park    bool
	}{
		"400":            {simulated.Fault{Kind: "400"}, permanent, "invalid_input", "failed", "counted", false, false},
		"429":            {simulated.Fault{Kind: "429"}, transient, "provider_429", "failed", "counted", false, false},
		"503 with wait":  {simulated.Fault{Kind: "503", Argument: "7s"}, transient, "provider_503", "failed", "counted", false, true},
		"500":            {simulated.Fault{Kind: "500"}, transient, "provider_500", "failed", "counted", false, false},
		"529":            {simulated.Fault{Kind: "529"}, transient, "provider_529", "failed", "counted", false, false},
		"quota":          {simulated.Fault{Kind: "quota"}, permanent, "quota_exhausted", "failed", "counted", false, false},
		"context":        {simulated.Fault{Kind: "context_length"}, permanent, "context_too_long", "failed", "counted", false, false},
		"error in 200":   {simulated.Fault{Kind: "error_in_200"}, transient, "provider_500", "failed", "counted", false, false},
		"hang":           {simulated.Fault{Kind: "hang"}, ambiguous, "provider_timeout", "ambiguous", "worst_case", false, false},
		"keep-alive":     {simulated.Fault{Kind: "keep_alive", Argument: "50ms"}, ambiguous, "provider_timeout", "ambiguous", "worst_case", false, false},
		"cut":            {simulated.Fault{Kind: "cut"}, ambiguous, "network", "ambiguous", "worst_case", false, false},
		"cut body":       {simulated.Fault{Kind: "cut_body"}, ambiguous, "network", "ambiguous", "worst_case", false, false},
		"unfinished":     {simulated.Fault{Kind: "unfinished"}, transient, "json_validation_error", "failed", "estimated", false, false},
		"not JSON":       {simulated.Fault{Kind: "not_json"}, transient, "json_validation_error", "failed", "estimated", false, false},
		"empty":          {simulated.Fault{Kind: "empty"}, transient, "answer_empty", "answered", "counted", true, false},
		"truncated":      {simulated.Fault{Kind: "truncated"}, permanent, "truncated", "answered", "counted", true, false},
		"content filter": {simulated.Fault{Kind: "content_filter"}, permanent, "content_refused", "answered", "counted", true, false},
		"refusal":        {simulated.Fault{Kind: "refusal"}, permanent, "content_refused", "answered", "counted", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			run := b.ids.V7()
			c.fault.Count = 1
			b.main.inject(t, c.fault)
			f := g.failure(t, b.question(run, "What is a pawl, and what is it for?"))
			require.Equal(t, c.class, f.GetClass())
			require.Equal(t, c.reason, f.GetReason())
			require.Equal(t, c.atFault, f.GetAnswerAtFault())
			require.Equal(t, c.park, f.GetPark())
			require.Equal(t, int32(1), f.GetCalls())
			require.NotEmpty(t, f.GetMessage())
			if c.park {
				require.GreaterOrEqual(t, f.GetRetryAfter().AsDuration(), 7*time.Second)
			}
			require.Equal(t, c.state, one[string](b, "SELECT state FROM llm.llm_call_log WHERE run_id = $1", run))
			require.Equal(t, c.basis, one[string](b, "SELECT cost_basis FROM llm.llm_try WHERE run_id = $1", run))
			paid := c.state == "answered" || c.basis != "counted"
			require.Equal(t, paid, f.GetCostPicoUsd() > 0, "cost %d", f.GetCostPicoUsd())
			b.balanced()
		})
	}
}

// A stated wait holds for everybody who counts toward the same limit: nobody asks again before, and nobody waits in line for
// so long.
func TestAStatedWaitIsForTheWholeGroup(t *testing.T) {
	b := newBench(t)
	gateways := []*gateway{b.gateway(nil), b.gateway(nil)}
	b.main.inject(t, simulated.Fault{Kind: "429", Argument: "30s", Count: 1})
	first := gateways[0].failure(t, b.question(b.ids.V7(), "a"))
	require.True(t, first.GetPark())
	require.Equal(t, int32(1), first.GetCalls())
	testkit.Eventually(t, patience, func() error {
		q := b.question(b.ids.V7(), "b")
		q.DeadlineIn = durationpb.New(time.Minute)
		s, err := gateways[1].ask(t.Context(), q)
		if err != nil || s.failure == nil {
			return fmt.Errorf("the other gateway has not heard of it: %v %w", s.answer, err)
		}
		require.Equal(t, transient, s.failure.GetClass())
		require.Equal(t, "provider_429", s.failure.GetReason())
		require.True(t, s.failure.GetPark())
		require.Greater(t, s.failure.GetRetryAfter().AsDuration(), 20*time.Second)
		require.Zero(t, s.failure.GetCalls(), "it spends no attempt")
		require.False(t, s.granted)
		return nil
	})
	q := b.question(b.ids.V7(), "c")
	q.DeadlineIn = durationpb.New(10 * time.Second)
	require.Equal(t, "deadline_exceeded", gateways[0].failure(t, q).GetReason(), "the run ends before the wait does")
	q.Route = "wide"
	require.Equal(t, "spare", gateways[0].answer(t, q).GetProvider(), "another account is not concerned")
}

// What failed may be asked again; what was answered, however badly, is answered so again without a request.
func TestWhatIsAskedAgain(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	run := b.ids.V7()
	b.main.inject(t, simulated.Fault{Kind: "500", Count: 1})
	require.Equal(t, "provider_500", g.failure(t, b.question(run, "a")).GetReason())
	require.Equal(t, int32(1), g.answer(t, b.question(run, "a")).GetCalls())
	require.Equal(t, 2, b.main.received())

	b.main.inject(t, simulated.Fault{Kind: "truncated", Count: 1})
	first := g.failure(t, b.question(run, "b"))
	again := g.failure(t, b.question(run, "b"))
	require.Equal(t, "truncated", again.GetReason())
	require.True(t, again.GetAnswerAtFault())
	require.Equal(t, first.GetCostPicoUsd(), again.GetCostPicoUsd())
	require.Zero(t, again.GetCalls())
	require.Equal(t, 3, b.main.received())
	q := b.question(run, "b")
	q.Ask = 1
	g.answer(t, q)
	require.Equal(t, 4, b.main.received())
}

func TestFallbackToTheNextTarget(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	for name, c := range map[string]struct {
		fault         string
		failures      int32
		fallbackAfter int32
		provider      string
	}{
		"a passing failure":        {"500", 0, 1, "spare"},
		"overload":                 {"503", 0, 1, "spare"},
		"a limit of another group": {"429", 0, 1, "spare"},
		"the second failure":       {"500", 1, 2, "spare"},
		"the first of two":         {"500", 0, 2, ""},
		"a wrong request":          {"400", 0, 1, ""},
		"a refused key":            {"echo_key", 0, 1, ""},
		"unknown fate":             {"cut", 0, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b.main.inject(t, simulated.Fault{Kind: c.fault, Count: 1})
			q := b.question(b.ids.V7(), "a")
			q.Route, q.Failures, q.FallbackAfter = "wide", c.failures, c.fallbackAfter
			s, err := g.ask(t.Context(), q)
			require.NoError(t, err)
			if c.provider == "" {
				require.NotNil(t, s.failure)
				require.Equal(t, int32(1), s.failure.GetCalls())
				return
			}
			require.Equal(t, c.provider, s.answer.GetProvider())
			require.Equal(t, int32(2), s.answer.GetCalls())
			require.Equal(t, 2, one[int](b, "SELECT tries FROM llm.llm_call_log ORDER BY created_at DESC LIMIT 1"))
		})
	}
	b.balanced()
}

func TestWhenAllTargetsFailTheOneThatPassesSoonestCounts(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	b.main.inject(t, simulated.Fault{Kind: "429", Argument: "30s"})
	b.spare.inject(t, simulated.Fault{Kind: "503", Argument: "5s"})
	q := b.question(b.ids.V7(), "a")
	q.Route = "wide"
	f := g.failure(t, q)
	require.Equal(t, "provider_503", f.GetReason())
	require.Equal(t, 5*time.Second, f.GetRetryAfter().AsDuration())
	require.Equal(t, int32(2), f.GetCalls())
}

func TestNoMoreRequestsThanTheStepMaySend(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	b.main.inject(t, simulated.Fault{Kind: "500"})
	q := b.question(b.ids.V7(), "a")
	q.Route, q.CallsLeft = "wide", 1
	require.Equal(t, int32(1), g.failure(t, q).GetCalls())
	require.Zero(t, b.spare.received())
}

func TestALongRequestGoesToTheLargerModel(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	b.main.inject(t, simulated.Fault{Kind: "context_length", Model: "small"})
	q := b.question(b.ids.V7(), "a")
	q.Route = "long"
	require.Equal(t, "large", g.answer(t, q).GetModel())
}

// After a request of unknown fate the next one goes to the target that matches timeouts.
func TestAfterATimeoutTheOtherTargetIsAsked(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	b.main.inject(t, simulated.Fault{Kind: "hang", Model: "small"})
	q := b.question(b.ids.V7(), "a")
	q.Route, q.LlmTimeout = "long", durationpb.New(300*time.Millisecond)
	f := g.failure(t, q)
	require.Equal(t, ambiguous, f.GetClass())
	require.Equal(t, "provider_timeout", f.GetReason())
	q.AmbiguousOk, q.LlmTimeout = 1, durationpb.New(5*time.Second)
	a := g.answer(t, q)
	require.Equal(t, "large", a.GetModel())
	require.Greater(t, a.GetCostPicoUsd(), f.GetCostPicoUsd(), "both are booked")
	b.balanced()
}
