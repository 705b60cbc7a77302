package store_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/store"
	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// bundle is a Store that runs on a database of its own.
type bundle struct {
	*store.Store
	t    *testing.T
	pool *pgxpool.Pool
	ids  *ids.Source
	me   uuid.UUID
}

func setup(t *testing.T) *bundle {
	t.Helper()
	return setupOn(t, testkit.Postgres(t, store.Schema()))
}

func setupOn(t *testing.T, database *testkit.Database) *bundle {
	t.Helper()
	pool, err := pg.Open(t.Context(), pg.Config{
		URL: config.NewSecret(database.URL), MaxConns: 8, StatementTimeout: 30 * time.Second, ConnectTimeout: 5 * time.Second,
		Settings: pg.ByKey(),
	}, "test")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	source := ids.New(clock.System())
	b := &bundle{Store: store.New(pool, pool, 2), t: t, pool: pool, ids: source, me: source.V4()}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = b.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return b
}

func usd(t require.TestingT, amount string) money.Pico {
	p, err := money.Parse(amount)
	require.NoError(t, err)
	return p
}

func (b *bundle) budget(amount string) *money.Pico {
	p := usd(b.t, amount)
	return &p
}

// key is the key of the n-th question of a run.
func key(run uuid.UUID, n int) store.Key {
	return store.Key{RunID: run, Digest: sha256.Sum256(fmt.Append(nil, n))}
}

// begin asks to send a request with a worst case of $0.30.
func (b *bundle) begin(k store.Key, change func(*store.Begin)) *store.Begin {
	b.t.Helper()
	e := &store.Begin{
		Key: k,
		Question: store.Question{
			Tenant: "acme", Step: "fields", Shard: -1, Class: "batch", PromptVersion: "v", Request: []byte(`{"route":"default"}`),
		},
		Sending: store.Sending{
			Provider: "main", Model: "small", Format: "openai", KeyID: "LLM_KEY", MaxOutputTokens: 100, PriceID: 1,
			WorstCase: usd(b.t, "0.30"), Holder: b.me, PermitWait: 5 * time.Millisecond,
		},
	}
	if change != nil {
		change(e)
	}
	require.NoError(b.t, b.Submit(b.t.Context(), e))
	return e
}

func (b *bundle) settle(s *store.Settle) *store.Settle {
	b.t.Helper()
	require.NoError(b.t, b.Submit(b.t.Context(), s))
	return s
}

// answered is an outcome with an answer that costs so much.
func (b *bundle) answered(cost, body string) store.Outcome {
	return store.Outcome{
		State: store.TryAnswered, HTTPStatus: 200, Body: []byte(body), Cost: usd(b.t, cost), Basis: store.Counted,
		Usage: price.Usage{Input: 100, CachedInput: 40, Output: 20, Reasoning: 5}, FinishReason: "stop", RequestID: "req_1",
		Latency: 250 * time.Millisecond,
	}
}

func (b *bundle) find(k store.Key) store.Found {
	b.t.Helper()
	f, err := b.Find(b.t.Context(), k)
	require.NoError(b.t, err)
	return f
}

// one reads one value.
func one[T any](b *bundle, query string, args ...any) (value T) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), query, args...).Scan(&value))
	return value
}

// balanced fails the test unless every run's figures are the sums of its requests'.
func (b *bundle) balanced(t require.TestingT) {
	const query = `
		SELECT count(*) FROM llm.run_spend s
		LEFT JOIN (SELECT run_id, sum(cost) AS cost, sum(reserved) AS reserved FROM llm.llm_try GROUP BY run_id) t USING (run_id)
		LEFT JOIN (SELECT run_id, sum(cost) AS cost FROM llm.llm_call_log GROUP BY run_id) c USING (run_id)
		WHERE s.spent <> coalesce(t.cost, 0) OR s.spent <> coalesce(c.cost, 0) OR s.reserved <> coalesce(t.reserved, 0)
		   OR s.reserved < 0 OR s.spent < 0`
	var off int
	require.NoError(t, b.pool.QueryRow(b.t.Context(), query).Scan(&off))
	require.Zero(t, off, "runs whose purse is not the sum of their requests")
	b.booked(t)
}

