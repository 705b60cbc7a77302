package orchestrator

import (
	"context"
	"errors"
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
	name, version, _ := strings.Cut(query.GetPipeline(), ":")
	filter := store.RunFilter{
		Pipeline: plain(name), Version: plain(version), EntityID: plain(query.GetEntityId()), Reason: plain(query.GetReason()),
		Most: pageSize(query.GetPageSize()),
	}
	if query.GetStatus() != pawlv1.RunStatus_RUN_STATUS_UNSPECIFIED {
		filter.Status = word(query.GetStatus())
	}
	if query.GetClass() != pawlv1.RunClass_RUN_CLASS_UNSPECIFIED {
		filter.Class = word(query.GetClass())
	}
	if token := query.GetPageToken(); token != "" {
		before, err := uuid.Parse(token)
		if err != nil {
			return nil, badPageToken()
		}
		filter.Before = &before
	}
	views, err := s.store.ListRuns(ctx, req.GetTenant(), filter)
	if err != nil {
		return nil, err
	}
	page := &systemv1.ListRunsResponse{}
	for i := range views {
		run, err := runProto(&views[i])
		if err != nil {
			return nil, err
		}
		page.Runs = append(page.Runs, run)
	}
	if len(views) == filter.Most {
		page.NextPageToken = views[len(views)-1].ID.String()
	}
	return page, nil
}

// ListRunEvents returns a page of a run's journal. The page token is the last entry's number.
func (s *Service) ListRunEvents(ctx context.Context, req *systemv1.ListRunEventsRequest) (*systemv1.ListRunEventsResponse, error) {
	query := req.GetQuery()
	id, err := s.ownRun(ctx, req.GetTenant(), query.GetRunId())
	if err != nil {
		return nil, err
	}
	var after int64
	if token := query.GetPageToken(); token != "" {
		if after, err = strconv.ParseInt(token, 10, 64); err != nil {
			return nil, badPageToken()
		}
	}
	most := pageSize(query.GetPageSize())
	rows, err := s.store.ListEvents(ctx, id, after, most)
	if err != nil {
		return nil, err
	}
	page := &systemv1.ListRunEventsResponse{}
	for _, row := range rows {
		page.Events = append(page.Events, &pawlv1.RunEvent{
			Seq: row.Seq, At: timestamppb.New(row.At), Actor: row.Actor, Kind: row.Kind, Step: row.Step,
			Shard: shardProto(row.Shard), Attempt: row.Attempt, Detail: &pawlv1.JsonValue{Json: string(row.Detail)},
		})
	}
	if len(rows) == most {
		page.NextPageToken = strconv.FormatInt(rows[len(rows)-1].Seq, 10)
	}
	return page, nil
}

// ownRun checks that the run is the tenant's.
func (s *Service) ownRun(ctx context.Context, tenant, run string) (uuid.UUID, error) {
	id, err := uuid.Parse(run)
	if err != nil {
		return uuid.UUID{}, noRun(run)
	}
	if _, err := s.store.ReadRun(ctx, tenant, id); err != nil {
		if errors.Is(err, store.ErrNoRun) {
			return uuid.UUID{}, noRun(run)
		}
		return uuid.UUID{}, err
	}
	return id, nil
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
