package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/store/db"
)

// RunFilter selects runs of a tenant; what is empty selects all.
type RunFilter struct {
	Status, Pipeline, Version, EntityID, Class, Reason string
	// Before is the last run of the page before; nil for the first page.
	Before *uuid.UUID
	Most   int
}

// ListRuns returns a tenant's runs, the newest first.
func (s *Store) ListRuns(ctx context.Context, tenant string, f RunFilter) ([]RunView, error) {
	rows, err := s.read().ListRuns(ctx, db.ListRunsParams{
		Tenant: tenant, Before: f.Before, Status: f.Status, Pipeline: f.Pipeline, PipelineVersion: f.Version,
		EntityID: f.EntityID, Class: f.Class, Reason: f.Reason, Most: int32(f.Most),
	})
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", pg.Fault(err))
	}
	heads := make([]db.ReadRunRow, len(rows))
	for i, row := range rows {
		heads[i] = db.ReadRunRow(row)
	}
	return s.View(ctx, tenant, heads)
}

// StepRow is a step or shard that has begun, or waits to, with its output.
type StepRow struct {
	db.ListStepsRow
	// Document is the output; nil if there is none.
	Document []byte
}

// ListSteps returns the rows of a run's steps and shards.
func (s *Store) ListSteps(ctx context.Context, run uuid.UUID) ([]StepRow, error) {
	rows, err := s.read().ListSteps(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("list steps of run %s: %w", run, pg.Fault(err))
	}
	steps := make([]StepRow, len(rows))
	for i, row := range rows {
		steps[i] = StepRow{ListStepsRow: row, Document: row.Output}
		if row.Content == nil {
			continue
		}
		if steps[i].Document, err = s.codec.Unpack(row.Content, int(row.Bytes)); err != nil {
			return nil, fmt.Errorf("output of step %s of run %s: %w", row.Step, run, err)
		}
	}
	return steps, nil
}

// ListEvents returns entries of a run's journal behind a number, the oldest first.
func (s *Store) ListEvents(ctx context.Context, run uuid.UUID, after int64, most int) ([]db.ListEventsRow, error) {
	rows, err := s.read().ListEvents(ctx, db.ListEventsParams{RunID: run, After: after, Most: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("list events of run %s: %w", run, pg.Fault(err))
	}
	return rows, nil
}