// booked fails the test unless spend_day and spend_sum are the sums of the log, to the last digit and token.
func (b *bundle) booked(t require.TestingT) {
	const query = `
		SELECT (SELECT count(*) FROM llm.llm_try WHERE state <> 'in_flight' AND booked IS DISTINCT FROM cost)::int,
		       coalesce((SELECT jsonb_object_agg(k, s) FROM (
		           SELECT concat_ws('/', tenant, provider, model, class) AS k, jsonb_build_array(sum(calls), sum(answered), sum(unpriced), sum(input_tokens),
		               sum(cached_input_tokens), sum(cache_write_tokens), sum(cache_write_1h_tokens), sum(output_tokens), sum(reasoning_tokens),
		               sum(cost)) AS s
		           FROM llm.spend_day GROUP BY 1 HAVING sum(calls) <> 0) d), '{}')::text,
		       coalesce((SELECT jsonb_object_agg(k, s) FROM (
		           SELECT concat_ws('/', c.tenant, y.provider, split_part(y.model, '?', 1), c.class) AS k,
		               jsonb_build_array(count(*) FILTER (WHERE y.state <> 'not_sent'), count(*) FILTER (WHERE y.state = 'answered'),
		               count(*) FILTER (WHERE y.cost_basis = 'unpriced'), sum(y.input_tokens), sum(y.cached_input_tokens), sum(y.cache_write_tokens),
		               sum(y.cache_write_1h_tokens), sum(y.output_tokens), sum(y.reasoning_tokens), sum(y.cost)) AS s
		           FROM llm.llm_try y JOIN llm.llm_call_log c USING (run_id, call_key) WHERE y.state <> 'in_flight'
		           GROUP BY 1 HAVING count(*) FILTER (WHERE y.state <> 'not_sent') > 0) l), '{}')::text,
		       coalesce((SELECT sum(cost) FROM llm.spend_day), 0) - coalesce((SELECT sum(cost) FROM llm.spend_sum WHERE kind = 'tenant_month'), 0),
		       coalesce((SELECT sum(cost) FROM llm.spend_sum WHERE kind = 'batch'), 0)
		           - coalesce((SELECT sum(spent) FROM llm.run_spend WHERE batch_id IS NOT NULL), 0)`
	var unbooked int
	var days, log string
	var months, batches money.Pico
	require.NoError(t, b.pool.QueryRow(b.t.Context(), query).Scan(&unbooked, &days, &log, &months, &batches))
	require.Zero(t, unbooked, "requests whose cost is not booked")
	require.Equal(t, log, days, "spend_day is the sum of the log")
	require.Zero(t, months, "the sums of months are those of days")
	require.Zero(t, batches, "the sums of batches are those of their runs")
}

func TestACallIsRecordedSentSettledAndFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k := key(b.ids.V7(), 1)
	require.Equal(t, store.CallState(""), b.find(k).State)

	begun := b.begin(k, func(e *store.Begin) { e.Budget = b.budget("1") })
	require.Equal(t, store.Admitted, begun.Verdict)
	require.Equal(t, int32(1), begun.TryNo)
	require.Equal(t, store.CallInFlight, b.find(k).State)
	require.Equal(t, usd(t, "0.30"), one[money.Pico](b, "SELECT reserved FROM llm.run_spend"))

	settled := b.settle(&store.Settle{Key: k, TryNo: 1, Outcome: b.answered("0.0123", `{"x":1}`)})
	require.True(t, settled.Found)
	require.Equal(t, store.Spend{Amount: usd(t, "0.0123"), Version: 1}, settled.Spend)
	found := b.find(k)
	require.Equal(t, store.CallAnswered, found.State)
	require.Equal(t, usd(t, "0.0123"), found.Cost)
	require.Equal(t, settled.Spend, found.Spend)
	require.Equal(t, int64(100), found.InputTokens)
	require.Equal(t, store.Answer{
		Provider: "main", Model: "small", Format: "openai", HTTPStatus: 200, CachedInputTokens: 40, Body: []byte(`{"x":1}`),
	}, found.Answer)
	b.balanced(t)

	require.Equal(t, store.Taken, b.begin(k, nil).Verdict, "an answered call is not asked again")
}

