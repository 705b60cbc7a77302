package store

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/orchestrator/store/db"
)

// mostBudgets is how many batches' budgets are kept in mind.
const mostBudgets = 10_000

// batchBudgets keeps the budgets of batches, which never change. It is safe for concurrent use.
type batchBudgets struct {
	mu    sync.Mutex
	known map[uuid.UUID]*money.Pico // guarded by mu; nil for no limit
}

// of returns the budgets of the batches, and asks for those that are not known.
func (b *batchBudgets) of(ctx context.Context, q *db.Queries, ids []uuid.UUID) (map[uuid.UUID]*money.Pico, error) {
	found, missing := b.split(ids)
	if len(missing) == 0 {
		return found, nil
	}
	rows, err := q.BatchBudgets(ctx, missing)
	if err != nil {
		return nil, fmt.Errorf("read budgets of batches: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil || len(b.known) > mostBudgets {
		b.known = map[uuid.UUID]*money.Pico{}
	}
	for _, row := range rows {
		b.known[row.ID], found[row.ID] = row.BudgetUsd, row.BudgetUsd
	}
	return found, nil
}

func (b *batchBudgets) split(ids []uuid.UUID) (found map[uuid.UUID]*money.Pico, missing []uuid.UUID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found = map[uuid.UUID]*money.Pico{}
	for _, id := range ids {
		if budget, known := b.known[id]; known {
			found[id] = budget
			continue
		}
		missing = append(missing, id)
	}
	return found, missing
}
