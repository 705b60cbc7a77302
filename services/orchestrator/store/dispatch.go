package store

import (
	"context"
	"fmt"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

// Dispatched counts the steps that are QUEUED or RUNNING, by class.
func (s *Store) Dispatched(ctx context.Context) (map[machine.Class]int, error) {
	rows, err := db.New(s.control).CountDispatched(ctx)
	if err != nil {
		return nil, fmt.Errorf("count dispatched steps: %w", pg.Fault(err))
	}
	counts := map[machine.Class]int{}
	for _, row := range rows {
		counts[machine.Class(row.Class)] = int(row.N)
	}
	return counts, nil
}

// ReadySteps returns the READY steps of the class, of each tenant at most that many, in the order in which the tenant's
// steps are to be dispatched: by priority, then steps of runs that have begun, then age.
func (s *Store) ReadySteps(ctx context.Context, class machine.Class, most int) (map[string][]Ref, error) {
	rows, err := db.New(s.control).FindReady(ctx, string(class), int32(most))
	if err != nil {
		return nil, fmt.Errorf("find ready steps: %w", pg.Fault(err))
	}
	ready := map[string][]Ref{}
	for _, row := range rows {
		ready[row.Tenant] = append(ready[row.Tenant], refOf(row.RunID, row.Step, row.Shard, row.Generation))
	}
	return ready, nil
}