func TestTheLogShowsEverything(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.ids.V7()
	b.begin(key(run, 1), nil)
	b.settle(&store.Settle{Key: key(run, 1), TryNo: 1, Outcome: store.Outcome{State: store.TryFailed, HTTPStatus: 429, Reason: "provider_429"}})
	b.begin(key(run, 1), func(e *store.Begin) { e.Sending.Model = "large" })
	b.settle(&store.Settle{Key: key(run, 1), TryNo: 2, Outcome: b.answered("0.25", "a")})
	require.NoError(t, b.Submit(t.Context(), &store.Replay{Key: key(run, 1)}))
	b.begin(key(run, 2), func(e *store.Begin) { e.Question.Shard = 3 })

	calls, err := b.ListCalls(t.Context(), "acme", run)
	require.NoError(t, err)
	require.Len(t, calls, 2)
	first := calls[0]
	require.Equal(t, "answered", first.GetState())
	require.Equal(t, "0.25", first.GetCostUsd())
	require.Equal(t, int32(1), first.GetReplays())
	require.Nil(t, first.Shard)
	require.NotNil(t, first.GetFinishedAt())
	require.Len(t, first.GetTries(), 2)
	require.Equal(t, "provider_429", first.GetTries()[0].GetReason())
	require.Equal(t, int32(429), first.GetTries()[0].GetHttpStatus())
	second := first.GetTries()[1]
	require.Equal(t, "large", second.GetModel())
	require.Equal(t, int64(40), second.GetCachedInputTokens())
	require.Equal(t, "req_1", second.GetProviderRequestId())
	require.Equal(t, 250*time.Millisecond, second.GetLatency().AsDuration())
	require.Equal(t, 5*time.Millisecond, second.GetPermitWait().AsDuration())
	require.Equal(t, "v", second.GetPromptVersion())
	require.Equal(t, "in_flight", calls[1].GetState())
	require.Equal(t, int32(3), calls[1].GetShard())

	others, err := b.ListCalls(t.Context(), "other", run)
	require.NoError(t, err)
	require.Empty(t, others, "another tenant sees nothing")
}

func TestOneHolderAtATime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k := key(b.ids.V7(), 1)
	require.Equal(t, store.Admitted, b.begin(k, nil).Verdict)
	other := b.begin(k, func(e *store.Begin) { e.Sending.Holder = b.ids.V4() })
	require.Equal(t, store.Taken, other.Verdict)
	b.balanced(t)
}

// TestAQuestionGoesIntoTheLaneOnce: all requests in the lane have one holder, so that holder does not tell two replicas apart.
func TestAQuestionGoesIntoTheLaneOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k := key(b.ids.V7(), 1)
	into := func(begin *store.Begin) {
		begin.Sending.Holder = store.LaneHolder
		begin.Item = &store.Item{CustomID: b.ids.V7().String(), Body: []byte(`{}`), LiveIn: time.Hour}
	}
	require.Equal(t, store.Admitted, b.begin(k, into).Verdict)
	require.Equal(t, store.Taken, b.begin(k, into).Verdict)
}

// A holder that did not learn whether its record was committed, and so sent nothing, begins anew.
func TestARecordWhoseCommitWasUncertain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k := key(b.ids.V7(), 1)
	b.begin(k, nil)
	again := b.begin(k, nil)
	require.Equal(t, store.Admitted, again.Verdict)
	require.Equal(t, int32(2), again.TryNo)
	require.Equal(t, "not_sent", one[string](b, "SELECT state FROM llm.llm_try WHERE try_no = 1"))
	b.balanced(t)

	b.settle(&store.Settle{Key: k, Holder: b.me, Outcome: store.Outcome{State: store.TryNotSent}})
	require.Equal(t, store.CallFailed, b.find(k).State)
	nothing := b.settle(&store.Settle{Key: k, Holder: b.me, Outcome: store.Outcome{State: store.TryNotSent}})
	require.False(t, nothing.Found)
	never := b.settle(&store.Settle{Key: key(b.ids.V7(), 9), Holder: b.me, Outcome: store.Outcome{State: store.TryNotSent}})
	require.False(t, never.Found)
	b.balanced(t)
}

