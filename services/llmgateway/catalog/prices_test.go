package catalog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/llmgateway/catalog"
	"pawl.internal/services/llmgateway/price"
)

// The published prices, as a table: input, output, cache read, cache write for five minutes and for an hour, US dollars per
// million tokens.
func TestKnownPricesAreThePublishedOnes(t *testing.T) {
	t.Parallel()
	rows, err := catalog.KnownPrices()
	require.NoError(t, err)
	list := price.NewList(rows)
	for _, want := range []struct {
		provider, model                  string
		prompt                           int64
		input, output, read, write, hour string
	}{
		{"anthropic", "claude-opus-5-5", 1, "4", "20", "0.2", "5", "8"},
		{"anthropic", "claude-opus-5", 1, "5", "25", "0.5", "6.25", "10"},
		{"anthropic", "claude-sonnet-5-5", 1, "2", "10", "0.1", "2.5", "4"},
		{"anthropic", "claude-haiku-5-5", 100_000, "0.1", "0.5", "0.01", "0.125", "0.2"},
		{"anthropic", "claude-haiku-5-5", 100_001, "0.5", "2.5", "0.05", "0.625", "1"},
		{"openai", "gpt-6.2-sol", 272_000, "2", "10", "0.1", "2.5", ""},
		{"openai", "gpt-6.2-sol", 272_001, "4", "15", "0.2", "5", ""},
		{"openai", "gpt-6.2-astra", 272_000, "8", "40", "0.4", "10", ""},
		{"openai", "gpt-6.2-astra", 272_001, "16", "60", "0.8", "20", ""},
		{"openai", "gpt-5.5", 1, "5", "30", "0.5", "5", ""},
		{"openai", "gpt-6-luna", 1, "0.1", "0.5", "0.01", "0.125", ""},
		{"gemini", "gemini-4-neon", 1, "3", "15", "0.15", "3", ""},
		{"gemini", "gemini-4-hydrogen", 1, "1.5", "7.5", "0.075", "1.5", ""},
		{"deepseek", "deepseek-flash", 1, "0.3", "1.2", "0.006", "0.3", ""},
		{"deepseek", "deepseek-v4-pro", 1, "1.32", "3.96", "0.044", "1.32", ""},
	} {
		card, ok := list.At(want.provider, want.model, today)
		require.True(t, ok, want.model)
		r, ok := card.Row(price.Standard, want.prompt)
		require.True(t, ok, want.model)
		hour := ""
		if r.CacheWrite1h.Known() {
			hour = r.CacheWrite1h.PerMillion().String()
		}
		require.Equal(t, []string{want.input, want.output, want.read, want.write, want.hour}, []string{
			r.Input.PerMillion().String(), r.Output.PerMillion().String(), r.CachedInput.PerMillion().String(), r.CacheWrite.PerMillion().String(), hour,
		}, "%s of %d tokens", want.model, want.prompt)
	}
	before, ok := list.At("anthropic", "claude-sonnet-5-5", time.Date(2026, 10, 6, 23, 0, 0, 0, time.UTC))
	require.True(t, ok)
	r, ok := before.Row(price.Standard, 1)
	require.True(t, ok)
	require.Equal(t, "0.2", r.CachedInput.PerMillion().String(), "a request is billed by the prices of its time")
}

// A long prompt with a cache, by the known prices: all of it at the upper tier.
func TestALongPromptCostsWhatThePriceListSays(t *testing.T) {
	t.Parallel()
	rows, err := catalog.KnownPrices()
	require.NoError(t, err)
	card, ok := price.NewList(rows).At("anthropic", "claude-haiku-5-5", today)
	require.True(t, ok)
	bill, err := card.Cost(price.Usage{Input: 101_000, CachedInput: 99_000, Output: 500})
	require.NoError(t, err)
	require.Equal(t, "0.0072", bill.Total.String())
	batch, err := card.Cost(price.Usage{Input: 101_000, CachedInput: 99_000, Output: 500, Tier: price.Batch})
	require.NoError(t, err)
	require.Equal(t, "0.0036", batch.Total.String())
}

const pricedFile = `
providers: [{name: main, kind: openai, base_url: http://127.0.0.1:1/v1}]
routes: {default: [{provider: main, model: m}]}
unpriced_reserve: "0.25"
prices:
  - provider: main
    model: m
    from: 2026-01-01
    to: 2027-01-01
    input: "2"
    output: "10"
    cache_write: "2.50"
    cache_write_1h: "4"
    reasoning: "12"
    tool_calls: {web_search: "0.01"}
    batch_factor: "0.5"
  - {provider: main, model: m, from: 2026-01-01, above_tokens: 1000, input: "4", output: "20"}
  - {provider: main, model: m, from: 2026-01-01, tier: flex, input: "1", output: "5"}
`

func TestAPriceRowSaysEverything(t *testing.T) {
	t.Parallel()
	c, err := load(t, pricedFile)
	require.NoError(t, err)
	require.Equal(t, "0.25", c.UnpricedReserve.String())
	card, ok := price.NewList(c.Prices).At("main", "m", today)
	require.True(t, ok)
	for _, want := range []struct {
		usage price.Usage
		cost  string
	}{
		{price.Usage{Input: 1000, CacheWrite: 200, CacheWrite1h: 300, Output: 50, Reasoning: 20, Tools: price.ToolCalls{price.WebSearch: 2}}, "0.02324"},
		{price.Usage{Input: 1001, Output: 1}, "0.004024"},
		{price.Usage{Input: 10, Output: 1, Tier: price.Flex}, "0.000015"},
		{price.Usage{Input: 10, Output: 1, Tier: price.Batch, Tools: price.ToolCalls{price.WebSearch: 1}}, "0.005015"},
	} {
		bill, err := card.Cost(want.usage)
		require.NoError(t, err)
		require.Equal(t, want.cost, bill.Total.String(), "%+v", want.usage)
	}
	_, ok = price.NewList(c.Prices).At("main", "m", time.Date(2025, 12, 31, 0, 0, 0, 0, time.UTC))
	require.False(t, ok)
}

func TestPriceRowsThatAreWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ row, wrong string }{
		"tool":     {`input: "1", output: "1", tool_calls: {web_serach: "1"}`, "is not a tool that is billed"},
		"tier":     {`input: "1", output: "1", tier: cheap`, `"cheap" is not known here`},
		"factor":   {`input: "1", output: "1", batch_factor: half`, "is not a factor"},
		"division": {`input: "0.000001", output: "1", batch_factor: "0.5"`, "not a whole number of pico-dollars"},
		"end":      {`input: "1", output: "1", to: 2026-01-01`, "it ends at"},
		"size":     {`input: "1", output: "1", above_tokens: -1`, "must be a whole number above 0"},
		"free":     {`free: true, batch_factor: "0.5"`, "it is free and has a price"},
		"fee":      {`input: "1", output: "1", tool_calls: {web_search: much}`, "is not an amount of money"},
	} {
		_, err := load(t, `
providers: [{name: main, kind: openai, base_url: http://127.0.0.1:1/v1}]
routes: {default: [{provider: main, model: m}]}
prices: [{provider: main, model: m, from: 2026-01-01, `+c.row+`}]
`)
		require.ErrorContains(t, err, c.wrong, name)
	}
	_, err := load(t, `
providers: [{name: main, kind: openai, base_url: http://127.0.0.1:1/v1}]
routes: {default: [{provider: main, model: m}]}
unpriced_reserve: "0"
prices: [{provider: main, model: m, free: true}]
`)
	require.ErrorContains(t, err, "must be US dollars above 0")
}
