package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

// find turns what is wanted by description into keys. Most groups want rows by key only, and ask nothing here.
func (w *wanted) find(ctx context.Context, q *db.Queries) error {
	for _, look := range []func(context.Context, *db.Queries) error{w.findPending, w.findReviews, w.findBegun} {
		if err := look(ctx, q); err != nil {
			return fmt.Errorf("find steps: %w", err)
		}
	}
	return nil
}

// findPending finds the next pending shards: upward from the parent's mark, of an undo step downward.
func (w *wanted) findPending(ctx context.Context, q *db.Queries) error {
	var up db.FindPendingShardsParams
	var down db.FindPendingShardsBackwardsParams
	for k, n := range w.pending {
		next := int32(k.run.head.State.Heads[k.Step].Shards.Next)
		if k.run.plan.IsUndo(k.Step) {
			down.RunIds, down.Steps = append(down.RunIds, k.run.id), append(down.Steps, k.run.name(k.Step))
			down.LastShards, down.Counts = append(down.LastShards, next), append(down.Counts, int32(n))
			continue
		}
		up.RunIds, up.Steps = append(up.RunIds, k.run.id), append(up.Steps, k.run.name(k.Step))
		up.FirstShards, up.Counts = append(up.FirstShards, next), append(up.Counts, int32(n))
	}
	if len(up.RunIds) > 0 {
		rows, err := q.FindPendingShards(ctx, up)
		if err != nil {
			return err
		}
		for _, row := range rows {
			w.found(row.RunID, row.Step, row.Shard)
		}
	}
	if len(down.RunIds) > 0 {
		rows, err := q.FindPendingShardsBackwards(ctx, down)
		if err != nil {
			return err
		}
		for _, row := range rows {
			w.found(row.RunID, row.Step, row.Shard)
		}
	}
	return nil
}

func (w *wanted) findReviews(ctx context.Context, q *db.Queries) error {
	if len(w.review) == 0 {
		return nil
	}
	ids := make([]uuid.UUID, len(w.review))
	for i, r := range w.review {
		ids[i] = r.id
	}
	rows, err := q.FindReviews(ctx, ids)
	if err != nil {
		return err
	}
	for _, row := range rows {
		w.found(row.RunID, row.Step, row.Shard)
	}
	return nil
}

func (w *wanted) findBegun(ctx context.Context, q *db.Queries) error {
	if len(w.begun) == 0 {
		return nil
	}
	a := arraysOf(w.begun)
	rows, err := q.FindBegun(ctx, a.runs, a.steps)
	if err != nil {
		return err
	}
	for _, row := range rows {
		w.found(row.RunID, row.Step, row.Shard)
	}
	return nil
}

func (w *wanted) found(run uuid.UUID, step string, shard int32) {
	r := w.runs[run]
	if index, known := r.plan.Index(step); known {
		w.key(rowKey{r, machine.Key{Step: index, Shard: int(shard)}})
	}
}
