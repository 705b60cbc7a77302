package store

import (
	"context"
	"encoding/json"
	"errors"
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

var (
	// ErrNoBatch says that the tenant has no such batch.
	ErrNoBatch = errors.New("there is no such batch")
	// ErrBatchClosed says that a batch takes no more items: it was sealed or cancelled.
	ErrBatchClosed = errors.New("the batch takes no more items")
)

// batchKind is what the idempotency key of a batch stands for.
const batchKind = "batch"

// NewBatch is a batch to be opened.
type NewBatch struct {
	ID            uuid.UUID
	Tenant        string
	Key           string
	RequestDigest []byte
	// Pipeline and Version name the pipeline of its items.
	Pipeline, Version string
	Label             string
	Class             machine.Class
	Priority          int
	Labels            map[string]string
	CallbackURL       string
	// Budget is that of all items together, ItemBudget of each; nil for no limit, and the pipeline's own.
	Budget, ItemBudget *money.Pico
	// Deadline is how long it may take; 0 for the pipeline's own for each item.
	Deadline time.Duration
	Actor    string
}

// Batch is a batch with its counts.
type Batch struct {
	db.CoreBatch
	Counts   []db.CountBatchesRow
	Rejected int64
}

// CreateBatch opens a batch, unless its key has one already, which is returned then.
func (s *Store) CreateBatch(ctx context.Context, n *NewBatch) (batch *Batch, replayed bool, err error) {
	labels, err := json.Marshal(mergeLabels(nil, n.Labels))
	if err != nil {
		return nil, false, fmt.Errorf("labels: %w", err)
	}
	id := n.ID
	err = pg.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		q := db.New(tx)
		taken, err := q.InsertKey(ctx, db.InsertKeyParams{
			Tenant: n.Tenant, Key: n.Key, RequestDigest: n.RequestDigest, Kind: batchKind, ResourceID: n.ID, Kept: keyKept,
		})
		if replayed = taken == 0; err != nil || replayed {
			return err
		}
		var deadline *time.Duration
		if n.Deadline > 0 {
			deadline = &n.Deadline
		}
		return q.InsertBatch(ctx, db.InsertBatchParams{
			ID: n.ID, Tenant: n.Tenant, Pipeline: n.Pipeline, PipelineVersion: n.Version, Label: n.Label, Class: string(n.Class),
			Priority: int32(n.Priority), Labels: labels, CallbackUrl: n.CallbackURL, BudgetUsd: n.Budget, ItemBudgetUsd: n.ItemBudget,
			Deadline: deadline, CreatedBy: n.Actor,
		})
	})
	failpoint.Hit("orchestrator.batch.created")
	if err == nil && replayed {
		id, err = s.resourceOf(ctx, batchKind, n.Tenant, n.Key, n.RequestDigest)
	}
	if err != nil {
		return nil, false, fmt.Errorf("create batch: %w", err)
	}
	batch, err = s.ReadBatch(ctx, n.Tenant, id)
	return batch, replayed, err
}

// ReadBatch returns a tenant's batch, or ErrNoBatch.
func (s *Store) ReadBatch(ctx context.Context, tenant string, id uuid.UUID) (batch *Batch, err error) {
	err = s.snapshot(ctx, func(q *db.Queries) error {
		row, err := q.ReadBatch(ctx, tenant, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNoBatch
		}
		if err != nil {
			return fmt.Errorf("read batch: %w", err)
		}
		batches, err := withCounts(ctx, q, []db.CoreBatch{row})
		if err == nil {
			batch = batches[0]
		}
		return err
	})
	return batch, err
}

// ListBatches returns a tenant's batches that are older than one, the newest first.
func (s *Store) ListBatches(ctx context.Context, tenant string, before uuid.UUID, most int) (batches []*Batch, err error) {
	err = s.snapshot(ctx, func(q *db.Queries) error {
		rows, err := q.ListBatches(ctx, db.ListBatchesParams{Tenant: tenant, Before: before, Most: int32(most)})
		if err != nil {
			return fmt.Errorf("list batches: %w", err)
		}
		batches, err = withCounts(ctx, q, rows)
		return err
	})
	return batches, err
}

