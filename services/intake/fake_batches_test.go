package intake_test

import (
	"context"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
)

// fakeBatches are the orchestrator's batches.
type fakeBatches struct {
	made    map[string]*fakeBatch
	order   []string
	largest int // chunk, in items
	decided []string
	// forgetful keeps no items, so that the test's memory is intake's.
	forgetful bool
	// refuse fails the chunks from the one with this number on, unless it is 0.
	refuse, chunks int
	// blocked is waited for by chunks, unless it is nil.
	blocked chan struct{}
}

type fakeBatch struct {
	tenant  string
	asked   *systemv1.CreateBatchRequest
	batch   *pawlv1.Batch
	runs    map[string]*systemv1.AddBatchItemsRequest_Item // by run
	noted   map[int32]*systemv1.AddBatchItemsRequest_Item
	added   int
	results []*pawlv1.BatchResult
}

func (o *orchestrator) CreateBatch(_ context.Context, req *systemv1.CreateBatchRequest) (*systemv1.CreateBatchResponse, error) {
	end, err := o.begin("CreateBatch")
	defer end()
	if err != nil {
		return nil, err
	}
	id, replayed, err := o.once(req.GetTenant(), req.GetIdempotency())
	if err != nil {
		return nil, err
	}
	if !replayed {
		o.batches.order = append(o.batches.order, id)
		o.batches.made[id] = &fakeBatch{
			tenant: req.GetTenant(), asked: req, runs: map[string]*systemv1.AddBatchItemsRequest_Item{},
			noted: map[int32]*systemv1.AddBatchItemsRequest_Item{},
			batch: &pawlv1.Batch{
				BatchId: id, Status: pawlv1.BatchStatus_BATCH_STATUS_FILLING, Pipeline: req.GetPipeline(), CostSoFarUsd: "0",
				Counts: &pawlv1.BatchCounts{}, Etag: "1",
			},
		}
	}
	return &systemv1.CreateBatchResponse{Batch: proto.CloneOf(o.batches.made[id].batch), Replayed: replayed}, nil
}

func (o *orchestrator) AddBatchItems(ctx context.Context, req *systemv1.AddBatchItemsRequest) (*systemv1.AddBatchItemsResponse, error) {
	end, err := o.begin("AddBatchItems")
	blocked := o.batches.blocked
	if blocked != nil {
		end()
		select {
		case <-blocked:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		o.mu.Lock()
	}
	defer end()
	o.batches.chunks++
	switch {
	case err != nil:
		return nil, err
	case o.batches.refuse > 0 && o.batches.chunks >= o.batches.refuse:
		return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_RATE_LIMITED, "slower")
	}
	o.batches.largest = max(o.batches.largest, len(req.GetItems()))
	b, err := o.findBatch(req.GetTenant(), req.GetBatchId())
	if err != nil {
		return nil, err
	}
	answer := &systemv1.AddBatchItemsResponse{}
	for _, item := range req.GetItems() {
		answer.Results = append(answer.Results, o.addItem(b, item))
	}
	return answer, nil
}

func (o *orchestrator) addItem(b *fakeBatch, item *systemv1.AddBatchItemsRequest_Item) *pawlv1.BatchItemResult {
	result := &pawlv1.BatchItemResult{Index: item.GetIndex(), CustomId: item.GetCustomId()}
	if item.GetRejectedReason() != "" {
		b.noted[item.GetIndex()] = item
		result.Reason, result.Error = item.GetRejectedReason(), item.GetRejectedError()
		return result
	}
	if o.batches.forgetful {
		b.added++
		result.RunId = fmt.Sprintf("01890000-0000-7000-8000-%012d", b.added)
		return result
	}
	id, known, err := o.once(b.tenant, item.GetIdempotency())
	if err != nil {
		result.Reason, result.Error = "idempotency_key_reused", err.Error()
		return result
	}
	if !known {
		b.added++
		b.runs[id] = item
	}
	result.RunId, result.Duplicate = id, known
	return result
}

func (o *orchestrator) findBatch(tenant, id string) (*fakeBatch, error) {
	if b, ok := o.batches.made[id]; ok && b.tenant == tenant {
		return b, nil
	}
	return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_BATCH_NOT_FOUND, "there is no batch %s", id)
}

