package store

import (
	"bytes"
	"context"

	"github.com/google/uuid"

	"pawl.internal/services/orchestrator/store/db"
)

// writes is what a group writes: the arrays of one statement a table.
type writes struct {
	created  db.InsertRunsParams
	heads    db.UpdateRunsParams
	dropped  db.DropLiveParams
	promoted promotions
	held     pauses
	seated   seats
	unseated []uuid.UUID
	deleted  db.DeleteLiveParams
	inserted db.InsertLiveParams
	updated  db.UpdateLiveParams

	archived    db.ArchiveResultsParams
	results     db.PutResultsParams
	compensated db.MarkCompensatedParams
	events      db.InsertEventsParams
	payloads    db.InsertPayloadsParams
	effects     db.InsertEffectsParams
	reviews     db.InsertReviewsParams
	resolved    db.ResolveReviewsParams
	callbacks   db.InsertCallbacksParams
	gates       db.PutSpendGatesParams
	reopened    []uuid.UUID
	cancels     db.PutCallCancelsParams
	actions     db.InsertOperatorActionsParams

	batchDeltas  db.InsertBatchDeltasParams
	tenantDeltas db.InsertTenantDeltasParams
}

// pauses are runs whose rows are all held back, or go on.
type pauses struct {
	RunIds []uuid.UUID
	Held   []bool
}

// promotions are runs whose rows all change their class.
type promotions struct {
	RunIds  []uuid.UUID
	Classes []string
}

// write queues the group's statements; those without rows are left out. The order matters where tables are the same: rows
// are dropped before new ones of the same keys are inserted, results archived before new ones take their place, and cancels
// withdrawn before new ones are owed.
func (g *group) write(ctx context.Context) error {
	for _, part := range []func(context.Context) error{g.writeRuns, g.writeLive, g.writeResults, g.writeReviews, g.writeOwed, g.writeTallies} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (g *group) writeRuns(ctx context.Context) error {
	q, w := g.query, &g.writes
	if n := len(w.created.Ids); n > 0 {
		w.created.Now = g.now
		if err := q.InsertRuns(ctx, w.created); err != nil {
			return err
		}
	}
	if n := len(w.heads.Ids); n > 0 {
		w.heads.Now = g.now
		if err := q.UpdateRuns(ctx, w.heads); err != nil {
			return err
		}
		g.pipe.Expect(n, "update of runs")
	}
	return nil
}

func (g *group) writeLive(ctx context.Context) error {
	q, w := g.query, &g.writes
	if len(w.dropped.RunIds) > 0 {
		if err := q.DropLive(ctx, w.dropped); err != nil {
			return err
		}
	}
	if len(w.promoted.RunIds) > 0 {
		if err := q.PromoteLive(ctx, w.promoted.RunIds, w.promoted.Classes); err != nil {
			return err
		}
	}
	if len(w.held.RunIds) > 0 {
		if err := q.HoldLive(ctx, w.held.RunIds, w.held.Held); err != nil {
			return err
		}
	}
	if err := g.writeSeats(ctx); err != nil {
		return err
	}
	if n := len(w.deleted.RunIds); n > 0 {
		if err := q.DeleteLive(ctx, w.deleted); err != nil {
			return err
		}
		g.pipe.Expect(n, "deletion of steps")
	}
	if len(w.inserted.RunIds) > 0 {
		if err := q.InsertLive(ctx, w.inserted); err != nil {
			return err
		}
	}
	if n := len(w.updated.RunIds); n > 0 {
		if err := q.UpdateLive(ctx, w.updated); err != nil {
			return err
		}
		g.pipe.Expect(n, "update of steps")
	}
	return nil
}

func (g *group) writeSeats(ctx context.Context) error {
	q, w := g.query, &g.writes
	if s := w.seated; len(s.RunIds) > 0 {
		if err := q.InsertHolders(ctx, db.InsertHoldersParams(s)); err != nil {
			return err
		}
		if err := q.LeaveKeyLines(ctx, s.RunIds); err != nil {
			return err
		}
	}
	if len(w.unseated) > 0 {
		return q.DeleteHolders(ctx, w.unseated)
	}
	return nil
}

func (g *group) writeResults(ctx context.Context) error {
	q, w := g.query, &g.writes
	if len(w.archived.RunIds) > 0 {
		w.archived.Now = g.now
		if err := q.ArchiveResults(ctx, w.archived); err != nil {
			return err
		}
	}
	if len(w.payloads.RunIds) > 0 {
		if err := q.InsertPayloads(ctx, w.payloads); err != nil {
			return err
		}
	}
	if len(w.results.RunIds) > 0 {
		w.results.Now = g.now
		if err := q.PutResults(ctx, w.results); err != nil {
			return err
		}
	}
	if len(w.compensated.RunIds) > 0 {
		if err := q.MarkCompensated(ctx, w.compensated); err != nil {
			return err
		}
	}
	if len(w.events.RunIds) > 0 {
		w.events.Now = g.now
		return q.InsertEvents(ctx, w.events)
	}
	return nil
}

func (g *group) writeReviews(ctx context.Context) error {
	q, w := g.query, &g.writes
	if len(w.resolved.RunIds) > 0 {
		w.resolved.Now = g.now
		if err := q.ResolveReviews(ctx, w.resolved); err != nil {
			return err
		}
	}
	if len(w.reviews.Ids) > 0 {
		w.reviews.Now = g.now
		if err := q.InsertReviews(ctx, w.reviews); err != nil {
			return err
		}
	}
	if len(w.effects.RunIds) > 0 {
		w.effects.Now = g.now
		if err := q.InsertEffects(ctx, w.effects); err != nil {
			return err
		}
	}
	if len(w.actions.Seqs) > 0 {
		w.actions.Now = g.now
		return q.InsertOperatorActions(ctx, w.actions)
	}
	return nil
}

func (g *group) writeOwed(ctx context.Context) error {
	q, w := g.query, &g.writes
	if len(w.callbacks.RunIds) > 0 {
		w.callbacks.Now = g.now
		if err := q.InsertCallbacks(ctx, w.callbacks); err != nil {
			return err
		}
	}
	if len(w.gates.RunIds) > 0 {
		w.gates.Now = g.now
		if err := q.PutSpendGates(ctx, w.gates); err != nil {
			return err
		}
	}
	if len(w.reopened) > 0 {
		if err := q.DropCallCancels(ctx, w.reopened); err != nil {
			return err
		}
	}
	if len(w.cancels.RunIds) > 0 {
		w.cancels.Now = g.now
		return q.PutCallCancels(ctx, w.cancels)
	}
	return nil
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
