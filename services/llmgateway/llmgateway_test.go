package llmgateway_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/llmgateway"
	"pawl.internal/services/llmgateway/provider/simulated"
	"pawl.internal/services/testkit"
)

func TestAQuestionIsAnsweredStoredAndBooked(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	run := b.ids.V7()
	s, err := g.ask(t.Context(), b.question(run, "What is a pawl?"))
	require.NoError(t, err)
	require.True(t, s.granted)
	a := s.answer
	require.NotEmpty(t, a.GetText())
	require.Equal(t, "main", a.GetProvider())
	require.Equal(t, "small", a.GetModel())
	require.Equal(t, "stop", a.GetFinishReason())
	require.Equal(t, int32(1), a.GetCalls())
	require.False(t, a.GetReplayed())
	require.Len(t, a.GetCallKey(), 32)
	require.Equal(t, a.GetInputTokens()*500_000+a.GetOutputTokens()*2_000_000, a.GetCostPicoUsd())
	require.Equal(t, a.GetCostPicoUsd(), a.GetRunSpend().GetSpentPicoUsd())
	require.Equal(t, int64(1), a.GetRunSpend().GetVersion())

	log, err := g.ListCalls(t.Context(), &systemv1.ListCallsRequest{Tenant: "acme", RunId: run[:]})
	require.NoError(t, err)
	require.Len(t, log.GetCalls(), 1)
	require.Equal(t, "answered", log.GetCalls()[0].GetState())
	require.Equal(t, int32(200), log.GetCalls()[0].GetTries()[0].GetHttpStatus())
	require.Contains(t, one[string](b, "SELECT convert_from(answer, 'UTF8') FROM llm.llm_try"), `"choices"`)
	require.Equal(t, "counted", one[string](b, "SELECT cost_basis FROM llm.llm_try"))
	require.Equal(t, "LLM_KEY", one[string](b, "SELECT key_id FROM llm.llm_try"))
	b.balanced()
}

func TestI02_AFinishedCallIsReplayed(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	run := b.ids.V7()
	first := g.answer(t, b.question(run, "a"))
	second := g.answer(t, b.question(run, "a"))
	require.True(t, second.GetReplayed())
	require.Zero(t, second.GetCalls())
	for _, field := range []func(*systemv1.Answer) any{
		func(a *systemv1.Answer) any { return a.GetText() }, func(a *systemv1.Answer) any { return a.GetFinishReason() },
		func(a *systemv1.Answer) any { return a.GetModel() }, func(a *systemv1.Answer) any { return a.GetCostPicoUsd() },
		func(a *systemv1.Answer) any { return a.GetInputTokens() }, func(a *systemv1.Answer) any { return a.GetOutputTokens() },
		func(a *systemv1.Answer) any { return a.GetRunSpend().GetSpentPicoUsd() },
	} {
		require.Equal(t, field(first), field(second))
	}
	require.Equal(t, 1, b.main.received())
	require.Equal(t, 1, one[int](b, "SELECT replays FROM llm.llm_call_log"))
	g.stop()
	require.True(t, b.gateway(nil).answer(t, b.question(run, "a")).GetReplayed(), "also after a restart")
	require.Equal(t, 1, b.main.received())
}

