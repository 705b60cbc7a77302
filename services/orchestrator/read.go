package orchestrator

import (
	"context"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/orchestrator/store"
)

// The sizes of pages, when the caller names none, and at most.
const (
	defaultPage = 50
	mostPage    = 1000
)

// GetRun returns a tenant's run.
func (s *Service) GetRun(ctx context.Context, req *systemv1.GetRunRequest) (*systemv1.GetRunResponse, error) {
	return s.readRun(ctx, req.GetTenant(), req.GetRunId())
}

// ListRuns returns a tenant's runs, the newest first. The page token is the last run's id.
func (s *Service) ListRuns(ctx context.Context, req *systemv1.ListRunsRequest) (*systemv1.ListRunsResponse, error) {
	query := req.GetQuery()
	filter, err := filterOf(query)
	if err != nil {
		return nil, err
	}
	most := pageSize(query.GetPageSize())
	filter.Most = most + 1
	runs, err := s.store.ListRuns(ctx, req.GetTenant(), filter)
	if err != nil {
		return nil, err
	}
	page := &systemv1.ListRunsResponse{}
	if len(runs) > most {
		runs = runs[:most]
		page.NextPageToken = runs[most-1].ID.String()
	}
	for _, run := range runs {
		shown, err := runProto(run)
		if err != nil {
			return nil, err
		}
		page.Runs = append(page.Runs, shown)
	}
	return page, nil
}

func filterOf(query *pawlv1.ListRunsRequest) (store.RunFilter, error) {
	name, version, _ := strings.Cut(query.GetPipeline(), ":")
	filter := store.RunFilter{
		Pipeline: plain(name), Version: plain(version), EntityID: plain(query.GetEntityId()), Reason: plain(query.GetReason()),
		Before: uuid.Max,
	}
	if query.GetStatus() != pawlv1.RunStatus_RUN_STATUS_UNSPECIFIED {
		filter.Status = word(query.GetStatus())
	}
	if query.GetClass() != pawlv1.RunClass_RUN_CLASS_UNSPECIFIED {
		filter.Class = word(query.GetClass())
	}
	filter.Batch, _ = uuid.Parse(query.GetBatchId()) // its form was checked; none is the zero one
	if token := query.GetPageToken(); token != "" {
		var err error
		if filter.Before, err = uuid.Parse(token); err != nil {
			return filter, badPageToken()
		}
	}
	return filter, nil
}

// ListRunEvents returns a page of a run's journal. The page token is the last entry's number.
func (s *Service) ListRunEvents(ctx context.Context, req *systemv1.ListRunEventsRequest) (*systemv1.ListRunEventsResponse, error) {
	query := req.GetQuery()
	id, err := uuid.Parse(query.GetRunId())
	if err != nil {
		return nil, noRun(query.GetRunId())
	}
	var after int64
	if token := query.GetPageToken(); token != "" {
		if after, err = strconv.ParseInt(token, 10, 64); err != nil {
			return nil, badPageToken()
		}
	}
	most := pageSize(query.GetPageSize())
	rows, err := s.store.ListEvents(ctx, req.GetTenant(), id, after, most+1)
	if err != nil {
		return nil, refusal(query.GetRunId(), err)
	}
	page := &systemv1.ListRunEventsResponse{}
	if len(rows) > most {
		rows = rows[:most]
		page.NextPageToken = strconv.FormatInt(rows[most-1].Seq, 10)
	}
	for _, row := range rows {
		page.Events = append(page.Events, &pawlv1.RunEvent{
			Seq: row.Seq, At: timestamppb.New(row.At), Actor: row.Actor, Kind: row.Kind, Step: row.Step,
			Shard: shardProto(row.Shard), Attempt: row.Attempt, Detail: &pawlv1.JsonValue{Json: string(row.Detail)},
		})
	}
	return page, nil
}

// shardProto is the index of a shard; nil for the step itself.
func shardProto(shard int32) *int32 {
	if shard == store.Whole {
		return nil
	}
	return &shard
}

func pageSize(asked int32) int {
	if asked <= 0 {
		return defaultPage
	}
	return min(int(asked), mostPage)
}

func badPageToken() error {
	return fault.New(faultv1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID, "the page token is not one that a list returned")
}