func TestABudgetAdmitsWhatFits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.ids.V7()
	verdicts := map[store.Verdict]int{}
	var changes []store.Change
	var begun []*store.Begin
	for i := range 10 {
		e := &store.Begin{
			Key: key(run, i), Budget: b.budget("1.00"),
			Question: store.Question{Tenant: "acme", Step: "s", Class: "batch", Request: []byte("{}")},
			Sending:  store.Sending{WorstCase: usd(t, "0.30"), Holder: b.me},
		}
		begun, changes = append(begun, e), append(changes, e)
	}
	for _, err := range b.SubmitAll(t.Context(), changes) {
		require.NoError(t, err)
	}
	for _, e := range begun {
		verdicts[e.Verdict]++
	}
	require.Equal(t, map[store.Verdict]int{store.Admitted: 3, store.OverBudget: 7}, verdicts)

	// What turned out cheaper makes room again.
	b.settle(&store.Settle{Key: begun[0].Key, TryNo: 1, Outcome: b.answered("0.10", "a")})
	require.Equal(t, store.Admitted, b.begin(key(run, 20), nil).Verdict)
	require.Equal(t, store.OverBudget, b.begin(key(run, 21), nil).Verdict)
	b.balanced(t)
}

func TestAClosedPurseAdmitsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.ids.V7()
	gate := func(epoch int32, open bool, budget string) {
		require.NoError(t, b.Submit(t.Context(), &store.Gate{RunID: run, Tenant: "acme", Epoch: epoch, Open: open, Budget: b.budget(budget)}))
	}
	try := func(n int, epoch int32) store.Verdict {
		budget := map[int32]string{0: "1", 1: "0.40", 2: "1"}[epoch]
		return b.begin(key(run, n), func(e *store.Begin) { e.Epoch, e.Budget = epoch, b.budget(budget) }).Verdict
	}
	gate(0, false, "1")
	require.Equal(t, store.Closed, try(1, 0), "closed before the first call")
	gate(0, true, "1")
	require.Equal(t, store.Closed, try(1, 0), "the opening of the same epoch came before the closing")
	gate(1, true, "0.40")
	require.Equal(t, store.Closed, try(1, 0), "an attempt of the epoch before")
	require.Equal(t, store.Admitted, try(1, 1))
	require.Equal(t, store.OverBudget, try(2, 1), "the budget came with the opening")
	gate(0, false, "1")
	b.settle(&store.Settle{Key: key(run, 1), TryNo: 1, Outcome: b.answered("0.01", "a")})
	require.Equal(t, store.Admitted, try(2, 1), "an older closing changes nothing")
	gate(1, false, "1")
	require.Equal(t, store.Closed, try(3, 1))
	require.Equal(t, store.Admitted, try(3, 2), "a call of a later epoch opens by itself: the order is on its way")
	b.balanced(t)
}

// A budget that is raised while its run goes on is the one that counts, whichever way the news comes, and in any order.
func TestI09_ARaisedBudgetCounts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.ids.V7()
	try := func(n int, budget string) store.Verdict {
		return b.begin(key(run, n), func(e *store.Begin) { e.Epoch, e.Budget = 1, b.budget(budget) }).Verdict
	}
	require.Equal(t, store.Admitted, try(1, "0.40"))
	require.Equal(t, store.OverBudget, try(2, "0.40"))
	require.NoError(t, b.Submit(t.Context(), &store.Gate{RunID: run, Tenant: "acme", Epoch: 1, Open: true, Budget: b.budget("0.70")}))
	require.Equal(t, store.Admitted, try(2, "0.40"), "an attempt that was claimed before")
	require.Equal(t, store.OverBudget, try(3, "0.40"))
	require.Equal(t, store.Admitted, try(3, "1.00"), "an attempt that was claimed after, while the order is on its way")
	require.NoError(t, b.Submit(t.Context(), &store.Gate{RunID: run, Tenant: "acme", Epoch: 1, Open: true, Budget: b.budget("0.70")}))
	require.Equal(t, store.OverBudget, try(4, "1.00"), "0.90 of 1.00 are taken")
	b.settle(&store.Settle{Key: key(run, 1), TryNo: 1, Outcome: b.answered("0.10", "a")})
	require.Equal(t, store.Admitted, try(4, "0.70"), "the order that came late has lowered nothing: 0.70 of 1.00 were taken")
	b.balanced(t)
}