func TestWhatTheKeyCovers(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	run := b.ids.V7()
	same := map[string]func(*systemv1.GenerateRequest){
		"timeouts":  func(q *systemv1.GenerateRequest) { q.LlmTimeout = durationpb.New(9 * time.Second) },
		"deadline":  func(q *systemv1.GenerateRequest) { q.DeadlineIn = durationpb.New(9 * time.Second) },
		"budget":    func(q *systemv1.GenerateRequest) { q.BudgetPicoUsd = proto.Int64(1_000_000_000_000) },
		"failures":  func(q *systemv1.GenerateRequest) { q.Failures, q.CallsLeft = 1, 3 },
		"version":   func(q *systemv1.GenerateRequest) { q.PromptVersion = "other" },
		"no params": func(q *systemv1.GenerateRequest) { q.Params.Stop = []string{} },
	}
	other := map[string]func(*systemv1.GenerateRequest){
		"run":        func(q *systemv1.GenerateRequest) { id := b.ids.V7(); q.Step.RunId = id[:] },
		"step":       func(q *systemv1.GenerateRequest) { q.Step.Step = "summary" },
		"shard":      func(q *systemv1.GenerateRequest) { q.Step.Shard = 0 },
		"generation": func(q *systemv1.GenerateRequest) { q.Step.Generation = 1 },
		"ask":        func(q *systemv1.GenerateRequest) { q.Ask = 1 },
		"route":      func(q *systemv1.GenerateRequest) { q.Route = "wide" },
		"text":       func(q *systemv1.GenerateRequest) { q.Messages[0].Content = "b" },
		"role":       func(q *systemv1.GenerateRequest) { q.Messages[0].Role = "system" },
		"schema": func(q *systemv1.GenerateRequest) {
			q.OutputSchema = []byte(`{"type":"object","properties":{"a":{"type":"string"}}}`)
		},
		"temperature": func(q *systemv1.GenerateRequest) { q.Params.Temperature = proto.Float64(0) },
		"tokens":      func(q *systemv1.GenerateRequest) { q.Params.MaxOutputTokens = proto.Int32(101) },
		"seed":        func(q *systemv1.GenerateRequest) { q.Params.Seed = proto.Int64(9007199254740993) },
		"next seed":   func(q *systemv1.GenerateRequest) { q.Params.Seed = proto.Int64(9007199254740992) },
	}
	key := g.answer(t, b.question(run, "a")).GetCallKey()
	for name, change := range same {
		q := b.question(run, "a")
		change(q)
		require.True(t, g.answer(t, q).GetReplayed(), name)
	}
	seen := map[string]string{string(key): "the question itself"}
	for name, change := range other {
		q := b.question(run, "a")
		change(q)
		a := g.answer(t, q)
		require.False(t, a.GetReplayed(), name)
		require.Empty(t, seen[string(a.GetCallKey())], name)
		seen[string(a.GetCallKey())] = name
	}
}

// The same question asked by many at once is sent once.
func TestI02_ManyCallersShareOneRequest(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	run := b.ids.V7()
	letGo := b.main.hold(t)
	var all sync.WaitGroup
	answers := make(chan *systemv1.Answer, 50)
	for range 50 {
		all.Go(func() {
			s, err := g.ask(t.Context(), b.question(run, "a"))
			if err == nil && s.answer != nil {
				answers <- s.answer
			}
		})
	}
	b.main.awaitInFlight(t, 1)
	letGo()
	all.Wait()
	close(answers)
	led, calls := 0, int32(0)
	for a := range answers {
		calls += a.GetCalls()
		if !a.GetReplayed() {
			led++
		}
	}
	require.Equal(t, 1, led)
	require.Equal(t, int32(1), calls)
	require.Equal(t, 1, b.main.received())
	require.Equal(t, 1, one[int](b, "SELECT count(*) FROM llm.llm_try"))
}

// Two replicas that are asked the same at once send one request.
func TestI02_ReplicasShareOneRequest(t *testing.T) {
	b := newBench(t)
	first, second := b.gateway(nil), b.gateway(nil)
	for i := range 20 {
		run := b.ids.V7()
		var both sync.WaitGroup
		texts := make([]string, 2)
		for n, g := range []*gateway{first, second} {
			both.Go(func() {
				s, err := g.ask(t.Context(), b.question(run, "a"))
				if err == nil {
					texts[n] = s.answer.GetText()
				}
			})
		}
		both.Wait()
		require.NotEmpty(t, texts[0])
		require.Equal(t, texts[0], texts[1])
		require.Equal(t, i+1, b.main.received())
	}
	b.balanced()
}

func TestI02_ASecondReplicaWaitsForTheFirst(t *testing.T) {
	b := newBench(t)
	first, second := b.gateway(nil), b.gateway(nil)
	run := b.ids.V7()
	letGo := b.main.hold(t)
	var both sync.WaitGroup
	both.Go(func() { _, _ = first.ask(t.Context(), b.question(run, "a")) })
	b.main.awaitInFlight(t, 1)
	joined := make(chan story, 1)
	both.Go(func() {
		s, _ := second.ask(t.Context(), b.question(run, "a"))
		joined <- s
	})
	letGo()
	both.Wait()
	s := <-joined
	require.True(t, s.answer.GetReplayed())
	require.False(t, s.granted, "it needed no permit")
	require.Equal(t, 1, b.main.received())
}

