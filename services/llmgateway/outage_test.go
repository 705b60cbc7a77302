package llmgateway_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/llmgateway"
	"pawl.internal/services/llmgateway/provider/simulated"
	"pawl.internal/services/testkit"
)

// The database goes away while a call is at its provider: the answer is kept and stored when the database is back, and
// meanwhile nothing new is sent.
func TestWithoutTheDatabaseNothingBeginsAndNothingIsLost(t *testing.T) {
	server := testkit.PrivatePostgres(t)
	b := newBench(t)
	b.database = testkit.DatabaseAt(t, server.URL(), llmgateway.Schema())
	g := b.gateway(func(c *llmgateway.Config) { c.Lease = 10 * time.Second })
	run := b.ids.V7()
	letGo := b.main.hold(t)
	done := make(chan story, 1)
	go func() {
		s, _ := g.ask(t.Context(), b.question(run, "a"))
		done <- s
	}()
	b.main.awaitInFlight(t, 1)
	server.Kill()
	letGo()
	b.main.awaitInFlight(t, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := g.ask(ctx, b.question(run, "b"))
	require.Contains(t, []codes.Code{codes.Unavailable, codes.DeadlineExceeded}, fault.CodeOf(err))
	require.Empty(t, done, "what is not stored is not answered")
	require.Error(t, g.ready(t.Context()))

	require.NoError(t, server.Start(t.Context()))
	require.NotNil(t, (<-done).answer)
	require.True(t, g.answer(t, b.question(run, "a")).GetReplayed())
	require.Equal(t, 1, b.main.received())
	b.database.Pool.Reset()
	b.balanced()
}

// The connection breaks while the record of a request is being committed: whether it was is unknown, so nothing is sent, the
// caller may repeat the question, and once that is settled it is asked as if nothing had been.
func TestARecordOfUnknownFateIsSettled(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	run := b.ids.V7()
	g.answer(t, b.question(run, "a"))
	tx, err := b.database.Pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT 1 FROM llm.run_spend FOR UPDATE")
	require.NoError(t, err)
	failed := make(chan error, 1)
	go func() {
		_, err := g.ask(t.Context(), b.question(run, "b"))
		failed <- err
	}()
	eventually(b, 1, `SELECT count(pg_terminate_backend(pid))::int FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'pawl-llm-gateway' AND wait_event_type = 'Lock'`)
	require.Equal(t, codes.Unavailable, fault.CodeOf(<-failed))
	require.NoError(t, tx.Rollback(t.Context()))
	testkit.Eventually(t, patience, func() error {
		s, err := g.ask(t.Context(), b.question(run, "b"))
		if err == nil && s.answer == nil {
			err = errors.New(s.failure.String())
		}
		return err
	})
	require.Equal(t, 2, b.main.received())
	require.Zero(t, one[int](b, "SELECT count(*)::int FROM llm.llm_try WHERE state = 'in_flight'"))
	b.balanced()
}

// A fault in the program ends the one call in which it shows; what was recorded of it is of unknown fate.
func TestAPanicEndsOneCallAlone(t *testing.T) {
	b := newBench(t)
	b.change = func(s string) string {
		return strings.Replace(s, "  long:", "  spare: [{provider: spare, model: large}]\n  long:", 1)
	}
	g := b.gateway(nil)
	run := b.ids.V7()
	letGo := b.spare.hold(t)
	other := b.question(run, "other")
	other.Route = "spare"
	answered := make(chan error, 1)
	go func() {
		_, err := g.ask(t.Context(), other)
		answered <- err
	}()
	b.spare.awaitInFlight(t, 1)
	llmgateway.BreakProvider(g.service, "main")
	_, err := g.ask(t.Context(), b.question(run, "a"))
	require.Equal(t, codes.Internal, fault.CodeOf(err))
	eventually(b, "ambiguous", "SELECT state FROM llm.llm_call_log WHERE state <> 'in_flight'")
	require.Equal(t, "call_ambiguous", g.failure(t, b.question(run, "a")).GetReason())
	b.balanced()
	letGo()
	require.NoError(t, <-answered)
}

// An answer that the database refuses for what is in it is not offered to it for ever: the request ends as one of unknown
// fate, at its worst case, its callers are told, and other calls go on.
func TestAnAnswerThatCannotBeStoredIsOfUnknownFate(t *testing.T) {
	b := newBench(t)
	_, err := b.database.Pool.Exec(t.Context(), "ALTER TABLE llm.llm_try ADD CONSTRAINT forbidden CHECK (finish_reason <> 'forbidden')")
	require.NoError(t, err)
	g := b.gateway(nil)
	b.main.inject(t, simulated.Fault{Kind: "reply", Contains: "odd", Reply: &simulated.Reply{
		Status: 200, Body: `{"choices":[{"message":{"content":"fine"},"finish_reason":"forbidden"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`,
	}})
	run := b.ids.V7()
	failed := g.failure(t, b.question(run, "odd"))
	require.Equal(t, systemv1.Outcome_FAILURE_CLASS_AMBIGUOUS, failed.GetClass())
	require.Equal(t, "call_ambiguous", failed.GetReason())
	require.Positive(t, failed.GetCostPicoUsd())
	require.Equal(t, "ambiguous worst_case", one[string](b, "SELECT state || ' ' || cost_basis FROM llm.llm_try"))
	require.Equal(t, 1, b.main.received())
	require.Equal(t, "call_ambiguous", g.failure(t, b.question(run, "odd")).GetReason(), "nobody pays again without being allowed to")
	require.Equal(t, 1, b.main.received())
	require.NotNil(t, g.answer(t, b.question(run, "usual")))
	require.Equal(t, 1, strings.Count(b.log.String(), "answer cannot be stored"))
	b.balanced()
}

// A gateway whose lease is not confirmed may be taken for dead: it records a request and does not send it.
func TestWithoutALeaseNothingIsSent(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	run := b.ids.V7()
	tx, err := b.database.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	_, err = tx.Exec(t.Context(), "LOCK TABLE llm.replica IN ACCESS EXCLUSIVE MODE") // renewals wait, calls go on
	require.NoError(t, err)
	testkit.Eventually(t, patience, func() error {
		if g.ready(t.Context()) == nil {
			return errors.New("its lease is still good")
		}
		return nil
	})
	_, err = g.ask(t.Context(), b.question(run, "a"))
	require.Equal(t, codes.Unavailable, fault.CodeOf(err))
	require.Zero(t, b.main.received())
	require.Equal(t, "not_sent", one[string](b, "SELECT state FROM llm.llm_try"))
	b.balanced()

	require.NoError(t, tx.Rollback(t.Context()))
	testkit.Eventually(t, patience, func() error { return g.ready(t.Context()) })
	require.False(t, g.answer(t, b.question(run, "a")).GetReplayed())
	require.Equal(t, 1, b.main.received())
}

// Two replicas with a limit of 4, and Redis forgets everything in between: the provider never sees a fifth request.
func TestI03_TheLimitHoldsAcrossReplicasAndAFlush(t *testing.T) {
	b := newBench(t)
	b.change = func(s string) string { return replace(s, "concurrency: 64", "concurrency: 4") }
	gateways := []*gateway{b.gateway(nil), b.gateway(nil)}
	letGo := b.main.hold(t)
	run := b.ids.V7()
	var all sync.WaitGroup
	failed := make(chan error, 60)
	for i := range 60 {
		all.Go(func() {
			s, err := gateways[i%2].ask(t.Context(), b.question(run, fmt.Sprint("question ", i)))
			if err != nil || s.answer == nil {
				failed <- fmt.Errorf("%v: %w", s.failure, err)
			}
		})
	}
	b.main.awaitInFlight(t, 4)
	b.flush()
	testkit.Eventually(t, patience, func() error { // until the replicas have declared themselves, and the pause is over
		fields, err := b.redis.HLen(t.Context(), b.prefix+":permits:{account}").Result()
		if err != nil || fields < 3 {
			return fmt.Errorf("%d fields, %w", fields, err)
		}
		return nil
	})
	b.main.inject(t, simulated.Fault{Kind: "latency", Argument: "5ms"})
	letGo()
	all.Wait()
	require.Empty(t, failed)
	require.Equal(t, 4, b.main.Report(0).MaxInFlight)
	require.Equal(t, 60, b.main.received())
}

func TestACallIsCancelledWhileItWaits(t *testing.T) {
	b := newBench(t)
	b.change = func(s string) string { return replace(s, "concurrency: 64", "concurrency: 1") }
	g := b.gateway(nil)
	letGo := b.main.hold(t)
	defer letGo()
	go func() { _, _ = g.ask(t.Context(), b.question(b.ids.V7(), "a")) }()
	b.main.awaitInFlight(t, 1)
	run := b.ids.V7()
	stream, err := g.Generate(t.Context(), b.question(run, "b"))
	require.NoError(t, err)
	news, err := stream.Recv()
	require.NoError(t, err)
	require.Equal(t, "account", news.GetWaiting().GetLimit())
	g.setGate(t, run, 1, false)
	_, err = g.CancelCalls(t.Context(), &systemv1.CancelCallsRequest{RunId: run[:]})
	require.NoError(t, err)
	s, err := hear(stream)
	require.NoError(t, err)
	require.Equal(t, "cancelled", s.failure.GetReason())
	require.Zero(t, s.failure.GetCostPicoUsd())
	require.Equal(t, 1, b.main.received())
	require.Equal(t, 1, one[int](b, "SELECT count(*)::int FROM llm.llm_call_log"))
}

func TestADeadlinePassesWhileACallWaits(t *testing.T) {
	b := newBench(t)
	b.change = func(s string) string { return replace(s, "concurrency: 64", "concurrency: 1") }
	g := b.gateway(nil)
	letGo := b.main.hold(t)
	defer letGo()
	go func() { _, _ = g.ask(t.Context(), b.question(b.ids.V7(), "a")) }()
	b.main.awaitInFlight(t, 1)
	q := b.question(b.ids.V7(), "b")
	q.DeadlineIn = durationpb.New(200 * time.Millisecond)
	f := g.failure(t, q)
	require.Equal(t, "deadline_exceeded", f.GetReason())
	require.Equal(t, transient, f.GetClass())
	require.Equal(t, 1, b.main.received())
}

func TestUsageThatIsMissingIsEstimatedAndFlagged(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	b.main.inject(t, simulated.Fault{Kind: "reply", Count: 1, Reply: &simulated.Reply{
		Status: 200, Body: `{"choices":[{"finish_reason":"stop","message":{"content":"twelve bytes"}}]}`,
	}})
	a := g.answer(t, b.question(b.ids.V7(), "eight by")) // 8 bytes: 2 tokens, 12 bytes: 3 tokens
	require.Equal(t, int64(2), a.GetInputTokens())
	require.Equal(t, int64(3), a.GetOutputTokens())
	require.Equal(t, int64(2*500_000+3*2_000_000), a.GetCostPicoUsd())
	require.Equal(t, "estimated", one[string](b, "SELECT cost_basis FROM llm.llm_try"))
	require.Contains(t, b.log.String(), "did not count the tokens")
}

func TestEstimateStaysWithinWhatWasReserved(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	page := strings.Repeat("x", 100_000)
	for name, body := range map[string]string{
		"an answer":  `{"choices":[{"finish_reason":"stop","message":{"content":"` + page + `"}}]}`,
		"not JSON":   "<html>" + page,
		"too long":   strings.Repeat(page, 170),
		"no choices": `{"choices":[],"filler":"` + page + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			b.main.inject(t, simulated.Fault{Kind: "reply", Count: 1, Reply: &simulated.Reply{Status: 200, Body: body}})
			run := b.ids.V7()
			_, err := g.ask(t.Context(), b.question(run, "eight by"))
			require.NoError(t, err)
			cost := one[string](b, "SELECT cost::text FROM llm.llm_try WHERE run_id = $1 ORDER BY try_no LIMIT 1", run)
			require.Equal(t, "0.000201000000", cost) // 2 × 0.50 + 100 × 2.00, by the million
		})
	}
}

func TestCachedTokensHaveTheirOwnPrice(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	b.main.inject(t, simulated.Fault{Kind: "reply", Count: 1, Reply: &simulated.Reply{Status: 200, Body: `{
		"choices":[{"finish_reason":"stop","message":{"content":"a"}}],
		"usage":{"prompt_tokens":1239328,"prompt_tokens_details":{"cached_tokens":1188096},"completion_tokens":12909}}`}})
	run := b.ids.V7()
	a := g.answer(t, b.question(run, "a"))
	require.Equal(t, int64(1188096), a.GetCachedInputTokens())
	require.Equal(t, usd(t, "0.1108388"), a.GetCostPicoUsd()) // 51232 × 0.50 + 1188096 × 0.05 + 12909 × 2.00, by the million
	again := g.answer(t, b.question(run, "a"))
	require.True(t, again.GetReplayed())
	require.Equal(t, a.GetCachedInputTokens(), again.GetCachedInputTokens())
}
