package price_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/llmgateway/price"
)

func fee(t require.TestingT, text string) price.Unit {
	u, err := price.ParseFee(text)
	require.NoError(t, err)
	return u
}

func factor(t require.TestingT, text string) price.Factor {
	f, err := price.ParseFactor(text)
	require.NoError(t, err)
	return f
}

// card is the card of the rows, all of one model.
func card(t require.TestingT, rows ...price.Row) price.Card {
	for i := range rows {
		rows[i].Provider, rows[i].Model = "p", "m"
		require.NoError(t, rows[i].Check())
	}
	c, ok := price.NewList(rows).At("p", "m", time.Unix(0, 0))
	require.True(t, ok)
	return c
}

// tiered has two sizes of prompts and a batch tier.
func tiered(t require.TestingT) price.Card {
	half := factor(t, "0.5")
	return card(t,
		price.Row{
			ID: 1, Input: unit(t, "0.10"), CachedInput: unit(t, "0.01"), CacheWrite: unit(t, "0.125"), CacheWrite1h: unit(t, "0.20"),
			Output: unit(t, "0.50"), BatchFactor: half,
		},
		price.Row{
			ID: 2, AboveTokens: 100_000, Input: unit(t, "0.50"), CachedInput: unit(t, "0.05"), CacheWrite: unit(t, "0.625"),
			CacheWrite1h: unit(t, "1.00"), Output: unit(t, "2.50"), BatchFactor: half,
		},
	)
}

func TestTheSizeOfThePromptChoosesTheRow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		usage price.Usage
		want  string
		row   int64
	}{
		{"at the upper tier with its cache", price.Usage{Input: 101_000, CachedInput: 99_000, Output: 500}, "0.0072", 2},
		{"exactly the size", price.Usage{Input: 100_000, CachedInput: 98_000, Output: 500}, "0.00143", 1},
		{"one more", price.Usage{Input: 100_001, CachedInput: 98_001, Output: 500}, "0.00715005", 2},
		{"both caches", price.Usage{Input: 1000, CacheWrite: 300, CacheWrite1h: 200, Output: 10}, "0.0001325", 1},
		{"batch", price.Usage{Input: 101_000, CachedInput: 99_000, Output: 500, Tier: price.Batch}, "0.0036", 2},
		{"batch with cache writes", price.Usage{Input: 1000, CacheWrite: 300, CacheWrite1h: 200, Output: 10, Tier: price.Batch}, "0.00006625", 1},
	} {
		bill, err := tiered(t).Cost(c.usage)
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, bill.Total.String(), c.name)
		require.Equal(t, c.row, bill.RowID, c.name)
	}
}

func TestABillSaysWhatWasPaidFor(t *testing.T) {
	t.Parallel()
	r := row(t, "2", "0.10", "10")
	r.CacheWrite, r.CacheWrite1h, r.Reasoning = unit(t, "2.50"), unit(t, "4"), unit(t, "12")
	r.Tools[price.WebSearch] = fee(t, "0.01")
	bill, err := r.Cost(price.Usage{
		Input: 1000, CachedInput: 100, CacheWrite: 200, CacheWrite1h: 300, Output: 50, Reasoning: 20, Tools: price.ToolCalls{price.WebSearch: 3},
	})
	require.NoError(t, err)
	text := func(p money.Pico) string { return p.String() }
	require.Equal(t, []string{"0.0008", "0.00001", "0.0005", "0.0012", "0.0003", "0.00024", "0.03"}, []string{
		text(bill.Split.Input), text(bill.Split.CachedInput), text(bill.Split.CacheWrite), text(bill.Split.CacheWrite1h),
		text(bill.Split.Output), text(bill.Split.Reasoning), text(bill.Split.Tools),
	})
	require.Equal(t, "0.03305", bill.Total.String())
	require.Equal(t, price.Standard, bill.Tier)
}