// The caller goes away while its call is at the provider: the answer is stored all the same, and the next attempt has it.
func TestI02_ACallOutlivesItsCaller(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	run := b.ids.V7()
	letGo := b.main.hold(t)
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := g.ask(ctx, b.question(run, "a"))
		gone <- err
	}()
	b.main.awaitInFlight(t, 1)
	leave()
	require.Equal(t, codes.Canceled, fault.CodeOf(<-gone))
	letGo()
	eventually(b, "answered", "SELECT state FROM llm.llm_call_log")
	a := g.answer(t, b.question(run, "a"))
	require.True(t, a.GetReplayed())
	require.Equal(t, 1, b.main.received())
}

// A gateway dies with a request in flight: nobody knows what came of it. The next caller is told so, and only one that is
// allowed to asks again.
func TestADeadGatewaysCallIsAmbiguous(t *testing.T) {
	b := newBench(t)
	dying := b.gateway(nil)
	run := b.ids.V7()
	letGo := b.main.hold(t)
	go func() { _, _ = dying.ask(t.Context(), b.question(run, "a")) }()
	b.main.awaitInFlight(t, 1)
	dying.kill()
	other := b.gateway(nil)
	f := other.failure(t, b.question(run, "a"))
	require.Equal(t, systemv1.Outcome_FAILURE_CLASS_AMBIGUOUS, f.GetClass())
	require.Equal(t, "call_ambiguous", f.GetReason())
	require.Equal(t, one[int64](b, "SELECT (cost * 1e12)::bigint FROM llm.llm_try"), f.GetCostPicoUsd())
	require.Positive(t, f.GetCostPicoUsd(), "the worst case is booked")
	require.Equal(t, "worst_case", one[string](b, "SELECT cost_basis FROM llm.llm_try"))
	require.Zero(t, f.GetCalls())
	require.Equal(t, 1, b.main.received(), "nothing was sent again by itself")
	b.balanced()

	require.Equal(t, "call_ambiguous", other.failure(t, b.question(run, "a")).GetReason(), "however often one asks")
	letGo()
	q := b.question(run, "a")
	q.AmbiguousOk = 1
	a := other.answer(t, q)
	require.False(t, a.GetReplayed())
	require.Equal(t, 2, b.main.received())
	require.Equal(t, f.GetCostPicoUsd()+one[int64](b, "SELECT (cost * 1e12)::bigint FROM llm.llm_try WHERE try_no = 2"), a.GetCostPicoUsd())
	b.balanced()
}

// The policy counts over all questions of a step: what it has allowed for the first one it has not allowed for the second.
func TestOneRepeatIsAllowedAStepNotAQuestion(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	run := b.ids.V7()
	b.main.inject(t, simulated.Fault{Kind: "cut", Count: 2})
	require.Equal(t, "network", g.failure(t, b.question(run, "a")).GetReason())
	first := b.question(run, "a")
	first.AmbiguousOk = 1
	second := b.question(run, "a")
	second.Ask, second.AmbiguousOk = 1, 1
	require.Equal(t, "network", g.failure(t, second).GetReason())
	require.Equal(t, "call_ambiguous", g.failure(t, second).GetReason())
	require.Equal(t, "call_ambiguous", g.failure(t, first).GetReason())
	require.Equal(t, 2, b.main.received())
	other := b.question(run, "a")
	other.Step.Shard = 1
	g.answer(t, other)
	second.AmbiguousOk = 2
	g.answer(t, second)
}

// A request of unknown fate counts also when a later one of the same question has failed: a caller to whom no repeat is
// allowed is told so at once.
func TestARequestOfUnknownFateCountsAlsoBehindOneThatFailed(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	run := b.ids.V7()
	b.main.inject(t, simulated.Fault{Kind: "cut", Count: 1})
	require.Equal(t, "network", g.failure(t, b.question(run, "a")).GetReason())
	b.main.inject(t, simulated.Fault{Kind: "500", Count: 1})
	allowed := b.question(run, "a")
	allowed.AmbiguousOk = 1
	require.Equal(t, "provider_500", g.failure(t, allowed).GetReason())
	require.Equal(t, "failed", one[string](b, "SELECT state FROM llm.llm_call_log"))
	require.Equal(t, "call_ambiguous", g.failure(t, b.question(run, "a")).GetReason())
	require.Equal(t, 2, b.main.received())
	g.answer(t, allowed)
}

