package store

import (
	"context"
	"fmt"

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
}

// OwedGates returns the gates that the gateway has not confirmed, the oldest first.
func (s *Store) OwedGates(ctx context.Context, most int) ([]Gate, error) {
	rows, err := db.New(s.control).ReadGates(ctx, int32(most))
	if err != nil {
		return nil, fmt.Errorf("read owed gates: %w", pg.Fault(err))
	}
	gates := make([]Gate, len(rows))
	for i, row := range rows {
		gates[i] = Gate{RunID: row.RunID, Tenant: row.Tenant, Epoch: int(row.Epoch), Open: row.Open, Budget: row.BudgetUsd}
	}
	return gates, nil
}

// ConfirmGates notes that the gateway has these gates. One that has changed since is still owed.
func (s *Store) ConfirmGates(ctx context.Context, gates []Gate) error {
	var p db.DeleteGatesParams
	for _, g := range gates {
		p.RunIds, p.Epochs, p.Open = append(p.RunIds, g.RunID), append(p.Epochs, int32(g.Epoch)), append(p.Open, g.Open)
	}
	if err := db.New(s.control).DeleteGates(ctx, p); err != nil {
		return fmt.Errorf("confirm gates: %w", pg.Fault(err))
	}
	return nil
}

// OwedCancels returns the steps, or without a step the runs, whose calls the gateway must abort, the oldest first.
func (s *Store) OwedCancels(ctx context.Context, most int) ([]Ref, error) {
	rows, err := db.New(s.control).ReadCallCancels(ctx, int32(most))
	if err != nil {
		return nil, fmt.Errorf("read owed cancels: %w", pg.Fault(err))
	}
	cancels := make([]Ref, len(rows))
	for i, row := range rows {
		cancels[i] = refOf(row.RunID, row.Step, Whole, row.Generation)
	}
	return cancels, nil
}

// ConfirmCancel notes that the gateway has aborted the calls.
func (s *Store) ConfirmCancel(ctx context.Context, r Ref) error {
	err := db.New(s.control).DeleteCallCancel(ctx, db.DeleteCallCancelParams{
		RunID: r.RunID, Step: r.Step, Generation: int32(r.Generation),
	})
	if err != nil {
		return fmt.Errorf("confirm cancel: %w", pg.Fault(err))
	}
	return nil
}
