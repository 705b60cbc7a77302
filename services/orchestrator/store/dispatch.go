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
	// Waiting says that READY steps wait to be dispatched, Lined that some do in the lines of pipelines with caps.
	Waiting, Lined bool
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
		load[machine.Class(row.Class)] = Load{
			Dispatched: int(row.Dispatched), Slots: int(row.Slots), Waiting: row.Waiting, Lined: row.Lined,
		}
	}
	return load, nil
}