func TestAHolderWithALiveLeaseIsNotJudged(t *testing.T) {
	b := newBench(t)
	first, second := b.gateway(nil), b.gateway(nil)
	run := b.ids.V7()
	letGo := b.main.hold(t)
	go func() { _, _ = first.ask(t.Context(), b.question(run, "a")) }()
	b.main.awaitInFlight(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*leaseTime)
	defer cancel()
	_, err := second.ask(ctx, b.question(run, "a"))
	require.Error(t, err, "it waits")
	require.Equal(t, "in_flight", one[string](b, "SELECT state FROM llm.llm_call_log"))
	letGo()
	require.True(t, second.answer(t, b.question(run, "a")).GetReplayed())
}

func TestI09_ABudgetAdmitsWhatFits(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	run := b.ids.V7()
	letGo := b.main.hold(t)
	var all sync.WaitGroup
	stories := make(chan story, 10)
	for i := range 10 {
		all.Go(func() {
			q := b.question(run, "a")
			q.Step.Shard = int32(i)
			q.Params.MaxOutputTokens = proto.Int32(149_990) // $0.29998, and a little for the prompt
			q.BudgetPicoUsd = proto.Int64(usd(t, "1.00"))
			s, _ := g.ask(t.Context(), q)
			stories <- s
		})
	}
	b.main.awaitInFlight(t, 3)
	testkit.Eventually(t, patience, func() error {
		if len(stories) != 7 {
			return fmt.Errorf("%d callers have heard, not 7", len(stories))
		}
		return nil
	})
	letGo()
	all.Wait()
	close(stories)
	answered, refused := 0, 0
	for s := range stories {
		if s.answer != nil {
			answered++
			continue
		}
		refused++
		require.Equal(t, systemv1.Outcome_FAILURE_CLASS_BUDGET, s.failure.GetClass())
		require.Equal(t, "budget_exceeded", s.failure.GetReason())
	}
	require.Equal(t, 3, answered)
	require.Equal(t, 7, refused)
	require.Equal(t, 3, b.main.received())
	b.balanced()
}

func TestI09_CostsAreTheSumOfTheLogToTheLastDigit(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	run := b.ids.V7()
	var sum, last int64
	for i := range 30 {
		q := b.question(run, fmt.Sprint("question number ", i))
		q.Route = []string{"default", "wide", "large"}[i%3]
		a := g.answer(t, q)
		sum += a.GetCostPicoUsd()
		last = a.GetRunSpend().GetSpentPicoUsd()
		require.Equal(t, sum, last)
	}
	require.Equal(t, sum, one[int64](b, "SELECT (sum(cost) * 1e12)::bigint FROM llm.llm_try"))
	b.balanced()
	testkit.Eventually(t, patience, func() error {
		if got := b.orders.spend(run); got != sum {
			return fmt.Errorf("the orchestrator knows of %d, not %d", got, sum)
		}
		return nil
	})
	eventually(b, 0, "SELECT count(*)::int FROM llm.spend_owed")
}

func TestSpendIsToldUntilItIsConfirmed(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	b.orders.setDown(true)
	run := b.ids.V7()
	cost := g.answer(t, b.question(run, "a")).GetCostPicoUsd()
	require.Equal(t, 1, one[int](b, "SELECT count(*)::int FROM llm.spend_owed"))
	b.orders.setDown(false)
	eventually(b, 0, "SELECT count(*)::int FROM llm.spend_owed")
	require.Equal(t, cost, b.orders.spend(run))
}

func TestAClosedGateLetsNothingOut(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	run := b.ids.V7()
	gate := func(epoch int32, open bool) {
		_, err := g.SetSpendGate(t.Context(), &systemv1.SetSpendGateRequest{Gates: []*systemv1.SetSpendGateRequest_Gate{
			{RunId: run[:], Tenant: "acme", Epoch: epoch, Open: open},
		}})
		require.NoError(t, err)
	}
	first := g.answer(t, b.question(run, "a"))
	gate(0, false)
	f := g.failure(t, b.question(run, "b"))
	require.Equal(t, systemv1.Outcome_FAILURE_CLASS_PERMANENT, f.GetClass())
	require.Equal(t, "cancelled", f.GetReason())
	require.Equal(t, 1, b.main.received())
	require.Equal(t, first.GetText(), g.answer(t, b.question(run, "a")).GetText(), "what is paid is still there")
	gate(1, true)
	q := b.question(run, "b")
	q.SpendEpoch = 1
	g.answer(t, q)
	require.Equal(t, 2, b.main.received())
}