func withCounts(ctx context.Context, q *db.Queries, rows []db.CoreBatch) ([]*Batch, error) {
	batches, byID := make([]*Batch, len(rows)), make(map[uuid.UUID]*Batch, len(rows))
	ids := make([]uuid.UUID, len(rows))
	for i := range rows {
		batches[i] = &Batch{CoreBatch: rows[i]}
		ids[i], byID[rows[i].ID] = rows[i].ID, batches[i]
	}
	if len(ids) == 0 {
		return batches, nil
	}
	counts, err := q.CountBatches(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("count batches: %w", err)
	}
	for _, c := range counts {
		byID[c.BatchID].Counts = append(byID[c.BatchID].Counts, c)
	}
	rejected, err := q.CountRejected(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("count refused items: %w", err)
	}
	for _, r := range rejected {
		byID[r.BatchID].Rejected = r.N
	}
	return batches, nil
}

// Rejected is an item that was refused.
type Rejected = db.CoreBatchRejected

// RejectItems notes items of a batch that were refused; a place that is noted already stays as it is.
func (s *Store) RejectItems(ctx context.Context, batch uuid.UUID, items []Rejected) error {
	p := db.InsertRejectedParams{BatchID: batch}
	for _, item := range items {
		p.Indexes, p.CustomIds = append(p.Indexes, item.Index), append(p.CustomIds, item.CustomID)
		p.Reasons, p.Errors = append(p.Reasons, item.Reason), append(p.Errors, item.Error)
	}
	if err := s.read().InsertRejected(ctx, p); err != nil {
		return fmt.Errorf("note refused items: %w", pg.Fault(err))
	}
	return nil
}

// SealBatch says that all items of a batch are there. It waits for those that are on their way.
func (s *Store) SealBatch(ctx context.Context, tenant string, id uuid.UUID) error {
	err := pg.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		q := db.New(tx)
		if _, err := q.LockBatch(ctx, tenant, id); errors.Is(err, pgx.ErrNoRows) {
			return ErrNoBatch
		} else if err != nil {
			return fmt.Errorf("lock batch: %w", err)
		}
		return q.SealBatch(ctx, id)
	})
	failpoint.Hit("orchestrator.batch.sealed")
	return err
}

// AddItems makes the runs of items, each unless its key has one already, and returns for each why there is none: ErrBatchClosed,
// ErrKeyReused, or what else CreateRun refuses.
func (s *Store) AddItems(ctx context.Context, items []*NewRun) []error {
	errs := s.creations.SubmitAll(ctx, items)
	for i, err := range errs {
		if err == nil {
			errs[i] = items[i].refused
		}
	}
	return errs
}

// holdBatches keeps the batches of the creations from being sealed, paused or cancelled meanwhile, and takes over what they say.
func (c *creation) holdBatches(ctx context.Context) error {
	ids := batchesOf(c.leaders)
	if len(ids) == 0 {
		return nil
	}
	rows, err := c.query.HoldBatches(ctx, ids)
	if err != nil {
		return err
	}
	c.batches = make(map[uuid.UUID]db.HoldBatchesRow, len(rows))
	for _, row := range rows {
		c.batches[row.ID] = row
	}
	return nil
}

// isClosed reports whether the creation's batch takes no more items.
func (c *creation) isClosed(n *NewRun) bool {
	if n.Batch == uuid.Nil {
		return false
	}
	batch, known := c.batches[n.Batch]
	return !known || batch.Closed
}

