package intake

import (
	"context"
	"iter"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
)

const (
	// maxUpload is how many items a batch may have.
	maxUpload = 100_000
	// batchKeyLength leaves room in an item's key for its name.
	batchKeyLength = 200
)

// parts are what a batch is submitted from, in their order, each with its place; they can be gone through again unless they
// come from a stream.
type parts = iter.Seq2[*pawlv1.UploadBatchRequest, error]

// filling is a batch while its items are being submitted. It is used by one goroutine.
type filling struct {
	s       *Service
	who     caller
	header  *pawlv1.BatchHeader
	key     *systemv1.Idempotency
	budget  *int64
	perItem *int64
	// pipeline is the version that the items are checked against: the batch's own once it is known.
	pipeline *registered
	// batch is what the orchestrator says of it; nil before it is opened.
	batch    *pawlv1.Batch
	replayed bool
}

// CreateBatch accepts a batch in one message.
func (s *Service) CreateBatch(ctx context.Context, req *pawlv1.CreateBatchRequest) (*pawlv1.CreateBatchResponse, error) {
	f, err := s.newFilling(ctx, pawlv1.BatchService_CreateBatch_FullMethodName, req.GetBatch(), req.GetItems())
	if err != nil {
		return nil, err
	}
	items := partsOf(req.GetItems())
	if isAllOrNothing(req.GetBatch()) {
		if err := f.checkAll(ctx, items); err != nil {
			return nil, err
		}
	}
	made := &outcome{keep: len(req.GetItems()), all: true}
	if err := f.fill(ctx, items, made); err != nil {
		return nil, err
	}
	return &pawlv1.CreateBatchResponse{
		BatchId: f.batch.GetBatchId(), Status: f.batch.GetStatus(), Replayed: f.replayed,
		Items: made.sorted(), Created: made.created, Duplicates: made.duplicates, Rejected: made.rejected,
	}, nil
}

// partsOf gives the items of a list their places.
func partsOf(items []*pawlv1.BatchItem) parts {
	return func(yield func(*pawlv1.UploadBatchRequest, error) bool) {
		for i, item := range items {
			index := int32(i)
			if !yield(&pawlv1.UploadBatchRequest{Index: &index, Part: &pawlv1.UploadBatchRequest_Item{Item: item}}, nil) {
				return
			}
		}
	}
}

// newFilling checks what a batch is. Nothing is made yet.
func (s *Service) newFilling(
	ctx context.Context, method string, header *pawlv1.BatchHeader, items []*pawlv1.BatchItem,
) (*filling, error) {
	key, err := idempotencyKey(ctx, header.GetIdempotencyKey())
	if err == nil && len(key) > batchKeyLength {
		err = badKey("must have at most 200 characters for a batch: the keys of its items begin with it")
	}
	if err != nil {
		return nil, err
	}
	f := &filling{s: s, who: callerOf(ctx), header: header}
	if err := f.readHeader(); err != nil {
		return nil, err
	}
	digest, err := batchDigest(method, header, items)
	if err != nil {
		return nil, err
	}
	f.key = &systemv1.Idempotency{Key: key, RequestDigest: digest}
	f.pipeline, err = s.catalog.find(ctx, f.who.tenant, header.GetPipeline())
	return f, err
}

// readHeader checks what the schema of a header does not.
func (f *filling) readHeader() error {
	violations := checkCallbackURL(f.header.GetCallbackUrl())
	budget, broken := budgetOf(f.header.GetBudgetUsd())
	violations = append(violations, broken...)
	perItem, broken := budgetOf(f.header.GetItemBudgetUsd())
	for _, v := range broken {
		violations = append(violations, fault.Violation{Field: "item_budget_usd", Message: v.Message})
	}
	for i := range violations {
		violations[i].Field = "batch." + violations[i].Field
	}
	if len(violations) > 0 {
		return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, violations...)
	}
	f.budget, f.perItem = budget, perItem
	return nil
}

