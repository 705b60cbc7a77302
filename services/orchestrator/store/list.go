package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"pawl.internal/services/orchestrator/store/db"
)

// StepsMax bounds the outputs that a page of steps carries together, in bytes.
const StepsMax = 16 << 20

// RunFilter selects runs of a tenant; what is empty selects all.
type RunFilter struct {
	Status, Pipeline, Version, EntityID, Class, Reason string
	// Batch selects its items, whatever Pipeline and EntityID say.
	Batch uuid.UUID
	// Before is the last run of the page before; uuid.Max for the first page.
	Before uuid.UUID
	Most   int
}

// ListRuns returns a tenant's runs, the newest first.
func (s *Store) ListRuns(ctx context.Context, tenant string, f RunFilter) ([]*RunView, error) {
	var views []*RunView
	err := s.snapshot(ctx, func(q *db.Queries) error {
		rows, err := f.query(ctx, q, tenant)
		if err != nil {
			return fmt.Errorf("list runs: %w", err)
		}
		if views, err = s.views(ctx, q, tenant, rows); err != nil {
			return err
		}
		return addBlockages(ctx, q, views)
	})
	return views, err
}

// query asks by the index of the filter that leaves the fewest.
func (f *RunFilter) query(ctx context.Context, q *db.Queries, tenant string) ([]db.CoreRunView, error) {
	switch {
	case f.Batch != uuid.Nil:
		return q.ListRunsByBatch(ctx, db.ListRunsByBatchParams{
			Tenant: tenant, BatchID: f.Batch, Before: f.Before, Status: f.Status, Class: f.Class, Reason: f.Reason, Most: int32(f.Most),
		})
	case f.EntityID != "":
		return q.ListRunsByEntity(ctx, db.ListRunsByEntityParams{
			Tenant: tenant, EntityID: f.EntityID, Before: f.Before, Status: f.Status, Pipeline: f.Pipeline,
			PipelineVersion: f.Version, Class: f.Class, Reason: f.Reason, Most: int32(f.Most),
		})
	case f.Status != "":
		return q.ListRunsByStatus(ctx, db.ListRunsByStatusParams{
			Tenant: tenant, Status: f.Status, Before: f.Before, Pipeline: f.Pipeline,
			PipelineVersion: f.Version, Class: f.Class, Reason: f.Reason, Most: int32(f.Most),
		})
	default:
		return q.ListRuns(ctx, db.ListRunsParams{
			Tenant: tenant, Before: f.Before, Pipeline: f.Pipeline,
			PipelineVersion: f.Version, Class: f.Class, Reason: f.Reason, Most: int32(f.Most),
		})
	}
}

// StepRow is a step or shard that has begun, or waits to, with its output.
type StepRow struct {
	db.ListStepsRow
	// Document is the output; nil if there is none, or if the page's outputs before it are StepsMax together.
	Document []byte
}

// StepFilter selects a page of a run's steps and shards.
type StepFilter struct {
	// AfterStep and AfterShard are the last of the page before, the step by its place in the pipeline; -1 for the first page.
	AfterStep, AfterShard int
	Most                  int
}

// ListSteps returns a tenant's run, and rows of its steps and shards in the pipeline's order, or ErrNoRun. Where this build
// cannot read the pipeline the order is that of the names.
func (s *Store) ListSteps(ctx context.Context, tenant string, id uuid.UUID, f StepFilter) (run *RunView, steps []StepRow, err error) {
	err = s.snapshot(ctx, func(q *db.Queries) error {
		if run, err = s.readHead(ctx, q, tenant, id); err != nil {
			return err
		}
		names, err := stepNames(ctx, q, run)
		if err != nil {
			return err
		}
		wanted := db.ListStepsParams{
			RunID: id, MostBytes: StepsMax, Steps: names,
			AfterOrdinal: int32(f.AfterStep), AfterShard: int32(f.AfterShard), Most: int32(f.Most),
		}
		for i := range names {
			wanted.Ordinals = append(wanted.Ordinals, int32(i))
		}
		rows, err := q.ListSteps(ctx, wanted)
		if err != nil {
			return fmt.Errorf("list steps of run %s: %w", id, err)
		}
		steps, err = s.unpack(rows)
		return err
	})
	return run, steps, err
}

// stepNames lists the steps that a run may have rows of.
func stepNames(ctx context.Context, q *db.Queries, run *RunView) (names []string, err error) {
	if run.Plan == nil {
		if names, err = q.ListStepNames(ctx, run.ID); err != nil {
			err = fmt.Errorf("list steps of run %s: %w", run.ID, err)
		}
		return names, err
	}
	for _, step := range run.Plan.Steps {
		names = append(names, step.Name)
	}
	return names, nil
}

func (s *Store) unpack(rows []db.ListStepsRow) (steps []StepRow, err error) {
	steps = make([]StepRow, len(rows))
	for i, row := range rows {
		steps[i] = StepRow{ListStepsRow: row, Document: row.Output}
		if row.Content == nil {
			continue
		}
		if steps[i].Document, err = s.codec.Unpack(row.Content, int(row.Bytes)); err != nil {
			return nil, fmt.Errorf("output of step %s: %w", row.Step, err)
		}
	}
	return steps, nil
}

// ListEvents returns entries of the journal of a tenant's run behind a number, the oldest first, or ErrNoRun.
func (s *Store) ListEvents(ctx context.Context, tenant string, run uuid.UUID, after int64, most int) ([]db.ListEventsRow, error) {
	var rows []db.ListEventsRow
	err := s.snapshot(ctx, func(q *db.Queries) error {
		if _, err := s.readHead(ctx, q, tenant, run); err != nil {
			return err
		}
		var err error
		if rows, err = q.ListEvents(ctx, db.ListEventsParams{RunID: run, After: after, Most: int32(most)}); err != nil {
			return fmt.Errorf("list events of run %s: %w", run, err)
		}
		return nil
	})
	return rows, err
}
