package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/store"
)

// spend returns the rows by model and day.
func (b *bundle) spend(q store.SpendQuery) []store.SpendRow {
	b.t.Helper()
	rows, err := b.Spend(b.t.Context(), q)
	require.NoError(b.t, err)
	return rows
}

func today() time.Time { return clock.System().Now().UTC().Truncate(24 * time.Hour) }

func TestWhatIsSpentStandsInTheDay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k := key(b.ids.V7(), 1)
	b.begin(k, func(e *store.Begin) { e.Question.Origin = "review:3" })
	b.settle(&store.Settle{Key: k, TryNo: 1, Outcome: store.Outcome{State: store.TryFailed, HTTPStatus: 503}})
	b.begin(k, func(e *store.Begin) { e.Sending.Model = "large?503*1" })
	b.settle(&store.Settle{Key: k, TryNo: 2, Outcome: b.answered("0.0123", "a")})

	rows := b.spend(store.SpendQuery{From: today(), To: today(), By: []store.Dimension{store.ByModel, store.ByOrigin, store.ByDay}})
	require.Len(t, rows, 2)
	require.Equal(t, store.SpendRow{
		Day: today().Format(time.DateOnly), Origin: "review:3", Model: "large", Calls: 1, Answered: 1, Cost: "0.0123",
		Usage: price.Usage{Input: 100, CachedInput: 40, Output: 20, Reasoning: 5},
	}, rows[0], "faults of simulated models are no part of their names")
	require.Equal(t, "0", rows[1].Cost)
	require.Equal(t, int64(1), rows[1].Calls)

	require.Equal(t, []store.SpendRow{{Tenant: "acme", Calls: 2, Answered: 1, Cost: "0.0123", Usage: rows[0].Usage}},
		b.spend(store.SpendQuery{From: today(), To: today(), Tenant: "acme", By: []store.Dimension{store.ByTenant}}))
	require.Empty(t, b.spend(store.SpendQuery{From: today(), To: today(), Tenant: "other"}), "another tenant sees nothing")
	require.Empty(t, b.spend(store.SpendQuery{From: today().AddDate(0, 0, -9), To: today().AddDate(0, 0, -1)}))
	b.booked(t)
}

// A worst case that was booked is corrected when the answer comes after all.
func TestALateAnswerCorrectsTheDay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k := key(b.ids.V7(), 1)
	b.begin(k, nil)
	b.settle(&store.Settle{Key: k, TryNo: 1, Outcome: store.Outcome{State: store.TryAmbiguous, Basis: store.WorstCase}})
	require.Equal(t, "0.3", b.spend(store.SpendQuery{From: today(), To: today()})[0].Cost)
	b.settle(&store.Settle{Key: k, TryNo: 1, Outcome: b.answered("0.01", "late")})
	rows := b.spend(store.SpendQuery{From: today(), To: today()})
	require.Equal(t, "0.01", rows[0].Cost)
	require.Equal(t, int64(1), rows[0].Calls)
	require.Equal(t, int64(1), rows[0].Answered)
	b.booked(t)
}

func TestTheCallLogExplainsCosts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k := key(b.ids.V7(), 1)
	b.begin(k, nil)
	o := b.answered("0.5", "a")
	o.PriceID, o.Tier = 7, price.Batch
	o.Split = price.Split{Input: usd(t, "0.1"), Reasoning: usd(t, "0.4")}
	o.Usage.CacheWrite1h, o.Usage.Tools[price.WebSearch] = 3, 2
	b.settle(&store.Settle{Key: k, TryNo: 1, Outcome: o})
	require.JSONEq(t, `{"price_id": 7, "tier": "batch", "split": {"input": "0.1", "reasoning": "0.4"}, "hour": 3, "tools": {"web_search": 2}}`,
		one[string](b, `SELECT jsonb_build_object('price_id', price_id, 'tier', tier, 'split', cost_split, 'hour', cache_write_1h_tokens,
			'tools', tool_calls)::text FROM llm.llm_try`))
}

