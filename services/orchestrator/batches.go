package orchestrator

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/google/uuid"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// CreateBatch opens a batch, unless its idempotency key has one already.
func (s *Service) CreateBatch(ctx context.Context, req *systemv1.CreateBatchRequest) (*systemv1.CreateBatchResponse, error) {
	name, version, _ := strings.Cut(req.GetPipeline(), ":")
	key := plain(req.GetIdempotency().GetKey())
	batch, replayed, err := s.store.CreateBatch(ctx, &store.NewBatch{
		ID: s.ids.V7(), Tenant: req.GetTenant(), Key: key, RequestDigest: req.GetIdempotency().GetRequestDigest(),
		Pipeline: plain(name), Version: plain(version), Label: plain(req.GetLabel()), Class: classOf(req.GetClass()),
		Priority: int(req.GetPriority()), Labels: plainLabels(req.GetLabels()), CallbackURL: plain(req.GetCallbackUrl()),
		Budget: picoOf(req.BudgetPicoUsd), ItemBudget: picoOf(req.ItemBudgetPicoUsd),
		Deadline: req.GetDeadline().AsDuration(), Actor: plain(req.GetActor()),
	})
	switch {
	case errors.Is(err, store.ErrKeyReused):
		return nil, keyReused(key)
	case err != nil:
		return nil, err
	}
	return &systemv1.CreateBatchResponse{Batch: batchProto(batch), Replayed: replayed}, nil
}

func picoOf(amount *int64) *money.Pico {
	if amount == nil {
		return nil
	}
	pico := money.Pico(*amount)
	return &pico
}

// AddBatchItems makes runs of items, and notes those that were refused.
func (s *Service) AddBatchItems(ctx context.Context, req *systemv1.AddBatchItemsRequest) (*systemv1.AddBatchItemsResponse, error) {
	batch, err := s.findBatch(ctx, req.GetTenant(), req.GetBatchId())
	if err != nil {
		return nil, err
	}
	added := &additions{batch: batch, results: make([]*pawlv1.BatchItemResult, len(req.GetItems()))}
	for i, item := range req.GetItems() {
		added.results[i] = &pawlv1.BatchItemResult{Index: item.GetIndex(), CustomId: item.GetCustomId()}
		s.addItem(added, i, item)
	}
	if err := s.carryOut(ctx, added); err != nil {
		return nil, err
	}
	return &systemv1.AddBatchItemsResponse{Results: added.results}, nil
}

// additions are the items of one request on their way: runs to be made, and items that are refused.
type additions struct {
	batch    *store.Batch
	results  []*pawlv1.BatchItemResult
	runs     []*store.NewRun
	places   []int // of the runs, in results
	rejected []store.Rejected
}

// refuse notes that there is no run of an item.
func (a *additions) refuse(place int, reason, text string) {
	r := a.results[place]
	r.Reason, r.Error = reason, text
	a.rejected = append(a.rejected, store.Rejected{
		Index: r.GetIndex(), CustomID: plain(r.GetCustomId()), Reason: plain(reason), Error: plain(text),
	})
}

// addItem sorts an item: it becomes a run, or was refused.
func (s *Service) addItem(a *additions, place int, item *systemv1.AddBatchItemsRequest_Item) {
	if item.GetRejectedReason() != "" {
		a.refuse(place, item.GetRejectedReason(), item.GetRejectedError())
		return
	}
	input, err := s.store.Codec().Document(item.GetInput())
	if err != nil {
		a.refuse(place, reasonName(faultv1.ErrorReason_ERROR_REASON_INPUT_INVALID), "input: "+err.Error())
		return
	}
	document, err := documentID(item.GetDocumentId())
	if err != nil {
		a.refuse(place, reasonName(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT), "document_id must be a UUID")
		return
	}
	b := a.batch
	a.places = append(a.places, place)
	a.runs = append(a.runs, &store.NewRun{
		ID: s.ids.V7(), Tenant: b.Tenant, Key: plain(item.GetIdempotency().GetKey()), RequestDigest: item.GetIdempotency().GetRequestDigest(),
		Kind: "run", Pipeline: b.Pipeline, Version: b.PipelineVersion, Input: input, EntityID: plain(item.GetEntityId()),
		DocumentID: document, Class: machine.Class(b.Class), Priority: int(b.Priority), Labels: labelsOf(b),
		ConcurrencyKey: item.GetConcurrencyKey(), Budget: b.ItemBudgetUsd, Batch: b.ID, CustomID: plain(item.GetCustomId()),
	})
}

// carryOut makes the runs, and notes what was refused.
func (s *Service) carryOut(ctx context.Context, a *additions) error {
	for i, err := range s.store.AddItems(ctx, a.runs) {
		n, place := a.runs[i], a.places[i]
		switch {
		case err == nil:
			a.results[place].RunId, a.results[place].Duplicate = n.Found.String(), n.Replayed
			s.metrics.runCreated(n.Kind, n.Replayed)
		case errors.Is(err, store.ErrKeyReused):
			a.refuse(place, reasonName(faultv1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED), "its idempotency key was used before with another request")
		case errors.Is(err, store.ErrBatchClosed):
			return fault.New(faultv1.ErrorReason_ERROR_REASON_WRONG_STATE, "batch %s takes no more items: it is complete, or was cancelled", a.batch.ID).
				WithMeta("batch_id", a.batch.ID.String())
		default:
			return err
		}
	}
	if len(a.rejected) == 0 {
		return nil
	}
	return s.store.RejectItems(ctx, a.batch.ID, a.rejected)
}