// deadline is how long the run may take: until the end of its batch's time if that has one.
func (c *creation) deadline(n *NewRun) time.Duration {
	until := c.batches[n.Batch].DeadlineAt
	if n.Batch == uuid.Nil || until == nil {
		return n.Deadline
	}
	return max(until.Sub(c.now), time.Second)
}

// BatchDecision is what a person has decided about a batch.
type BatchDecision struct {
	Tenant string
	ID     uuid.UUID
	// Operation is `cancel`, `pause`, `resume` or `retry_failed`.
	Operation, Actor, Reason string
	// IfVersion is the version that the person saw; 0 for any.
	IfVersion int64
	// OnlyReason and Raised are for retries: which items, and their new budget.
	OnlyReason string
	Raised     *money.Pico
}

// WrongBatchError refuses a decision that the state of the batch does not allow.
type WrongBatchError struct{ Why string }

// Error says why.
func (e *WrongBatchError) Error() string { return e.Why }

// ErrBatchChanged refuses a decision on a version of the batch that is not the newest any more.
var ErrBatchChanged = errors.New("the batch has changed")

// DecideBatch notes a decision, which is carried out afterwards. One that says what is so already changes nothing.
func (s *Store) DecideBatch(ctx context.Context, d *BatchDecision) error {
	err := pg.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		g := s.newGroup(tx, true)
		batch, err := g.query.LockBatch(ctx, d.Tenant, d.ID)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return ErrNoBatch
		case err != nil:
			return fmt.Errorf("lock batch: %w", err)
		case d.IfVersion != 0 && d.IfVersion != batch.Version:
			return ErrBatchChanged
		}
		if moot, err := d.check(&batch); moot || err != nil {
			return err
		}
		return g.decideBatch(ctx, d, &batch)
	})
	failpoint.Hit("orchestrator.batch.decided")
	return err
}

// check refuses what the batch's state does not allow; moot says that there is nothing to do.
func (d *BatchDecision) check(b *db.CoreBatch) (moot bool, err error) {
	switch {
	case d.Operation == opCancel:
		return b.CancelRequestedAt != nil || b.FinishedAt != nil && b.SealedAt != nil, nil
	case b.CancelRequestedAt != nil:
		return false, &WrongBatchError{Why: "the batch was cancelled"}
	case b.Operation == opRetry:
		return false, &WrongBatchError{Why: "failed items are being retried: decide again in a moment"}
	case d.Operation == opPause:
		return b.PausedAt != nil, nil
	case d.Operation == opResume:
		return b.PausedAt == nil, nil
	case b.Operation != "":
		return false, &WrongBatchError{Why: "the batch is being paused or resumed: retry in a moment"}
	}
	return false, nil
}

// decideBatch writes the decision, and the link of the chain of what people did.
func (g *group) decideBatch(ctx context.Context, d *BatchDecision, b *db.CoreBatch) error {
	at, err := g.query.ReadClock(ctx)
	if err != nil {
		return err
	}
	g.tell(at)
	err = g.query.DecideBatch(ctx, db.DecideBatchParams{
		ID: d.ID, Operation: d.Operation, Actor: d.Actor, Reason: d.Reason, OnlyReason: d.OnlyReason, RaisedUsd: d.Raised,
	})
	if err != nil {
		return err
	}
	asked := Asked{Budget: d.Raised}
	after := summary{Status: d.Operation, Class: b.Class}
	after.Asked, _ = asked.record() // an amount always has a form in JSON
	g.actions = append(g.actions, action{
		At: g.now, Tenant: d.Tenant, Actor: d.Actor, Action: "batch_" + d.Operation, Reason: d.Reason, RunID: d.ID, Shard: Whole,
		Before: summary{Class: b.Class, Version: b.Version}, After: after,
	})
	if err := g.chain(ctx); err != nil {
		return err
	}
	g.writes.actions.Now = g.now
	if err := g.query.InsertOperatorActions(ctx, g.writes.actions); err != nil {
		return err
	}
	return g.pipe.Flush(ctx)
}