func TestI12_CancelClosesTheConnection(t *testing.T) {
	b := newBench(t)
	first, second := b.gateway(nil), b.gateway(nil)
	run := b.ids.V7()
	b.main.hold(t)
	stories := make(chan story, 2)
	for n, g := range []*gateway{first, second} {
		go func() {
			q := b.question(run, fmt.Sprint(n))
			q.Step.Step = []string{"one", "two"}[n]
			s, _ := g.ask(t.Context(), q)
			stories <- s
		}()
	}
	b.main.awaitInFlight(t, 2)

	// One step: only its call, also when it is another replica's.
	resp, err := first.CancelCalls(t.Context(), &systemv1.CancelCallsRequest{RunId: run[:], Step: "two"})
	require.NoError(t, err)
	require.Zero(t, resp.GetAborted())
	b.main.awaitInFlight(t, 1)
	require.Equal(t, "cancelled", (<-stories).failure.GetReason())
	require.Equal(t, "cancelled", one[string](b, "SELECT state FROM llm.llm_call_log WHERE step = 'two'"))
	require.Equal(t, "in_flight", one[string](b, "SELECT state FROM llm.llm_call_log WHERE step = 'one'"))

	// The run: behind its purse, as the orchestrator asks for it.
	first.setGate(t, run, 1, false)
	_, err = first.CancelCalls(t.Context(), &systemv1.CancelCallsRequest{RunId: run[:]})
	require.NoError(t, err)
	b.main.awaitInFlight(t, 0)
	s := <-stories
	require.Equal(t, "cancelled", s.failure.GetReason())
	require.Positive(t, s.failure.GetCostPicoUsd(), "nobody knows what it cost: the worst case is booked")
	b.balanced()
}

// A request to abort that comes late, when the run was opened again, ends no call that has begun since.
func TestALateCancelEndsNothingOfARunThatWasOpenedAgain(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	run := b.ids.V7()
	g.setGate(t, run, 1, false)
	g.setGate(t, run, 2, true)
	letGo := b.main.hold(t)
	done := make(chan story, 1)
	go func() {
		q := b.question(run, "a")
		q.SpendEpoch = 2
		s, _ := g.ask(t.Context(), q)
		done <- s
	}()
	b.main.awaitInFlight(t, 1)
	resp, err := g.CancelCalls(t.Context(), &systemv1.CancelCallsRequest{RunId: run[:]})
	require.NoError(t, err)
	require.Zero(t, resp.GetAborted())
	letGo()
	require.NotNil(t, (<-done).answer)
}

// setGate opens or closes the purse of a run.
func (g *gateway) setGate(t *testing.T, run uuid.UUID, epoch int32, open bool) {
	t.Helper()
	_, err := g.SetSpendGate(t.Context(), &systemv1.SetSpendGateRequest{Gates: []*systemv1.SetSpendGateRequest_Gate{
		{RunId: run[:], Tenant: "acme", Epoch: epoch, Open: open},
	}})
	require.NoError(t, err)
}

func TestI12_AClosedGateEndsTheRunsCallsOnAllReplicas(t *testing.T) {
	b := newBench(t)
	first, second := b.gateway(nil), b.gateway(nil)
	run := b.ids.V7()
	b.main.hold(t)
	done := make(chan story, 1)
	go func() {
		s, _ := second.ask(t.Context(), b.question(run, "a"))
		done <- s
	}()
	b.main.awaitInFlight(t, 1)
	_, err := first.SetSpendGate(t.Context(), &systemv1.SetSpendGateRequest{Gates: []*systemv1.SetSpendGateRequest_Gate{
		{RunId: run[:], Tenant: "acme"},
	}})
	require.NoError(t, err)
	b.main.awaitInFlight(t, 0)
	require.Equal(t, "cancelled", (<-done).failure.GetReason())
}

// When a whole gateway is told to stop, what is at a provider is awaited, and what is not sent is handed back.
func TestStoppingWaitsForAnswers(t *testing.T) {
	b := newBench(t)
	b.change = func(s string) string { return replace(s, "concurrency: 64", "concurrency: 1") }
	g := b.gateway(nil)
	run := b.ids.V7()
	letGo := b.main.hold(t)
	sent, waits := make(chan story, 1), make(chan error, 1)
	go func() {
		s, _ := g.ask(t.Context(), b.question(run, "a"))
		sent <- s
	}()
	b.main.awaitInFlight(t, 1)
	stream, err := g.Generate(t.Context(), b.question(run, "b"))
	require.NoError(t, err)
	news, err := stream.Recv()
	require.NoError(t, err)
	require.NotNil(t, news.GetWaiting())
	go func() {
		_, err := hear(stream)
		waits <- err
	}()
	var stopping sync.WaitGroup
	stopping.Go(g.stop)
	require.Equal(t, codes.Unavailable, fault.CodeOf(<-waits))
	letGo()
	require.NotNil(t, (<-sent).answer)
	stopping.Wait()
	require.Equal(t, 0, one[int](b, "SELECT count(*)::int FROM llm.replica"), "its lease has ended")
	require.Equal(t, 1, b.main.received())
}

