package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

// What is carried out on the runs of a batch.
const (
	opCancel = "cancel"
	opPause  = "pause"
	opResume = "resume"
	opRetry  = "retry_failed"
)

// foldMost bounds what one fold takes up.
const foldMost = 20_000

// BatchWork is an operation on a batch that was taken, and the next runs that it concerns.
type BatchWork struct {
	db.CoreBatch
	// Events are those of the next runs; IsLast says that there are no more.
	Events []*Event
	IsLast bool

	afterRun uuid.UUID
	afterAt  time.Time
}

// TakeBatchWork takes an operation that nobody works on, with its next runs; nil if there is none. It is the caller's for the
// length of the lease.
func (s *Store) TakeBatchWork(ctx context.Context, lease time.Duration, most int) (*BatchWork, error) {
	q := db.New(s.control)
	rows, err := q.TakeBatchOperation(ctx, lease)
	if err != nil {
		return nil, fmt.Errorf("take an operation of a batch: %w", pg.Fault(err))
	}
	if len(rows) == 0 {
		return nil, nil
	}
	w := &BatchWork{CoreBatch: rows[0], afterRun: rows[0].AfterRun, afterAt: rows[0].AfterAt}
	if w.Operation == opRetry {
		err = w.findFailed(ctx, q, most)
	} else {
		err = w.findOpen(ctx, q, most)
	}
	if err != nil {
		return nil, fmt.Errorf("find runs of batch %s: %w", w.ID, pg.Fault(err))
	}
	return w, nil
}

func (w *BatchWork) findOpen(ctx context.Context, q *db.Queries, most int) error {
	ids, err := q.FindOpenItems(ctx, db.FindOpenItemsParams{BatchID: &w.ID, After: w.AfterRun, Most: int32(most)})
	for _, id := range ids {
		w.add(id)
		w.afterRun = id
	}
	w.IsLast = len(ids) < most
	return err
}

func (w *BatchWork) findFailed(ctx context.Context, q *db.Queries, most int) error {
	rows, err := q.FindFailedItems(ctx, db.FindFailedItemsParams{
		BatchID: &w.ID, Until: w.OperationAt, AfterAt: w.AfterAt, After: w.AfterRun, OnlyReason: w.OnlyReason, Most: int32(most),
	})
	for _, row := range rows {
		w.add(row.ID)
		w.afterRun, w.afterAt = row.ID, row.FinishedAt
	}
	w.IsLast = len(rows) < most
	return err
}

// add makes the event of a run.
func (w *BatchWork) add(run uuid.UUID) {
	by := machine.Actor{Name: w.OperationActor, Comment: w.OperationReason}
	e := &Event{Ref: OfRun(run), Tenant: w.Tenant}
	e.Make = func(ref machine.Ref, _ time.Time) machine.Event {
		switch w.Operation {
		case opCancel:
			return machine.CancelRequested{Actor: by}
		case opPause:
			return machine.Paused{Actor: by}
		case opResume:
			return machine.Resumed{Actor: by}
		default:
			return machine.OperatorRetry{Actor: by, Ref: ref, BudgetRaised: w.RaisedUsd != nil}
		}
	}
	if w.Operation == opRetry {
		e.Decision = &Decision{
			Actor: by.Name, Action: string(machine.KindOperatorRetry), Reason: by.Comment, Asked: Asked{Budget: w.RaisedUsd},
		}
	}
	w.Events = append(w.Events, e)
}

// PassBatchWork notes that the events were carried out.
func (s *Store) PassBatchWork(ctx context.Context, w *BatchWork) error {
	failpoint.Hit("orchestrator.batch.worked")
	_, err := db.New(s.control).AdvanceBatchOperation(ctx, db.AdvanceBatchOperationParams{
		ID: w.ID, OperationNo: w.OperationNo, AfterRun: w.afterRun, AfterAt: w.afterAt, IsDone: w.IsLast,
	})
	if err != nil {
		return fmt.Errorf("note the progress of batch %s: %w", w.ID, pg.Fault(err))
	}
	return nil
}