func TestWhatHasNoPriceIsSaid(t *testing.T) {
	t.Parallel()
	r := row(t, "1", "0.1", "2")
	r.CacheWrite1h = price.Unit{}
	for name, u := range map[string]price.Usage{
		"an hour's cache": {Input: 10, CacheWrite1h: 1},
		"a tool":          {Input: 10, Tools: price.ToolCalls{price.Grounding: 1}},
		"another tier":    {Input: 10, Tier: price.Priority},
		"batch":           {Input: 10, Tier: price.Batch},
	} {
		_, err := card(t, r).Cost(u)
		require.ErrorIs(t, err, price.ErrUnpriced, name)
	}
	_, err := price.Card{}.Cost(price.Usage{})
	require.ErrorIs(t, err, price.ErrUnpriced)
	_, err = price.Card{}.Most(price.Standard, 1, 1)
	require.ErrorIs(t, err, price.ErrUnpriced)
	free, err := price.Row{}.FreeOfCharge().Cost(price.Usage{Input: 10, CacheWrite1h: 1, Tools: price.ToolCalls{price.Grounding: 1}})
	require.NoError(t, err)
	require.Zero(t, free.Total)
}

func TestRowsThatCannotBeBilledExactlyAreRefused(t *testing.T) {
	t.Parallel()
	r := row(t, "0.000001", "0.000001", "1")
	r.BatchFactor = factor(t, "0.5")
	require.ErrorContains(t, r.Check(), "not a whole number of pico-dollars")
	r.BatchFactor = factor(t, "3")
	require.NoError(t, r.Check())
	r.Tier = price.Flex
	require.ErrorContains(t, r.Check(), "for rows of the tier standard")
	r = row(t, "1", "1", "1")
	r.From, r.To = time.Unix(10, 0), time.Unix(10, 0)
	require.ErrorContains(t, r.Check(), "it ends at")
	for _, bad := range []string{"0", "-1", "", "half", "11"} {
		_, err := price.ParseFactor(bad)
		require.Error(t, err, bad)
	}
}

func TestARowEnds(t *testing.T) {
	t.Parallel()
	r := row(t, "1", "1", "1")
	r.From, r.To = time.Unix(10, 0), time.Unix(20, 0)
	l := price.NewList([]price.Row{r})
	for second, want := range map[int64]bool{9: false, 10: true, 19: true, 20: false} {
		_, ok := l.At("p", "m", time.Unix(second, 0))
		require.Equal(t, want, ok, second)
	}
}

// usage draws counts that a request can have.
func usage(t *rapid.T) price.Usage {
	input := rapid.Int64Range(0, 400_000).Draw(t, "input")
	u := price.Usage{Input: input, Output: rapid.Int64Range(0, 100_000).Draw(t, "output")}
	u.CachedInput = rapid.Int64Range(0, input).Draw(t, "cached")
	u.CacheWrite = rapid.Int64Range(0, input-u.CachedInput).Draw(t, "written")
	u.CacheWrite1h = rapid.Int64Range(0, input-u.CachedInput-u.CacheWrite).Draw(t, "written for an hour")
	u.Reasoning = rapid.Int64Range(0, u.Output).Draw(t, "reasoning")
	u.Tier = rapid.SampledFrom([]price.Tier{"", price.Standard, price.Batch}).Draw(t, "tier")
	return u
}

func TestCostsAreExact(t *testing.T) {
	t.Parallel()
	c := tiered(t)
	rapid.Check(t, func(t *rapid.T) {
		u := usage(t)
		bill, err := c.Cost(u)
		require.NoError(t, err)
		require.GreaterOrEqual(t, bill.Total, money.Pico(0))
		total, err := bill.Split.Total()
		require.NoError(t, err)
		require.Equal(t, total, bill.Total)

		// No request costs more than its bound, whatever its prompt's size turns out to be.
		most, err := c.Most(u.Tier, u.Input+rapid.Int64Range(0, 1000).Draw(t, "more"), u.Output)
		require.NoError(t, err)
		require.LessOrEqual(t, bill.Total, most)

		// By one row, the cost of two requests is that of both.
		r, ok := c.Row(u.Tier, u.Input)
		require.True(t, ok)
		v := usage(t)
		other, err := r.Cost(v)
		require.NoError(t, err)
		both, err := r.Cost(price.Usage{
			Input: u.Input + v.Input, CachedInput: u.CachedInput + v.CachedInput, CacheWrite: u.CacheWrite + v.CacheWrite,
			CacheWrite1h: u.CacheWrite1h + v.CacheWrite1h, Output: u.Output + v.Output, Reasoning: u.Reasoning + v.Reasoning,
		})
		require.NoError(t, err)
		require.Equal(t, bill.Total+other.Total, both.Total)
	})
}