// An older gateway, which knows no spend_day, has settled requests and corrected one: they are found and booked, on the days
// on which they were settled.
func TestWhatOthersHaveSettledIsBooked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k := key(b.ids.V7(), 1)
	b.begin(k, nil)
	b.settle(&store.Settle{Key: k, TryNo: 1, Outcome: b.answered("0.01", "a")})
	other := key(b.ids.V7(), 1)
	b.begin(other, nil)
	_, err := b.pool.Exec(t.Context(), `UPDATE llm.llm_try SET state = 'answered', reserved = 0, cost = 0.2, cost_basis = 'counted', input_tokens = 9,
		finished_at = now() - interval '3 days', booked = NULL WHERE run_id = $1`, other.RunID)
	require.NoError(t, err)
	_, err = b.pool.Exec(t.Context(), `UPDATE llm.llm_try SET cost = 0.02 WHERE run_id = $1`, k.RunID)
	require.NoError(t, err)

	n, err := b.BookUnbooked(t.Context(), uuid.Nil, 100)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	n, err = b.BookUnbooked(t.Context(), uuid.Nil, 100)
	require.NoError(t, err)
	require.Zero(t, n)
	b.booked(t)
	before := today().AddDate(0, 0, -3)
	require.Equal(t, "0.2", b.spend(store.SpendQuery{From: before, To: before})[0].Cost)
}

// The rows of gateways that are gone are folded into one, and nothing is lost by it, also when two fold at once.
func TestRowsOfThoseWhoAreGoneAreFolded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	gone, living := b.ids.V4(), b.ids.V4()
	_, err := b.RenewLease(t.Context(), living, "living", time.Minute)
	require.NoError(t, err)
	for i, holder := range []uuid.UUID{gone, b.ids.V4(), living, gone} {
		s := store.New(b.pool, b.pool, 1)
		s.BookAs(holder)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		k := key(b.ids.V7(), i)
		require.NoError(t, s.Submit(t.Context(), &store.Begin{
			Key: k, Question: store.Question{Tenant: "acme", Step: "s", Class: "batch", Request: []byte("{}")},
			Sending: store.Sending{WorstCase: usd(t, "0.3"), Holder: holder},
		}))
		require.NoError(t, s.Submit(t.Context(), &store.Settle{Key: k, TryNo: 1, Outcome: b.answered("0.1", "a")}))
		cancel()
		<-done
	}
	require.Equal(t, 3, one[int](b, "SELECT count(*)::int FROM llm.spend_day"))
	both := make(chan error, 2)
	for range 2 {
		go func() { both <- b.FoldSpend(t.Context()) }()
	}
	require.NoError(t, <-both)
	require.NoError(t, <-both)
	require.NoError(t, b.FoldSpend(t.Context()))
	require.Equal(t, 2, one[int](b, "SELECT count(*)::int FROM llm.spend_day"), "the living one's, and the one of all others")
	require.Equal(t, 2, one[int](b, "SELECT count(*)::int FROM llm.spend_sum"))
	require.Equal(t, "0.4", strings.TrimRight(one[string](b, "SELECT sum(cost)::text FROM llm.spend_day"), "0"))
	b.booked(t)
}

func TestPricesAreKeptOnceEach(t *testing.T) {
	t.Parallel()
	b := setup(t)
	unit := func(text string) price.Unit {
		u, err := price.ParseUnit(text)
		require.NoError(t, err)
		return u
	}
	half, err := price.ParseFactor("0.5")
	require.NoError(t, err)
	base := price.Row{
		Provider: "p", Model: "m", From: today(), Input: unit("1"), CachedInput: unit("0.1"), CacheWrite: unit("1.25"), Output: unit("5"),
	}
	changed := []func(*price.Row){
		func(*price.Row) {},
		func(r *price.Row) { r.To = today().AddDate(0, 1, 0) },
		func(r *price.Row) { r.Tier = price.Flex },
		func(r *price.Row) { r.AboveTokens = 1000 },
		func(r *price.Row) { r.CacheWrite1h = unit("2") },
		func(r *price.Row) { r.CacheWrite1h = unit("0") },
		func(r *price.Row) { r.Reasoning = unit("6") },
		func(r *price.Row) { r.Tools[price.WebSearch] = unit("10000") },
		func(r *price.Row) { r.BatchFactor = half },
	}
	var rows []price.Row
	for _, change := range changed {
		r := base
		change(&r)
		rows = append(rows, r)
	}
	first, err := b.PutPrices(t.Context(), rows)
	require.NoError(t, err)
	seen := map[int64]bool{}
	for _, r := range first {
		require.NotZero(t, r.ID)
		seen[r.ID] = true
	}
	require.Len(t, seen, len(rows), "rows that differ in anything are rows of their own")
	again, err := b.PutPrices(t.Context(), rows)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Equal(t, len(rows), one[int](b, "SELECT count(*)::int FROM llm.model_price"))
}