func TestARouteThatDoesNotExist(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	q := b.question(b.ids.V7(), "a")
	q.Route = "elsewhere"
	f := g.failure(t, q)
	require.Equal(t, systemv1.Outcome_FAILURE_CLASS_PERMANENT, f.GetClass())
	require.Equal(t, "model_unavailable", f.GetReason())
	_, err := g.GetRoute(t.Context(), &systemv1.GetRouteRequest{Name: "elsewhere"})
	require.Equal(t, codes.InvalidArgument, fault.CodeOf(err))
	r, err := g.GetRoute(t.Context(), &systemv1.GetRouteRequest{Name: "wide"})
	require.NoError(t, err)
	require.Equal(t, []string{"main/small", "spare/large"}, r.GetTargets())
}

func TestBadQuestionsAreRefused(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	for name, change := range map[string]func(*systemv1.GenerateRequest){
		"no run":          func(q *systemv1.GenerateRequest) { q.Step.RunId = []byte("short") },
		"no messages":     func(q *systemv1.GenerateRequest) { q.Messages = nil },
		"schema":          func(q *systemv1.GenerateRequest) { q.OutputSchema = []byte(`{"a":`) },
		"schema, twice":   func(q *systemv1.GenerateRequest) { q.OutputSchema = []byte(`{"a":1,"a":2}`) },
		"endless numbers": func(q *systemv1.GenerateRequest) { q.Params.Temperature = proto.Float64(inf()) },
	} {
		q := b.question(b.ids.V7(), "a")
		change(q)
		_, err := g.ask(t.Context(), q)
		require.Equal(t, codes.InvalidArgument, fault.CodeOf(err), "%s: %v", name, err)
	}
	require.Zero(t, one[int](b, "SELECT count(*)::int FROM llm.llm_call_log"))
}

func TestWithoutAModelsFileTheSimulatedProviderAnswers(t *testing.T) {
	b := newBench(t)
	g := b.gateway(func(c *llmgateway.Config) { c.ModelsFile = "" })
	a := g.answer(t, b.question(b.ids.V7(), "What is a pawl?"))
	require.Equal(t, "simulated", a.GetProvider())
	require.Positive(t, a.GetCostPicoUsd())
	q := b.question(b.ids.V7(), "a")
	q.Route = "sim-large?503*1"
	require.Equal(t, "provider_503", g.failure(t, q).GetReason())
	g.answer(t, q)
}

func TestSecretsNeverLeak(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	b.main.inject(t, simulated.Fault{Kind: "echo_key", Count: 1})
	run := b.ids.V7()
	f := g.failure(t, b.question(run, "a"))
	require.Equal(t, "auth", f.GetReason())
	require.Equal(t, systemv1.Outcome_FAILURE_CLASS_PERMANENT, f.GetClass())
	require.Contains(t, f.GetMessage(), "[key]", "the provider did repeat it")
	g.answer(t, b.question(run, "b"))
	log, err := g.ListCalls(t.Context(), &systemv1.ListCallsRequest{Tenant: "acme", RunId: run[:]})
	require.NoError(t, err)
	rows := one[string](b, `SELECT string_agg(t::text || coalesce(encode(answer, 'escape'), ''), ' ') || (SELECT string_agg(c::text, ' ') FROM llm.llm_call_log c)
		FROM llm.llm_try t`)
	metrics, err := g.metrics.Gather()
	require.NoError(t, err)
	for name, text := range map[string]string{
		"failure": f.String(), "log": b.log.String(), "call log": log.String(), "rows": rows, "metrics": fmt.Sprint(metrics),
	} {
		require.NotEmpty(t, text, name)
		require.NotContains(t, text, apiKey, name)
	}
	require.Contains(t, b.log.String(), "provider refuses our key", "but somebody is told")
}
