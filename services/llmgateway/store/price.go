package store

import (
	"context"
	"fmt"
	"time"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/store/db"
)

// PutPrices stores the rows that are not stored yet and returns all of them with their ids. Rows are never changed, so what
// a call cost stays explained.
func (s *Store) PutPrices(ctx context.Context, rows []price.Row) ([]price.Row, error) {
	var (
		ns                            []int32
		providers, models             []string
		from                          []time.Time
		input, cached, writes, output []money.Pico
	)
	for i, r := range rows {
		ns = append(ns, int32(i))
		providers, models, from = append(providers, r.Provider), append(models, r.Model), append(from, r.From)
		input, cached = append(input, r.Input.PerMillion()), append(cached, r.CachedInput.PerMillion())
		writes, output = append(writes, r.CacheWrite.PerMillion()), append(output, r.Output.PerMillion())
	}
	query := db.New(s.pool)
	err := query.PutPrices(ctx, db.PutPricesParams{
		Providers: providers, Models: models, ValidFrom: from, Inputs: input, CachedInputs: cached, CacheWrites: writes, Outputs: output,
	})
	if err != nil {
		return nil, fmt.Errorf("store prices: %w", pg.Fault(err))
	}
	stored, err := query.FindPrices(ctx, db.FindPricesParams{
		Ns: ns, Providers: providers, Models: models, ValidFrom: from, Inputs: input, CachedInputs: cached, CacheWrites: writes, Outputs: output,
	})
	if err != nil {
		return nil, fmt.Errorf("read prices: %w", pg.Fault(err))
	}
	withIDs := append([]price.Row(nil), rows...)
	for _, p := range stored {
		withIDs[p.N].ID = p.ID
	}
	return withIDs, nil
}
