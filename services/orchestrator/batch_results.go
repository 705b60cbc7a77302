package orchestrator

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

const (
	// mostResults and resultsBytes bound a page of results.
	mostResults  = 200
	resultsBytes = 4 << 20
)

// resultPlace is how far a reader of results is: first come the items that were refused, then those that ended, in the order
// in which they did.
type resultPlace struct {
	Rejected int32     `json:"r"`
	At       time.Time `json:"t"`
	Run      uuid.UUID `json:"i"`
}

func resultPlaceOf(token string) (resultPlace, error) {
	place := resultPlace{Rejected: -1}
	if token == "" {
		return place, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(text, &place)
	}
	if err != nil {
		return place, badPageToken()
	}
	return place, nil
}

func (p resultPlace) token() (string, error) {
	text, err := json.Marshal(p)
	return base64.RawURLEncoding.EncodeToString(text), err
}

// ListBatchResults returns a page of a batch's items that have ended.
func (s *Service) ListBatchResults(
	ctx context.Context, req *systemv1.ListBatchResultsRequest,
) (*systemv1.ListBatchResultsResponse, error) {
	batch, err := s.findBatch(ctx, req.GetTenant(), req.GetBatchId())
	if err != nil {
		return nil, err
	}
	place, err := resultPlaceOf(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	most := min(pageSize(req.GetPageSize()), mostResults)
	page := &systemv1.ListBatchResultsResponse{BatchEnded: batch.FinishedAt != nil}
	if err := s.addRejected(ctx, page, batch, &place, most); err != nil {
		return nil, err
	}
	if len(page.GetResults()) < most {
		err = s.addEnded(ctx, page, batch, &place, req.GetErrorsOnly(), most-len(page.GetResults()))
	}
	if err != nil {
		return nil, err
	}
	page.NextPageToken, err = place.token()
	return page, err
}

// addRejected adds the items that were refused behind the place.
func (s *Service) addRejected(
	ctx context.Context, page *systemv1.ListBatchResultsResponse, batch *store.Batch, place *resultPlace, most int,
) error {
	rows, err := s.store.ListRejected(ctx, batch.ID, place.Rejected, most)
	for _, row := range rows {
		place.Rejected = row.Index
		page.Results = append(page.Results, &pawlv1.BatchResult{
			CustomId: row.CustomID, Reason: row.Reason, Error: row.Error, CostUsd: "0", FinishedAt: timestamppb.New(row.At),
		})
	}
	return err
}

// addEnded adds the items that ended behind the place, as far as their results fit.
func (s *Service) addEnded(
	ctx context.Context, page *systemv1.ListBatchResultsResponse, batch *store.Batch, place *resultPlace, errorsOnly bool, most int,
) error {
	items, err := s.store.EndedItems(ctx, batch, store.EndedFilter{
		AfterAt: place.At, After: place.Run, ErrorsOnly: errorsOnly, Most: most, Bytes: resultsBytes,
	})
	if err != nil {
		return err
	}
	for i := range items.Runs {
		run := &items.Runs[i]
		place.At, place.Run = *run.FinishedAt, run.ID
		shown := &pawlv1.BatchResult{
			CustomId: run.CustomID, RunId: run.ID.String(), Status: runStatusProto(machine.RunStatus(run.Status)), EntityId: run.EntityID,
			Reason: run.Reason, Error: run.Error, CostUsd: run.CostUsd.String(), FinishedAt: timestamppb.New(*run.FinishedAt),
		}
		switch text := items.Results[i]; {
		case text != nil:
			shown.Result = &pawlv1.JsonValue{Json: string(text)}
		case shown.GetStatus() == pawlv1.RunStatus_RUN_STATUS_DONE:
			shown.Error = fmt.Sprintf("the result is larger than %d bytes: read the outputs of step %s", store.InputsMax, run.OutputStep)
		}
		page.Results = append(page.Results, shown)
	}
	page.AtEnd = items.AtEnd
	return nil
}