// checkAll refuses the batch with everything that is wrong with its items. A batch that was accepted under its key stays
// accepted: its items are then held to its own version of the pipeline.
func (f *filling) checkAll(ctx context.Context, all parts) error {
	refused := f.check(ctx, all)
	if refused == nil {
		return nil
	}
	found, err := f.s.earlier(ctx, kindBatch, f.key, refused)
	if err != nil {
		return err
	}
	known, err := f.s.orchestrator.GetBatch(ctx,
		&systemv1.GetBatchRequest{Tenant: f.who.tenant, BatchId: found.GetResourceId()})
	if err != nil {
		return err
	}
	if known.GetBatch().GetPipeline() == f.pipeline.ref {
		return refused
	}
	if err := f.hold(ctx, known.GetBatch()); err != nil {
		return err
	}
	return f.check(ctx, all)
}

// check goes through all items and changes nothing.
func (f *filling) check(ctx context.Context, all parts) error {
	names, problems := newNames(), &problems{}
	for part, err := range all {
		if err != nil {
			return err
		}
		_, refusal, err := f.prepare(ctx, names, part)
		if err != nil {
			return err
		}
		problems.add(part.GetIndex(), refusal)
	}
	return problems.fault()
}

// fill makes the batch if it is not there, and its items that are missing.
func (f *filling) fill(ctx context.Context, all parts, made *outcome) error {
	names := newNames()
	out := newChunks(ctx, f, made)
	for part, err := range all {
		if err == nil {
			err = f.open(ctx)
		}
		var item *systemv1.AddBatchItemsRequest_Item
		if err == nil {
			item, _, err = f.prepare(ctx, names, part)
		}
		if err == nil {
			err = out.add(item) //nolint:contextcheck // chunks end with ctx, and with the first that fails
		}
		if err != nil {
			return out.abandon(err)
		}
	}
	if err := out.finish(); err != nil { //nolint:contextcheck // as above
		return err
	}
	if f.batch == nil {
		return errNoItems()
	}
	return f.seal(ctx)
}

// open makes the batch, once.
func (f *filling) open(ctx context.Context) error {
	if f.batch != nil {
		return nil
	}
	h := f.header
	created, err := f.s.orchestrator.CreateBatch(ctx, &systemv1.CreateBatchRequest{
		Tenant: f.who.tenant, Idempotency: f.key, Pipeline: f.pipeline.ref, Label: h.GetLabel(), Class: batchClass(h.GetClass()),
		Priority: h.GetPriority(), Labels: h.GetLabels(), CallbackUrl: h.GetCallbackUrl(), BudgetPicoUsd: f.budget,
		ItemBudgetPicoUsd: f.perItem, Deadline: h.GetDeadline(), Actor: f.who.actor(),
	})
	if err != nil {
		return err
	}
	f.batch, f.replayed = created.GetBatch(), created.GetReplayed()
	f.s.metrics.submitted(kindBatch, f.replayed)
	return f.hold(ctx, f.batch)
}

// hold checks items against the version of the pipeline that the batch was accepted with, whichever is the newest now.
func (f *filling) hold(ctx context.Context, batch *pawlv1.Batch) (err error) {
	if batch.GetPipeline() != f.pipeline.ref {
		f.pipeline, err = f.s.catalog.find(ctx, f.who.tenant, batch.GetPipeline())
	}
	return err
}

func (f *filling) seal(ctx context.Context) error {
	sealed, err := f.s.orchestrator.SealBatch(ctx,
		&systemv1.SealBatchRequest{Tenant: f.who.tenant, BatchId: f.batch.GetBatchId()})
	if err != nil {
		return err
	}
	f.batch = sealed.GetBatch()
	return nil
}

func errNoItems() error {
	return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT,
		fault.Violation{Field: itemsField, Message: "must contain at least 1 item"})
}
