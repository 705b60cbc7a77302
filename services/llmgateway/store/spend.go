package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/store/db"
)

// Dimension is what spend can be told apart by.
type Dimension int

// The dimensions.
const (
	ByDay Dimension = iota + 1
	ByTenant
	ByOrigin
	ByProvider
	ByModel
	ByClass
)

// SpendQuery selects what was spent.
type SpendQuery struct {
	// From and To are the first and the last day, in UTC.
	From, To time.Time
	// Tenant is whose spend; empty for everybody's.
	Tenant string
	// By is what it is told apart by.
	By []Dimension
}

// SpendRow is what was spent by one combination of the dimensions that were asked for; the others are empty.
type SpendRow struct {
	// Day is as 2026-11-30.
	Day, Tenant, Origin, Provider, Model, Class string
	// Calls are requests that may have reached a provider, Answered those that were answered, and Unpriced those whose price
	// was not known, so that Cost is at least, and not exactly, what they have cost.
	Calls, Answered, Unpriced int64
	Usage                     price.Usage
	// Cost is in US dollars, exact.
	Cost string
}

// MostSpendRows is how many rows Spend returns at most.
const MostSpendRows = 10_000

// Spend returns what was spent, in the order of the dimensions.
func (s *Store) Spend(ctx context.Context, q SpendQuery) ([]SpendRow, error) {
	by := func(d Dimension) bool { return slices.Contains(q.By, d) }
	rows, err := db.New(s.pool).SumSpend(ctx, db.SumSpendParams{
		FromDay: date(q.From), ToDay: date(q.To), Tenant: q.Tenant, ByDay: by(ByDay), ByTenant: by(ByTenant), ByOrigin: by(ByOrigin),
		ByProvider: by(ByProvider), ByModel: by(ByModel), ByClass: by(ByClass), Most: MostSpendRows,
	})
	if err != nil {
		return nil, fmt.Errorf("sum spend: %w", pg.Fault(err))
	}
	out := make([]SpendRow, len(rows))
	for i, r := range rows {
		out[i] = SpendRow{
			Day: r.Day, Tenant: r.Tenant, Origin: r.Origin, Provider: r.Provider, Model: r.Model, Class: r.Class,
			Calls: r.Calls, Answered: r.Answered, Unpriced: r.Unpriced, Cost: r.Cost,
			Usage: price.Usage{
				Input: r.InputTokens, CachedInput: r.CachedInputTokens, CacheWrite: r.CacheWriteTokens, CacheWrite1h: r.CacheWrite1hTokens,
				Output: r.OutputTokens, Reasoning: r.ReasoningTokens,
			},
		}
	}
	return out, nil
}

// BookUnbooked books up to most requests, of runs from first on, that were settled by gateways which know no spend_day. It
// returns how many calls it has looked at.
func (s *Store) BookUnbooked(ctx context.Context, first uuid.UUID, most int) (int, error) {
	rows, err := db.New(s.control).FindUnbooked(ctx, first, int32(most))
	if err != nil {
		return 0, fmt.Errorf("find what is not booked: %w", pg.Fault(err))
	}
	changes := make([]Change, len(rows))
	for i, r := range rows {
		changes[i] = &Book{Key: Key{RunID: r.RunID, Digest: [32]byte(r.CallKey)}}
	}
	for _, err := range s.SubmitAll(ctx, changes) {
		if err != nil {
			return 0, fmt.Errorf("book what is not booked: %w", err)
		}
	}
	return len(rows), nil
}

// FoldSpend moves what gateways have booked that are gone into rows that belong to nobody, one for each day and model.
func (s *Store) FoldSpend(ctx context.Context) error {
	return pg.InTx(ctx, s.control, func(ctx context.Context, tx pgx.Tx) error {
		query := db.New(tx)
		locked, err := query.FoldLock(ctx)
		if err != nil || !locked { // another replica does it
			return err
		}
		if _, err := query.FoldDays(ctx); err != nil {
			return fmt.Errorf("fold days: %w", err)
		}
		if _, err := query.FoldSums(ctx); err != nil {
			return fmt.Errorf("fold sums: %w", err)
		}
		return nil
	})
}
