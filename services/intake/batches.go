package intake

import (
	"cmp"
	"context"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
)

// GetBatch returns how a batch of the caller's tenant stands.
func (s *Service) GetBatch(ctx context.Context, req *pawlv1.GetBatchRequest) (*pawlv1.GetBatchResponse, error) {
	found, err := s.orchestrator.GetBatch(ctx,
		&systemv1.GetBatchRequest{Tenant: callerOf(ctx).tenant, BatchId: req.GetBatchId()})
	if err != nil {
		return nil, err
	}
	return &pawlv1.GetBatchResponse{Batch: found.GetBatch()}, nil
}

// ListBatches returns a page of the tenant's batches.
func (s *Service) ListBatches(ctx context.Context, req *pawlv1.ListBatchesRequest) (*pawlv1.ListBatchesResponse, error) {
	tenant := callerOf(ctx).tenant
	token, err := s.pages.open(tenant, req)
	if err != nil {
		return nil, err
	}
	page, err := s.orchestrator.ListBatches(ctx, &systemv1.ListBatchesRequest{
		Tenant: tenant, PageSize: pageSize(req.GetPageSize(), defaultPage), PageToken: token,
	})
	if err != nil {
		return nil, err
	}
	return &pawlv1.ListBatchesResponse{
		Batches: page.GetBatches(), NextPageToken: s.pages.seal(tenant, req, page.GetNextPageToken()),
	}, nil
}

// CancelBatch stops everything that has not ended.
func (s *Service) CancelBatch(ctx context.Context, req *pawlv1.CancelBatchRequest) (*pawlv1.CancelBatchResponse, error) {
	batch, err := s.decideBatch(ctx, req, &systemv1.DecideBatchRequest{Verb: systemv1.BatchVerb_BATCH_VERB_CANCEL})
	if err != nil {
		return nil, err
	}
	return &pawlv1.CancelBatchResponse{Batch: batch}, nil
}

// PauseBatch lets no further step begin.
func (s *Service) PauseBatch(ctx context.Context, req *pawlv1.PauseBatchRequest) (*pawlv1.PauseBatchResponse, error) {
	batch, err := s.decideBatch(ctx, req, &systemv1.DecideBatchRequest{Verb: systemv1.BatchVerb_BATCH_VERB_PAUSE})
	if err != nil {
		return nil, err
	}
	return &pawlv1.PauseBatchResponse{Batch: batch}, nil
}

// ResumeBatch ends a pause.
func (s *Service) ResumeBatch(ctx context.Context, req *pawlv1.ResumeBatchRequest) (*pawlv1.ResumeBatchResponse, error) {
	batch, err := s.decideBatch(ctx, req, &systemv1.DecideBatchRequest{Verb: systemv1.BatchVerb_BATCH_VERB_RESUME})
	if err != nil {
		return nil, err
	}
	return &pawlv1.ResumeBatchResponse{Batch: batch}, nil
}

// RetryFailedItems runs what failed again.
func (s *Service) RetryFailedItems(
	ctx context.Context, req *pawlv1.RetryFailedItemsRequest,
) (*pawlv1.RetryFailedItemsResponse, error) {
	budget, broken := budgetOf(req.GetItemBudgetUsd())
	if len(broken) > 0 {
		broken[0].Field = "item_budget_usd"
		return nil, fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, broken...)
	}
	batch, err := s.decideBatch(ctx, req, &systemv1.DecideBatchRequest{
		Verb: systemv1.BatchVerb_BATCH_VERB_RETRY_FAILED, OnlyReason: req.GetOnlyReason(), ItemBudgetPicoUsd: budget,
	})
	if err != nil {
		return nil, err
	}
	return &pawlv1.RetryFailedItemsResponse{Batch: batch}, nil
}

// batchDecision is a request that decides about a batch.
type batchDecision interface {
	GetBatchId() string
	GetReason() string
	GetEtag() string
}

// decideBatch adds to a decision who takes it, about what and why, and has it carried out.
func (s *Service) decideBatch(
	ctx context.Context, req batchDecision, decision *systemv1.DecideBatchRequest,
) (*pawlv1.Batch, error) {
	etag, err := etagOf(ctx, req.GetEtag())
	if err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	decision.Tenant, decision.BatchId, decision.Actor = who.tenant, req.GetBatchId(), who.actor()
	decision.Reason, decision.Etag = req.GetReason(), etag
	decided, err := s.orchestrator.DecideBatch(ctx, decision)
	if err != nil {
		return nil, err
	}
	return decided.GetBatch(), nil
}

// batchClass applies a batch's default lane.
func batchClass(asked pawlv1.RunClass) pawlv1.RunClass {
	return cmp.Or(asked, pawlv1.RunClass_RUN_CLASS_BATCH)
}

// isAllOrNothing applies the default mode.
func isAllOrNothing(header *pawlv1.BatchHeader) bool {
	return header.GetMode() != pawlv1.BatchMode_BATCH_MODE_SKIP_INVALID
}