// reasonName is how a reason is told in the results of items.
func reasonName(r faultv1.ErrorReason) string { return strings.ToLower(fault.Name(r)) }

// SealBatch says that all items are there.
func (s *Service) SealBatch(ctx context.Context, req *systemv1.SealBatchRequest) (*systemv1.SealBatchResponse, error) {
	id, err := uuid.Parse(req.GetBatchId())
	if err == nil {
		err = s.store.SealBatch(ctx, req.GetTenant(), id)
	}
	if err != nil {
		return nil, batchRefusal(req.GetBatchId(), err)
	}
	s.batchLoop.look()
	batch, err := s.findBatch(ctx, req.GetTenant(), req.GetBatchId())
	if err != nil {
		return nil, err
	}
	return &systemv1.SealBatchResponse{Batch: batchProto(batch)}, nil
}

// GetBatch returns how a batch stands.
func (s *Service) GetBatch(ctx context.Context, req *systemv1.GetBatchRequest) (*systemv1.GetBatchResponse, error) {
	batch, err := s.findBatch(ctx, req.GetTenant(), req.GetBatchId())
	if err != nil {
		return nil, err
	}
	return &systemv1.GetBatchResponse{Batch: batchProto(batch)}, nil
}

// findBatch returns a tenant's batch by its id as callers know it.
func (s *Service) findBatch(ctx context.Context, tenant, id string) (*store.Batch, error) {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return nil, batchRefusal(id, store.ErrNoBatch)
	}
	batch, err := s.store.ReadBatch(ctx, tenant, parsed)
	return batch, batchRefusal(id, err)
}

// batchRefusal is what a caller is told.
func batchRefusal(id string, err error) error {
	if errors.Is(err, store.ErrNoBatch) {
		return fault.New(faultv1.ErrorReason_ERROR_REASON_BATCH_NOT_FOUND, "there is no batch %s", id).WithMeta("batch_id", id)
	}
	if wrong, ok := errors.AsType[*store.WrongBatchError](err); ok {
		return fault.New(faultv1.ErrorReason_ERROR_REASON_WRONG_STATE, "%s", wrong.Why).WithMeta("batch_id", id)
	}
	if errors.Is(err, store.ErrBatchChanged) {
		return fault.New(faultv1.ErrorReason_ERROR_REASON_ETAG_MISMATCH, "somebody has decided about batch %s since it had that etag: read it again", id).
			WithMeta("batch_id", id)
	}
	return err
}

// ListBatches returns a tenant's batches, the newest first. The page token is the last batch's id.
func (s *Service) ListBatches(ctx context.Context, req *systemv1.ListBatchesRequest) (*systemv1.ListBatchesResponse, error) {
	before := uuid.Max
	if token := req.GetPageToken(); token != "" {
		var err error
		if before, err = uuid.Parse(token); err != nil {
			return nil, badPageToken()
		}
	}
	most := pageSize(req.GetPageSize())
	batches, err := s.store.ListBatches(ctx, req.GetTenant(), before, most+1)
	if err != nil {
		return nil, err
	}
	page := &systemv1.ListBatchesResponse{}
	if len(batches) > most {
		batches = batches[:most]
		page.NextPageToken = batches[most-1].ID.String()
	}
	for _, b := range batches {
		page.Batches = append(page.Batches, batchProto(b))
	}
	return page, nil
}

// DecideBatch cancels, pauses or resumes a batch, or retries what failed in it.
func (s *Service) DecideBatch(ctx context.Context, req *systemv1.DecideBatchRequest) (*systemv1.DecideBatchResponse, error) {
	id, err := uuid.Parse(req.GetBatchId())
	if err != nil {
		return nil, batchRefusal(req.GetBatchId(), store.ErrNoBatch)
	}
	var version int64
	if etag := req.GetEtag(); etag != "" {
		if version, err = strconv.ParseInt(etag, 10, 64); err != nil || version < 1 {
			return nil, fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT,
				fault.Violation{Field: "etag", Message: "must be the etag of a batch as it was shown"})
		}
	}
	err = s.store.DecideBatch(ctx, &store.BatchDecision{
		Tenant: req.GetTenant(), ID: id, Operation: word(req.GetVerb()), Actor: plain(req.GetActor()), Reason: plain(req.GetReason()),
		IfVersion: version, OnlyReason: plain(req.GetOnlyReason()), Raised: picoOf(req.ItemBudgetPicoUsd),
	})
	if err != nil {
		return nil, batchRefusal(req.GetBatchId(), err)
	}
	s.batchLoop.look()
	batch, err := s.findBatch(ctx, req.GetTenant(), req.GetBatchId())
	if err != nil {
		return nil, err
	}
	return &systemv1.DecideBatchResponse{Batch: batchProto(batch)}, nil
}

// GetBacklog counts the unfinished runs of all tenants.
func (s *Service) GetBacklog(ctx context.Context, _ *systemv1.GetBacklogRequest) (*systemv1.GetBacklogResponse, error) {
	rows, err := s.store.Backlog(ctx)
	if err != nil {
		return nil, err
	}
	answer := &systemv1.GetBacklogResponse{}
	for _, row := range rows {
		answer.Backlog = append(answer.Backlog, &systemv1.GetBacklogResponse_Backlog{
			Tenant: row.Tenant, Class: classProto(machine.Class(row.Class)), Unfinished: row.N,
		})
	}
	return answer, nil
}
