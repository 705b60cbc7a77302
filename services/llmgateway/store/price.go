package store

import (
	"context"
	"fmt"
	"strings"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/store/db"
)

// unknown stands for a price that is not known in arrays.
const unknown money.Pico = -1 * money.Dollar

// PutPrices stores the rows that are not stored yet and returns all of them with their ids. Rows are never changed, so what
// a call cost stays explained.
func (s *Store) PutPrices(ctx context.Context, rows []price.Row) ([]price.Row, error) {
	var p db.FindPricesParams
	for i, r := range rows {
		p.Ns = append(p.Ns, int32(i))
		p.Providers, p.Models, p.Tiers = append(p.Providers, r.Provider), append(p.Models, r.Model), append(p.Tiers, tierOf(r))
		p.ValidFrom, p.ValidTo = append(p.ValidFrom, r.From), append(p.ValidTo, r.To)
		p.AboveTokens = append(p.AboveTokens, r.AboveTokens)
		p.Inputs, p.CachedInputs = append(p.Inputs, r.Input.PerMillion()), append(p.CachedInputs, r.CachedInput.PerMillion())
		p.CacheWrites, p.CacheWrites1h = append(p.CacheWrites, r.CacheWrite.PerMillion()), append(p.CacheWrites1h, orUnknown(r.CacheWrite1h))
		p.Outputs, p.Reasonings = append(p.Outputs, r.Output.PerMillion()), append(p.Reasonings, orUnknown(r.Reasoning))
		p.ToolCalls = append(p.ToolCalls, fees(r))
		factor := unknown
		if !r.BatchFactor.IsZero() {
			factor = r.BatchFactor.Pico()
		}
		p.BatchFactors = append(p.BatchFactors, factor)
	}
	query := db.New(s.pool)
	err := query.PutPrices(ctx, db.PutPricesParams{
		Providers: p.Providers, Models: p.Models, Tiers: p.Tiers, ValidFrom: p.ValidFrom, ValidTo: p.ValidTo, AboveTokens: p.AboveTokens,
		Inputs: p.Inputs, CachedInputs: p.CachedInputs, CacheWrites: p.CacheWrites, CacheWrites1h: p.CacheWrites1h, Outputs: p.Outputs,
		Reasonings: p.Reasonings, ToolCalls: p.ToolCalls, BatchFactors: p.BatchFactors,
	})
	if err != nil {
		return nil, fmt.Errorf("store prices: %w", pg.Fault(err))
	}
	stored, err := query.FindPrices(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("read prices: %w", pg.Fault(err))
	}
	withIDs := append([]price.Row(nil), rows...)
	for _, p := range stored {
		withIDs[p.N].ID = p.ID
	}
	return withIDs, nil
}

func tierOf(r price.Row) string {
	if r.Tier == "" {
		return string(price.Standard)
	}
	return string(r.Tier)
}

func orUnknown(u price.Unit) money.Pico {
	if !u.Known() {
		return unknown
	}
	return u.PerMillion()
}

// fees are the prices of a million calls of each tool that has one, as JSON.
func fees(r price.Row) []byte {
	return object(func(add func(name, value string)) {
		for _, tool := range price.Tools() {
			if u := r.Tools[tool]; u.Known() {
				add(tool.String(), `"`+u.PerMillion().String()+`"`)
			}
		}
	})
}

// toolCalls are the counts of each tool that was called, as JSON.
func toolCalls(calls price.ToolCalls) []byte {
	return object(func(add func(name, value string)) {
		for _, tool := range price.Tools() {
			if n := calls[tool]; n > 0 {
				add(tool.String(), fmt.Sprint(n))
			}
		}
	})
}

// split is a cost by what it was paid for, as JSON; what cost nothing is left out.
func split(s price.Split) []byte {
	return object(func(add func(name, value string)) {
		for _, part := range []struct {
			name   string
			amount money.Pico
		}{
			{"input", s.Input},
			{"cached_input", s.CachedInput},
			{"cache_write", s.CacheWrite},
			{"cache_write_1h", s.CacheWrite1h},
			{"output", s.Output},
			{"reasoning", s.Reasoning},
			{"tool_calls", s.Tools},
		} {
			if part.amount != 0 {
				add(part.name, `"`+part.amount.String()+`"`)
			}
		}
	})
}

// object writes a JSON object whose names need no escapes.
func object(fill func(add func(name, value string))) []byte {
	var fields []string
	fill(func(name, value string) { fields = append(fields, `"`+name+`":`+value) })
	return []byte("{" + strings.Join(fields, ",") + "}")
}
