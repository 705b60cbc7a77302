package store

import (
	"context"
	"fmt"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

// Load is how busy a class is.
type Load struct {
	// Dispatched counts the steps that are QUEUED or RUNNING.
	Dispatched int
	// Slots is how many steps the living runners execute at once.
	Slots int
	// Waiting says that READY steps wait to be dispatched.
	Waiting bool
}

// Load reads how busy the classes are.
func (s *Store) Load(ctx context.Context) (map[machine.Class]Load, error) {
	var classes []string
	for _, class := range machine.AllClasses() {
		classes = append(classes, string(class))
	}
	rows, err := db.New(s.control).ReadLoad(ctx, classes)
	if err != nil {
		return nil, fmt.Errorf("read load: %w", pg.Fault(err))
	}
	load := make(map[machine.Class]Load, len(rows))
	for _, row := range rows {
		load[machine.Class(row.Class)] = Load{Dispatched: int(row.Dispatched), Slots: int(row.Slots), Waiting: row.Waiting}
	}
	return load, nil
}

// ReadyStep is a step that waits to be dispatched.
type ReadyStep struct {
	Ref
	Tenant string
}

// Ready returns READY steps of the class in the order in which they go: their tenants in turn, beginning behind the one
// that was served last, and each tenant's own by priority, steps of runs that have begun, and age. There are about that
// many; all says that none was left out.
func (s *Store) Ready(ctx context.Context, class machine.Class, lastServed string, most int) (ready []ReadyStep, all bool, err error) {
	q := db.New(s.control)
	tenants, err := q.FindWaitingTenants(ctx, db.FindWaitingTenantsParams{
		LastServed: lastServed, Class: string(class), Most: int32(most),
	})
	if err != nil {
		return nil, false, fmt.Errorf("find tenants that wait: %w", pg.Fault(err))
	}
	if len(tenants) == 0 {
		return nil, true, nil
	}
	share := (most + len(tenants) - 1) / len(tenants)
	rows, err := q.FindReady(ctx, db.FindReadyParams{Tenants: tenants, Class: string(class), Share: int32(share)})
	if err != nil {
		return nil, false, fmt.Errorf("find ready steps: %w", pg.Fault(err))
	}
	all = len(tenants) < most
	found := make([]int, len(tenants))
	ready = make([]ReadyStep, len(rows))
	for i, row := range rows {
		turn := row.Turn - 1
		found[turn]++
		all = all && found[turn] < share
		ready[i] = ReadyStep{Ref: refOf(row.RunID, row.Step, row.Shard, row.Generation), Tenant: tenants[turn]}
	}
	return ready, all, nil
}