func TestAmbiguousRequests(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k := key(b.ids.V7(), 1)
	b.begin(k, nil)
	unsure := b.settle(&store.Settle{Key: k, TryNo: 1, Outcome: store.Outcome{
		State: store.TryAmbiguous, Reason: "provider_timeout", Basis: store.WorstCase,
	}})
	require.Equal(t, usd(t, "0.30"), unsure.Cost, "the worst case is booked")
	found := b.find(k)
	require.Equal(t, store.CallAmbiguous, found.State)
	require.Equal(t, []string{"main/small"}, found.AmbiguousTargets)

	require.Equal(t, store.Unclear, b.begin(k, nil).Verdict)
	again := b.begin(k, func(e *store.Begin) { e.AmbiguousOK = 1 })
	require.Equal(t, store.Admitted, again.Verdict)
	b.settle(&store.Settle{Key: k, TryNo: 2, Outcome: b.answered("0.05", "second")})
	require.Equal(t, usd(t, "0.35"), b.find(k).Cost)

	// The first holder wakes after all: its answer is kept, and its cost is known now; the second one's still counts.
	late := b.settle(&store.Settle{Key: k, TryNo: 1, Outcome: b.answered("0.02", "first")})
	require.Equal(t, usd(t, "0.07"), late.Cost)
	require.Equal(t, store.Spend{Amount: usd(t, "0.07"), Version: 3}, late.Spend)
	require.Equal(t, "second", string(b.find(k).Answer.Body))
	require.Equal(t, []byte("first"), one[[]byte](b, "SELECT answer FROM llm.llm_try WHERE try_no = 1"))
	b.balanced(t)
}

func TestALateAnswerServesIfThereIsNoOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k := key(b.ids.V7(), 1)
	b.begin(k, nil)
	b.settle(&store.Settle{Key: k, TryNo: 1, OnlyInFlight: true, Outcome: store.Outcome{State: store.TryAmbiguous, Basis: store.WorstCase}})
	b.settle(&store.Settle{Key: k, TryNo: 1, Outcome: b.answered("0.02", "late")})
	require.Equal(t, store.CallAnswered, b.find(k).State)
	require.Equal(t, "late", string(b.find(k).Answer.Body))
	judged := b.settle(&store.Settle{Key: k, TryNo: 1, OnlyInFlight: true, Outcome: store.Outcome{State: store.TryAmbiguous, Basis: store.WorstCase}})
	require.False(t, judged.Found, "what is settled is not judged any more")
	b.balanced(t)
}

func TestLeasesAndOrphans(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	others, err := b.RenewLease(ctx, b.me, "host/1", time.Hour)
	require.NoError(t, err)
	require.Zero(t, others)
	dead := b.ids.V4()
	others, err = b.RenewLease(ctx, dead, "host/2", time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, 1, others)
	run := b.ids.V7()
	b.begin(key(run, 1), nil)
	b.begin(key(run, 2), func(e *store.Begin) { e.Sending.Holder = dead })
	b.begin(key(run, 3), func(e *store.Begin) { e.Sending.Holder = dead })
	b.settle(&store.Settle{Key: key(run, 3), TryNo: 1, Outcome: b.answered("0.01", "a")})
	testkit.Eventually(t, 5*time.Second, func() error {
		orphans, err := b.FindOrphans(ctx, 100)
		require.NoError(t, err)
		if len(orphans) != 1 || orphans[0] != (store.Orphan{Key: key(run, 2), TryNo: 1}) {
			return fmt.Errorf("orphans: %v", orphans)
		}
		return nil
	})
	require.NoError(t, b.EndLease(ctx, dead))
	orphans, err := b.FindOrphans(ctx, 100)
	require.NoError(t, err)
	require.Empty(t, orphans)
}