// LookAtBatches reports whether there is something to carry out, and whether groups have left differences: one question, so that
// an idle system asks no more.
func (s *Store) LookAtBatches(ctx context.Context) (work, deltas bool, err error) {
	row, err := db.New(s.control).LookAtBatches(ctx)
	if err != nil {
		return false, false, fmt.Errorf("look at batches: %w", pg.Fault(err))
	}
	return row.Work, row.Deltas, nil
}

// Fold adds the differences that groups have left to the counts, and reopens and paces the batches concerned. It reports
// whether there were any.
func (s *Store) Fold(ctx context.Context) (any bool, err error) {
	err = pg.InTx(ctx, s.control, func(ctx context.Context, tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.FoldTenantDeltas(ctx, foldMost); err != nil {
			return fmt.Errorf("fold counts of tenants: %w", err)
		}
		touched, err := q.FoldBatchDeltas(ctx, foldMost)
		if err != nil {
			return fmt.Errorf("fold counts of batches: %w", err)
		}
		if any = len(touched) > 0; !any {
			return nil
		}
		if err := q.ReopenBatches(ctx, touched); err != nil {
			return fmt.Errorf("reopen batches: %w", err)
		}
		return q.PaceBatches(ctx, touched)
	})
	return any, err
}

// EndBatches ends the batches whose last item has ended, and owes their callbacks.
func (s *Store) EndBatches(ctx context.Context) error {
	err := pg.InTx(ctx, s.control, func(ctx context.Context, tx pgx.Tx) error {
		q := db.New(tx)
		ended, err := q.EndBatches(ctx)
		if err != nil {
			return fmt.Errorf("end batches: %w", err)
		}
		batches, err := withCounts(ctx, q, ended)
		if err != nil {
			return err
		}
		for _, b := range batches {
			if err := b.oweCallback(ctx, q); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// batchSnapshot is what the callback of a batch is rendered from.
type batchSnapshot struct {
	BatchID  uuid.UUID        `json:"batch_id"`
	Event    string           `json:"event"`
	Status   string           `json:"status"`
	Pipeline string           `json:"pipeline"`
	Label    string           `json:"label,omitempty"`
	Labels   json.RawMessage  `json:"labels"`
	Counts   map[string]int64 `json:"counts"`
	Rejected int64            `json:"rejected"`
	Cost     json.Number      `json:"cost_usd"`
	// CreatedAt and FinishedAt are the batch's.
	CreatedAt  time.Time  `json:"created_at"`
	FinishedAt *time.Time `json:"finished_at"`
}

// batchCompleted is the event that a client is told of.
const batchCompleted = "batch.completed"

func (b *Batch) oweCallback(ctx context.Context, q *db.Queries) error {
	if b.CallbackUrl == "" {
		return nil
	}
	counts, cost := b.ByStatus()
	status := "completed"
	if b.CancelRequestedAt != nil {
		status = "cancelled"
	}
	snapshot, err := json.Marshal(batchSnapshot{
		BatchID: b.ID, Event: batchCompleted, Status: status, Pipeline: b.Pipeline + ":" + b.PipelineVersion, Label: b.Label,
		Labels: b.Labels, Counts: counts, Rejected: b.Rejected, Cost: json.Number(cost.String()), CreatedAt: b.CreatedAt, FinishedAt: b.FinishedAt,
	})
	if err != nil {
		return fmt.Errorf("snapshot of batch %s: %w", b.ID, err)
	}
	return q.OweBatchCallback(ctx, db.OweBatchCallbackParams{
		BatchID: b.ID, Seq: b.Callbacks, Tenant: b.Tenant, Url: b.CallbackUrl, Snapshot: snapshot,
	})
}

// ByStatus sums the counts up: runs by state, and what they have cost.
func (b *Batch) ByStatus() (counts map[string]int64, cost money.Pico) {
	counts = map[string]int64{}
	for _, c := range b.Counts {
		counts[c.Status] += c.N
		cost += c.CostUsd
	}
	return counts, cost
}

// Backlog is a tenant's runs of a class that have not ended and wait for nobody.
type Backlog = db.CountBacklogRow

// Backlog counts the unfinished runs of all tenants.
func (s *Store) Backlog(ctx context.Context) ([]Backlog, error) {
	rows, err := db.New(s.control).CountBacklog(ctx)
	if err != nil {
		return nil, fmt.Errorf("count the backlog: %w", pg.Fault(err))
	}
	return rows, nil
}
