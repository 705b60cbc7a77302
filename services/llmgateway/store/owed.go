package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway/store/db"
)

// Owed is a run's figure that the orchestrator is to be told.
type Owed struct {
	RunID uuid.UUID
	Spend Spend
}

// owedRuns are the figures that this replica has changed, each run's newest. The table spend_owed has them too, for when
// this replica dies before it has told them.
type owedRuns struct {
	mu   sync.Mutex
	runs map[uuid.UUID]Spend // guarded by mu
}

func newOwedRuns() *owedRuns { return &owedRuns{runs: map[uuid.UUID]Spend{}} }

// add notes a figure, unless a newer one is known.
func (o *owedRuns) add(runID uuid.UUID, s Spend) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.Version >= o.runs[runID].Version {
		o.runs[runID] = s
	}
}

// take removes up to most figures.
func (o *owedRuns) take(most int) []Owed {
	o.mu.Lock()
	defer o.mu.Unlock()
	var taken []Owed
	for id, s := range o.runs {
		if len(taken) == most {
			break
		}
		taken = append(taken, Owed{RunID: id, Spend: s})
		delete(o.runs, id)
	}
	return taken
}

// TakeOwed returns up to most of the figures that this replica has changed and not handed out yet.
func (s *Store) TakeOwed(most int) []Owed { return s.owed.take(most) }

// PutBackOwed makes figures that could not be told be handed out again.
func (s *Store) PutBackOwed(list []Owed) {
	for _, o := range list {
		s.owed.add(o.RunID, o.Spend)
	}
}

// FindOwed makes figures be handed out that have been owed for longer than age, whoever changed them.
func (s *Store) FindOwed(ctx context.Context, age time.Duration, most int) error {
	rows, err := db.New(s.control).FindOwed(ctx, age, int32(most))
	if err != nil {
		return fmt.Errorf("find owed spend: %w", pg.Fault(err))
	}
	for _, r := range rows {
		s.owed.add(r.RunID, Spend{Amount: r.Spent, Version: r.Version})
	}
	return nil
}

// ConfirmOwed notes that the orchestrator has the figures.
func (s *Store) ConfirmOwed(ctx context.Context, list []Owed) error {
	var runs []uuid.UUID
	var versions []int64
	for _, o := range list {
		runs, versions = append(runs, o.RunID), append(versions, o.Spend.Version)
	}
	if err := db.New(s.control).ConfirmSpend(ctx, runs, versions); err != nil {
		return fmt.Errorf("confirm spend: %w", pg.Fault(err))
	}
	return nil
}
