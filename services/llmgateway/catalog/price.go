package catalog

import (
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/llmgateway/price"
)

// priceTexts are the amounts of a row of the file, as they stand there.
type priceTexts struct {
	input, cached, write, write1h, output, reasoning, factor string
	tools                                                    map[price.Tool]string
}

func (p priceTexts) any() bool {
	return p.input+p.cached+p.write+p.write1h+p.output+p.reasoning+p.factor != "" || len(p.tools) > 0
}

func (f *file) price(n *yaml.Node, path string) {
	row := price.Row{Tier: price.Standard}
	texts := priceTexts{tools: map[price.Tool]string{}}
	var free bool
	var above int
	f.mapping(n, path, fields{
		"provider": f.text(&row.Provider), "model": f.text(&row.Model),
		"from": f.date(&row.From), "to": f.date(&row.To),
		"tier": oneOf(&f.reader, &row.Tier, price.Tiers()...), "above_tokens": f.positive(&above),
		"input": f.text(&texts.input), "cached_input": f.text(&texts.cached),
		"cache_write": f.text(&texts.write), "cache_write_1h": f.text(&texts.write1h),
		"output": f.text(&texts.output), "reasoning": f.text(&texts.reasoning),
		"tool_calls":   func(n *yaml.Node, path string) { f.entries(n, path, f.fee(&row, texts.tools)) },
		"batch_factor": f.text(&texts.factor),
		"free":         f.truth(&free),
	}, "provider", "model")
	row.AboveTokens = int64(above)
	switch {
	case free && texts.any():
		f.complain(n, path, "it is free and has a price: one of the two is wrong")
	case !free && (texts.input == "" || texts.output == "" || row.From.IsZero()):
		f.complain(n, path, `give "from", "input" and "output" (US dollars per million tokens), or "free: true"`)
	case !free:
		f.units(&row, texts, n, path)
	default:
		if row.From.IsZero() {
			row.From = time.Unix(0, 0).UTC()
		}
		row = row.FreeOfCharge()
	}
	f.catalog.Prices = append(f.catalog.Prices, row)
	f.prices = append(f.prices, place{node: n, path: path, provider: row.Provider, model: row.Model})
}

// fee reads the price of one call of a tool.
func (f *file) fee(row *price.Row, seen map[price.Tool]string) func(name, value *yaml.Node, path string) {
	return func(name, value *yaml.Node, path string) {
		tool, ok := price.ParseTool(name.Value)
		if !ok {
			f.complain(name, path, "%q is not a tool that is billed: use %s", name.Value, toolNames())
			return
		}
		var text string
		f.text(&text)(value, path)
		if text == "" {
			return // it has been complained of
		}
		var err error
		if row.Tools[tool], err = price.ParseFee(text); err != nil {
			f.complain(value, path, "%v", err)
		}
		seen[tool] = text
	}
}

func toolNames() string {
	var names []string
	for _, t := range price.Tools() {
		names = append(names, t.String())
	}
	return strings.Join(names, ", ")
}

// units fills in the row's prices; cached and cache-writing input cost what input costs if nothing else is said. What is
// cached for an hour has no such default: it costs more than the usual cache, and nobody would notice.
func (f *file) units(row *price.Row, texts priceTexts, n *yaml.Node, path string) {
	before := len(f.problems)
	for _, u := range []struct {
		dst         *price.Unit
		name, value string
	}{
		{&row.Input, "input", texts.input},
		{&row.CachedInput, "cached_input", orElse(texts.cached, texts.input)},
		{&row.CacheWrite, "cache_write", orElse(texts.write, texts.input)},
		{&row.CacheWrite1h, "cache_write_1h", texts.write1h},
		{&row.Output, "output", texts.output},
		{&row.Reasoning, "reasoning", texts.reasoning},
	} {
		if u.value == "" {
			continue
		}
		var err error
		if *u.dst, err = price.ParseUnit(u.value); err != nil {
			f.complain(n, join(path, u.name), "%v", err)
		}
	}
	if texts.factor != "" {
		var err error
		if row.BatchFactor, err = price.ParseFactor(texts.factor); err != nil {
			f.complain(n, join(path, "batch_factor"), "%v", err)
		}
	}
	if err := row.Check(); err != nil && len(f.problems) == before {
		f.complain(n, path, "%v", err)
	}
}

// unpricedReserve reads what a request reserves whose price is not known.
func (f *file) unpricedReserve(n *yaml.Node, path string) {
	var text string
	f.text(&text)(n, path)
	if text == "" {
		return // it has been complained of
	}
	amount, err := money.Parse(text)
	if err != nil || amount <= 0 {
		f.complain(n, path, "must be US dollars above 0, such as \"0.50\"")
		return
	}
	f.catalog.UnpricedReserve = &amount
}

func orElse(value, other string) string {
	if value == "" {
		return other
	}
	return value
}
