package price_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/llmgateway/price"
)

func unit(t require.TestingT, text string) price.Unit {
	u, err := price.ParseUnit(text)
	require.NoError(t, err)
	return u
}

func row(t require.TestingT, input, cached, output string) price.Row {
	return price.Row{
		Provider: "p", Model: "m", Input: unit(t, input), CachedInput: unit(t, cached),
		CacheWrite: unit(t, input), CacheWrite1h: unit(t, input), Output: unit(t, output),
	}
}

func TestCostsComeOutToTheLastDigit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		row   price.Row
		usage price.Usage
		want  string
	}{
		{row(t, "1.25", "0.125", "10"), price.Usage{Input: 1239328, CachedInput: 1188096, Output: 12909}, "0.341642"},
		{row(t, "0.30", "0.30", "2.50"), price.Usage{Input: 20, Output: 603}, "0.0015135"},
		{row(t, "0.003", "0.000001", "0"), price.Usage{Input: 3, CachedInput: 2}, "0.000000003002"},
		{row(t, "2", "0.1", "10"), price.Usage{}, "0"},
	} {
		got, err := c.row.Cost(c.usage)
		require.NoError(t, err)
		require.Equal(t, c.want, got.Total.String())
	}
}

func TestCacheWritesHaveTheirOwnPrice(t *testing.T) {
	t.Parallel()
	r := row(t, "2", "0.10", "10")
	r.CacheWrite = unit(t, "2.50")
	got, err := r.Cost(price.Usage{Input: 1000, CachedInput: 300, CacheWrite: 200, Output: 10})
	require.NoError(t, err)
	require.Equal(t, "0.00163", got.Total.String()) // 500 × 2 + 300 × 0.1 + 200 × 2.5 + 10 × 10, by the million
}

func TestImpossibleCountsAreRefused(t *testing.T) {
	t.Parallel()
	r := row(t, "1", "1", "1")
	for _, u := range []price.Usage{
		{Input: 10, CachedInput: 11},
		{Input: 10, CachedInput: 6, CacheWrite: 6},
		{Input: -1},
		{Output: -1},
		{Input: 1_000_000_001},
		{Output: 1_000_000_001}, // two of the largest would not fit into a sum
		{CachedInput: -1, Input: 3},
		{Output: 3, Reasoning: 4},
	} {
		_, err := r.Cost(u)
		require.ErrorIs(t, err, price.ErrUsage, "%+v", u)
	}
	_, err := row(t, "99999", "1", "1").Cost(price.Usage{Input: 1_000_000_000})
	require.ErrorIs(t, err, money.ErrOverflow)
}

func TestNoUsageCostsMoreThanTheBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.Int64Range(0, 1_000_000)
		digits := rapid.StringMatching(`[0-9]{1,3}\.[0-9]{1,6}`)
		r := row(t, digits.Draw(t, "input"), digits.Draw(t, "cached"), digits.Draw(t, "output"))
		u := price.Usage{Input: tokens.Draw(t, "input tokens"), Output: tokens.Draw(t, "output tokens")}
		u.CachedInput = rapid.Int64Range(0, u.Input).Draw(t, "cached tokens")
		cost, err := r.Cost(u)
		require.NoError(t, err)
		most, err := r.Most(u.Input, u.Output)
		require.NoError(t, err)
		require.LessOrEqual(t, cost.Total, most)
	})
}

func TestUnitPrices(t *testing.T) {
	t.Parallel()
	require.Equal(t, "0.05", unit(t, "0.05").PerMillion().String())
	require.True(t, unit(t, "0").IsZero())
	for _, bad := range []string{"-1", "0.0000001", "", "1,5", "free"} {
		_, err := price.ParseUnit(bad)
		require.Error(t, err, bad)
	}
}

func TestTheRowOfTheTimeHolds(t *testing.T) {
	t.Parallel()
	day := func(d int) time.Time { return time.Date(2026, time.October, d, 0, 0, 0, 0, time.UTC) }
	l := price.NewList([]price.Row{
		{ID: 2, Provider: "p", Model: "m", From: day(7)},
		{ID: 3, Provider: "p", Model: "m", From: day(20)},
		{ID: 1, Provider: "p", Model: "m", From: day(1)},
		{ID: 9, Provider: "p", Model: "other", From: day(1)},
	})
	for at, want := range map[time.Time]int64{day(1): 1, day(6): 1, day(7): 2, day(19): 2, day(25): 3} {
		got, ok := l.At("p", "m", at)
		require.True(t, ok)
		row, ok := got.Row(price.Standard, 1)
		require.True(t, ok)
		require.Equal(t, want, row.ID, at)
	}
	_, ok := l.At("p", "m", day(1).Add(-time.Second))
	require.False(t, ok)
	_, ok = price.List{}.At("p", "m", day(1))
	require.False(t, ok)
}

func TestARowForEveryModelHoldsWhereThereIsNoOther(t *testing.T) {
	t.Parallel()
	l := price.NewList([]price.Row{{ID: 1, Provider: "p", Model: price.AnyModel}, {ID: 2, Provider: "p", Model: "m"}})
	for model, want := range map[string]int64{"m": 2, "other": 1} {
		got, ok := l.At("p", model, time.Unix(0, 0))
		require.True(t, ok)
		row, ok := got.Row(price.Standard, 1)
		require.True(t, ok)
		require.Equal(t, want, row.ID)
	}
	_, ok := l.At("q", "m", time.Unix(0, 0))
	require.False(t, ok)
}

func TestEstimates(t *testing.T) {
	t.Parallel()
	require.Equal(t, int64(0), price.UsualTokens(0))
	require.Equal(t, int64(1), price.UsualTokens(1))
	require.Equal(t, int64(25), price.UsualTokens(100))
	require.Equal(t, int64(51+16), price.MostTokens(101, 2))
}