func TestOwedFigures(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	run := b.ids.V7()
	b.begin(key(run, 1), nil)
	require.Empty(t, b.TakeOwed(10), "nothing is spent yet")
	b.settle(&store.Settle{Key: key(run, 1), TryNo: 1, Outcome: b.answered("0.01", "a")})
	first := b.TakeOwed(10)
	require.Equal(t, []store.Owed{{RunID: run, Spend: store.Spend{Amount: usd(t, "0.01"), Version: 1}}}, first)
	require.Empty(t, b.TakeOwed(10))

	b.begin(key(run, 2), nil)
	b.settle(&store.Settle{Key: key(run, 2), TryNo: 1, Outcome: b.answered("0.01", "a")})
	b.PutBackOwed(first) // too late to be the newest
	second := b.TakeOwed(10)
	require.Equal(t, int64(2), second[0].Spend.Version)

	require.NoError(t, b.ConfirmOwed(ctx, first))
	require.NoError(t, b.FindOwed(ctx, 0, 10))
	require.Equal(t, second, b.TakeOwed(10), "an older figure's confirmation leaves the newer one owed")
	require.NoError(t, b.ConfirmOwed(ctx, second))
	require.NoError(t, b.FindOwed(ctx, 0, 10))
	require.Empty(t, b.TakeOwed(10))
}

func TestPricesAreStoredOnceAndNeverChanged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	unit := func(s string) price.Unit {
		u, err := price.ParseUnit(s)
		require.NoError(t, err)
		return u
	}
	row := price.Row{
		Provider: "p", Model: "m", From: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		Input: unit("0.50"), CachedInput: unit("0.05"), CacheWrite: unit("0.50"), Output: unit("2"),
	}
	corrected := row
	corrected.Output = unit("3")
	first, err := b.PutPrices(t.Context(), []price.Row{row})
	require.NoError(t, err)
	second, err := b.PutPrices(t.Context(), []price.Row{corrected, row})
	require.NoError(t, err)
	require.Equal(t, first[0].ID, second[1].ID)
	require.NotEqual(t, second[0].ID, second[1].ID)
	require.Equal(t, 2, one[int](b, "SELECT count(*) FROM llm.model_price"))
	require.Equal(t, usd(t, "2"), one[money.Pico](b, "SELECT output FROM llm.model_price WHERE id = $1", first[0].ID))
}

func TestCancelledSteps(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	run, closed := b.ids.V7(), b.ids.V7()
	require.NoError(t, b.CancelStep(ctx, run, "fields", 2))
	require.NoError(t, b.CancelStep(ctx, run, "fields", 2))
	require.NoError(t, b.Submit(ctx, &store.Gate{RunID: closed, Tenant: "acme"}))
	orders, err := b.FindCancelled(ctx, []uuid.UUID{run, closed, b.ids.V7()})
	require.NoError(t, err)
	require.Len(t, orders, 2)
	for _, o := range orders {
		require.Equal(t, o.RunID == run, o.Step == "fields" && o.Generation == 2)
		require.WithinDuration(t, clock.System().Now(), o.At, time.Minute)
	}
}

// Whatever a provider says, its answer is stored.
func TestHostileAnswersAreStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k := key(b.ids.V7(), 1)
	b.begin(k, nil)
	o := b.answered("0.01", "\x00\xff{")
	o.Message, o.FinishReason, o.RequestID = "a\x00b\xff", "\x00", strings.Repeat("\xfe", 10)
	b.settle(&store.Settle{Key: k, TryNo: 1, Outcome: o})
	require.Equal(t, "\x00\xff{", string(b.find(k).Answer.Body))
	require.Equal(t, "ab�", one[string](b, "SELECT message FROM llm.llm_try"))

	long := key(b.ids.V7(), 1)
	b.begin(long, nil)
	o.Message, o.FinishReason, o.RequestID = strings.Repeat("é", 1<<20), strings.Repeat("x", 1<<20), strings.Repeat("\xfe", 1<<20)
	b.settle(&store.Settle{Key: long, TryNo: 1, Outcome: o})
	require.Equal(t, 2003, one[int](b, `SELECT max(greatest(octet_length(message), octet_length(finish_reason),
		octet_length(provider_request_id))) FROM llm.llm_try`), "the words of a provider are cut")
}

