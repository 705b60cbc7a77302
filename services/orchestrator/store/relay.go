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

// Owed names something that the gateway must be told: a run's gate, or the cancel of a step's or a run's calls. When it is
// owed anew it has another name.
type Owed struct {
	Ref
	At int64 // microseconds, as precise as PostgreSQL
}

func owed(ref Ref, at time.Time) Owed { return Owed{Ref: ref, At: at.UnixMicro()} }

func (o Owed) at() time.Time { return time.UnixMicro(o.At) }

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

// Owed names the gate.
func (g Gate) Owed() Owed { return owed(OfRun(g.RunID), g.owedAt) }

// OwedGates returns the gates that the gateway has not confirmed, the oldest first, but for some.
func (s *Store) OwedGates(ctx context.Context, but []Owed, most int) ([]Gate, error) {
	p := db.ReadGatesParams{Most: int32(most)}
	for _, o := range but {
		p.ButRunIds, p.ButOwedAt = append(p.ButRunIds, o.RunID), append(p.ButOwedAt, o.at())
	}
	rows, err := db.New(s.control).ReadGates(ctx, p)
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

// Owed names the cancel.
func (c Cancel) Owed() Owed { return owed(c.Ref, c.owedAt) }

// OwedCancels returns the cancels that the gateway has not confirmed, the oldest first, but for some. Those of runs whose
// gates are owed come later.
func (s *Store) OwedCancels(ctx context.Context, but []Owed, most int) ([]Cancel, error) {
	p := db.ReadCallCancelsParams{Most: int32(most)}
	for _, o := range but {
		p.ButRunIds, p.ButSteps = append(p.ButRunIds, o.RunID), append(p.ButSteps, o.Step)
		p.ButGenerations, p.ButOwedAt = append(p.ButGenerations, int32(o.Generation)), append(p.ButOwedAt, o.at())
	}
	rows, err := db.New(s.control).ReadCallCancels(ctx, p)
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
