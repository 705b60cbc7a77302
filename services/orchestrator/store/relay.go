package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/store/db"
)

// Gate is a run's purse that the gateway must close or open.
type Gate struct {
	RunID  uuid.UUID
	Tenant string
	Epoch  int
	Open   bool
	// Budget is nil without a limit.
	Budget *money.Pico
	owedAt time.Time
}

// OwedGates returns the gates that the gateway has not confirmed, the oldest first.
func (s *Store) OwedGates(ctx context.Context, most int) ([]Gate, error) {
	rows, err := db.New(s.control).ReadGates(ctx, int32(most))
	if err != nil {
		return nil, fmt.Errorf("read owed gates: %w", pg.Fault(err))
	}
	gates := make([]Gate, len(rows))
	for i, row := range rows {
		gates[i] = Gate{
			RunID: row.RunID, Tenant: row.Tenant, Epoch: int(row.Epoch), Open: row.Open, Budget: row.BudgetUsd, owedAt: row.OwedAt,
		}
	}
	return gates, nil
}

// ConfirmGates notes that the gateway has these gates. One that has changed since is still owed.
func (s *Store) ConfirmGates(ctx context.Context, gates []Gate) error {
	runs, owedAt := make([]uuid.UUID, len(gates)), make([]time.Time, len(gates))
	for i, g := range gates {
		runs[i], owedAt[i] = g.RunID, g.owedAt
	}
	if err := db.New(s.control).DeleteGates(ctx, runs, owedAt); err != nil {
		return fmt.Errorf("confirm gates: %w", pg.Fault(err))
	}
	return nil
}

// Cancel is a step, or without a step a run, whose calls the gateway must abort.
type Cancel struct {
	Ref
	owedAt time.Time
}

// OwedCancels returns the cancels that the gateway has not confirmed, the oldest first. Those of runs whose gates are owed
// come later.
func (s *Store) OwedCancels(ctx context.Context, most int) ([]Cancel, error) {
	rows, err := db.New(s.control).ReadCallCancels(ctx, int32(most))
	if err != nil {
		return nil, fmt.Errorf("read owed cancels: %w", pg.Fault(err))
	}
	cancels := make([]Cancel, len(rows))
	for i, row := range rows {
		cancels[i] = Cancel{Ref: refOf(row.RunID, row.Step, Whole, row.Generation), owedAt: row.OwedAt}
	}
	return cancels, nil
}

// ConfirmCancels notes that the gateway has aborted the calls. A cancel that was owed again since is still owed.
func (s *Store) ConfirmCancels(ctx context.Context, cancels []Cancel) error {
	var p db.DeleteCallCancelsParams
	for _, c := range cancels {
		p.RunIds, p.Steps, p.Generations = append(p.RunIds, c.RunID), append(p.Steps, c.Step), append(p.Generations, int32(c.Generation))
		p.OwedAt = append(p.OwedAt, c.owedAt)
	}
	if err := db.New(s.control).DeleteCallCancels(ctx, p); err != nil {
		return fmt.Errorf("confirm cancels: %w", pg.Fault(err))
	}
	return nil
}