// One change of 500, each of a run of its own, is refused by PostgreSQL: it fails alone, and the group is halved down to it.
func TestOneBadChangeFailsAlone(t *testing.T) {
	t.Parallel()
	const many, guilty = 500, 271
	// Each of the two lanes makes up to three groups, of which one is halved, nine times at most and each time into two.
	const mostGroups = 2*3 + 2*9
	b := setup(t)
	for _, statement := range []string{
		`CREATE SEQUENCE public.groups MINVALUE 0`,
		`CREATE FUNCTION public.count_group() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN PERFORM nextval('public.groups'); RETURN NULL; END $$`,
		`CREATE TRIGGER counted BEFORE UPDATE ON llm.run_spend FOR EACH STATEMENT EXECUTE FUNCTION public.count_group()`,
		`ALTER TABLE llm.llm_try ADD CONSTRAINT forbidden CHECK (finish_reason <> 'forbidden')`,
	} {
		_, err := b.pool.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	submit := func(what string, changes []store.Change) {
		before := one[int](b, "SELECT nextval('public.groups')")
		for i, err := range b.SubmitAll(t.Context(), changes) {
			require.Equal(t, i == guilty, err != nil, "%s %d: %v", what, i, err)
		}
		require.LessOrEqual(t, one[int](b, "SELECT nextval('public.groups')")-before, mostGroups, "transactions for 500 %s", what)
		b.balanced(t)
	}
	begins, settles := make([]store.Change, many), make([]store.Change, many)
	for i := range many {
		k, request := key(b.ids.V7(), i), "{}"
		if i == guilty {
			request = "{" // no JSON: PostgreSQL refuses it
		}
		begins[i] = &store.Begin{
			Key:      k,
			Question: store.Question{Tenant: "acme", Step: "s", Class: "batch", Request: []byte(request)},
			Sending:  store.Sending{WorstCase: 1, Holder: b.me},
		}
		settles[i] = &store.Settle{Key: k, TryNo: 1, Outcome: b.answered("0.01", "fine")}
	}
	submit("requests", begins)
	require.Equal(t, many-1, one[int](b, "SELECT count(*)::int FROM llm.llm_try WHERE state = 'in_flight'"))

	begins[guilty].(*store.Begin).Question.Request = []byte("{}")
	require.NoError(t, b.Submit(t.Context(), begins[guilty]))
	settles[guilty].(*store.Settle).Outcome.FinishReason = "forbidden"
	submit("answers", settles)
	require.Equal(t, many-1, one[int](b, "SELECT count(*)::int FROM llm.llm_try WHERE state = 'answered'"))
	settles[guilty].(*store.Settle).Outcome.FinishReason = "stop"
	require.NoError(t, b.Submit(t.Context(), settles[guilty]), "what was refused has changed nothing")
	b.balanced(t)
}

func TestEnumerationsAreTheSchemas(t *testing.T) {
	t.Parallel()
	b := setup(t)
	definition := func(table, column string) string {
		return one[string](b, `SELECT string_agg(pg_get_constraintdef(oid), ' ') FROM pg_constraint
			WHERE conrelid = $1::regclass AND contype = 'c' AND pg_get_constraintdef(oid) LIKE '%' || $2 || '%'`, table, column)
	}
	for _, c := range []struct {
		table, column string
		words         []string
	}{
		{"llm.llm_call_log", "state", words(store.CallInFlight, store.CallAnswered, store.CallFailed, store.CallAmbiguous, store.CallCancelled)},
		{"llm.llm_try", "state", words(
			store.TryInFlight, store.TryAnswered, store.TryFailed, store.TryAmbiguous, store.TryCancelled, store.TryNotSent)},
		{"llm.llm_try", "cost_basis", words(store.Counted, store.Estimated, store.WorstCase, store.Unpriced, "")},
	} {
		text := definition(c.table, c.column)
		for _, word := range c.words {
			require.Contains(t, text, "'"+word+"'")
		}
		require.Equal(t, len(c.words), strings.Count(text, "'::text"), text)
	}
}

func words[T ~string](list ...T) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return out
}