func (o *orchestrator) SealBatch(_ context.Context, req *systemv1.SealBatchRequest) (*systemv1.SealBatchResponse, error) {
	end, err := o.begin("SealBatch")
	defer end()
	if err != nil {
		return nil, err
	}
	b, err := o.findBatch(req.GetTenant(), req.GetBatchId())
	if err != nil {
		return nil, err
	}
	if b.batch.GetStatus() == pawlv1.BatchStatus_BATCH_STATUS_FILLING {
		b.batch.Status = pawlv1.BatchStatus_BATCH_STATUS_RUNNING
	}
	return &systemv1.SealBatchResponse{Batch: proto.CloneOf(b.batch)}, nil
}

func (o *orchestrator) GetBatch(_ context.Context, req *systemv1.GetBatchRequest) (*systemv1.GetBatchResponse, error) {
	end, err := o.begin("GetBatch")
	defer end()
	if err != nil {
		return nil, err
	}
	b, err := o.findBatch(req.GetTenant(), req.GetBatchId())
	if err != nil {
		return nil, err
	}
	return &systemv1.GetBatchResponse{Batch: proto.CloneOf(b.batch)}, nil
}

func (o *orchestrator) ListBatches(_ context.Context, req *systemv1.ListBatchesRequest) (*systemv1.ListBatchesResponse, error) {
	end, err := o.begin(fmt.Sprintf("ListBatches %d%s", req.GetPageSize(), req.GetPageToken()))
	defer end()
	if err != nil {
		return nil, err
	}
	page := &systemv1.ListBatchesResponse{NextPageToken: "more"}
	for _, id := range o.batches.order {
		if b := o.batches.made[id]; b.tenant == req.GetTenant() {
			page.Batches = append(page.Batches, proto.CloneOf(b.batch))
		}
	}
	return page, nil
}

// ListBatchResults pages by position; tokens are the position of the next.
func (o *orchestrator) ListBatchResults(
	_ context.Context, req *systemv1.ListBatchResultsRequest,
) (*systemv1.ListBatchResultsResponse, error) {
	end, err := o.begin("ListBatchResults")
	defer end()
	if err != nil {
		return nil, err
	}
	b, err := o.findBatch(req.GetTenant(), req.GetBatchId())
	if err != nil {
		return nil, err
	}
	from, _ := strconv.Atoi(req.GetPageToken())
	to := min(len(b.results), from+int(req.GetPageSize()))
	page := &systemv1.ListBatchResultsResponse{
		NextPageToken: strconv.Itoa(to), AtEnd: to == len(b.results),
		BatchEnded: b.batch.GetStatus() == pawlv1.BatchStatus_BATCH_STATUS_COMPLETED,
	}
	for _, result := range b.results[from:to] {
		if !req.GetErrorsOnly() || result.GetStatus() != pawlv1.RunStatus_RUN_STATUS_DONE {
			page.Results = append(page.Results, proto.CloneOf(result))
		}
	}
	return page, nil
}

func (o *orchestrator) DecideBatch(_ context.Context, req *systemv1.DecideBatchRequest) (*systemv1.DecideBatchResponse, error) {
	end, err := o.begin("DecideBatch")
	defer end()
	if err != nil {
		return nil, err
	}
	b, err := o.findBatch(req.GetTenant(), req.GetBatchId())
	if err != nil {
		return nil, err
	}
	o.batches.decided = append(o.batches.decided, fmt.Sprintf("%s by %s for %q at %q: %q %d", req.GetVerb(), req.GetActor(),
		req.GetReason(), req.GetEtag(), req.GetOnlyReason(), req.GetItemBudgetPicoUsd()))
	return &systemv1.DecideBatchResponse{Batch: proto.CloneOf(b.batch)}, nil
}

// land lets items of a batch end.
func (o *orchestrator) land(id string, results ...*pawlv1.BatchResult) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.batches.made[id].results = append(o.batches.made[id].results, results...)
}

// complete ends a batch; what was hidden until then had ended before all others.
func (o *orchestrator) complete(id string, hidden ...*pawlv1.BatchResult) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.batches.made[id]
	b.results = append(hidden, b.results...)
	b.batch.Status = pawlv1.BatchStatus_BATCH_STATUS_COMPLETED
}

// only returns the one batch that there is.
func (o *orchestrator) only() (string, *fakeBatch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.batches.order) != 1 {
		return fmt.Sprintf("there are %d batches", len(o.batches.order)), nil
	}
	id := o.batches.order[0]
	return id, o.batches.made[id]
}