// Random changes of a few calls of a few runs, from several goroutines: the books always balance, nobody answers twice, and
// no budget is overdrawn.
func TestTheBooksAlwaysBalance(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rapid.Check(t, func(t *rapid.T) {
		runs := []uuid.UUID{b.ids.V7(), b.ids.V7()}
		holders := []uuid.UUID{b.me, b.ids.V4()}
		batches := map[uuid.UUID]uuid.UUID{runs[1]: b.ids.V7()}
		models := []string{"small", "large?429*1"}
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) func() store.Change {
			k := key(rapid.SampledFrom(runs).Draw(t, "run"), rapid.IntRange(0, 2).Draw(t, "call"))
			holder := rapid.SampledFrom(holders).Draw(t, "holder")
			amount := money.Pico(rapid.Int64Range(0, 400).Draw(t, "amount")) * money.Dollar / 1000
			tryNo := int32(rapid.IntRange(0, 3).Draw(t, "try"))
			state := rapid.SampledFrom([]store.TryState{
				store.TryAnswered, store.TryFailed, store.TryAmbiguous, store.TryCancelled, store.TryNotSent,
			}).Draw(t, "state")
			epoch := int32(rapid.IntRange(0, 2).Draw(t, "epoch"))
			budget := money.Dollar
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				return func() store.Change {
					return &store.Gate{RunID: k.RunID, Tenant: "acme", Epoch: epoch, Open: amount%2 == 0, Budget: &budget}
				}
			case 1, 2:
				return func() store.Change {
					return &store.Begin{
						Key: k, Budget: &budget, Epoch: epoch, AmbiguousOK: tryNo, Batch: batches[k.RunID],
						Question: store.Question{Tenant: "acme", Step: "s", Class: "batch", Request: []byte("{}"), Origin: "review:1"},
						Sending:  store.Sending{WorstCase: amount, Holder: holder, Provider: "main", Model: models[tryNo%2]},
					}
				}
			default:
				o := store.Outcome{State: state, Cost: amount / 2, Basis: store.Counted}
				if state == store.TryAmbiguous || state == store.TryCancelled {
					o.Basis = store.WorstCase
				}
				if state == store.TryAnswered {
					o.Usage = price.Usage{Input: 10 * int64(amount%7+3), CachedInput: 5, CacheWrite: 2, CacheWrite1h: 1, Output: int64(amount % 5), Tier: price.Standard}
					if amount%3 == 0 {
						o.Basis = store.Unpriced
					}
				}
				return func() store.Change { return &store.Settle{Key: k, TryNo: tryNo, Holder: holder, Outcome: o} }
			}
		}), 1, 30).Draw(t, "changes")
		for chunk := range slices.Chunk(steps, 5) {
			var changes []store.Change
			for _, make := range chunk {
				changes = append(changes, make())
			}
			for _, err := range b.SubmitAll(context.WithoutCancel(b.t.Context()), changes) {
				require.NoError(t, err)
			}
		}
		b.balanced(t)
		var overdrawn, twice int
		require.NoError(t, b.pool.QueryRow(b.t.Context(),
			"SELECT count(*) FROM llm.run_spend WHERE spent + reserved > budget").Scan(&overdrawn))
		require.Zero(t, overdrawn)
		require.NoError(t, b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM (
			SELECT FROM llm.llm_try WHERE state = 'in_flight' GROUP BY run_id, call_key HAVING count(*) > 1) x`).Scan(&twice))
		require.Zero(t, twice, "calls with two requests in flight")
	})
}
