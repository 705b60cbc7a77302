package intake

import (
	"context"
	"encoding/hex"
	"encoding/json"

	"google.golang.org/protobuf/proto"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
)

// CreateRun accepts a run.
func (s *Service) CreateRun(ctx context.Context, req *pawlv1.CreateRunRequest) (*pawlv1.CreateRunResponse, error) {
	if err := s.checkSize(req); err != nil {
		return nil, err
	}
	if !json.Valid([]byte(req.GetInput().GetJson())) {
		return nil, fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT,
			fault.Violation{Field: inputField, Message: "must be a JSON document"})
	}
	idempotency, err := idempotency(ctx, pawlv1.RunService_CreateRun_FullMethodName, req)
	if err != nil {
		return nil, err
	}
	created, err := s.submit(ctx, submissionOf(req, idempotency))
	if created, err = s.orEarlier(ctx, kindRun, idempotency, created, err); err != nil {
		return nil, err
	}
	return &pawlv1.CreateRunResponse{
		RunId: created.GetRunId(), Status: created.GetStatus(), Replayed: created.GetReplayed(),
	}, nil
}

// submissionOf is a run as it is asked for, with the key that it is made under.
func submissionOf(req *pawlv1.CreateRunRequest, key *systemv1.Idempotency) submission {
	return submission{
		kind: kindRun, idempotency: key, pipeline: req.GetPipeline(), input: []byte(req.GetInput().GetJson()),
		entityID: req.GetEntityId(), class: req.GetClass(), priority: req.GetPriority(), labels: req.GetLabels(),
		callbackURL: req.GetCallbackUrl(), budgetUSD: req.GetBudgetUsd(), deadline: req.GetDeadline(),
		notBefore: req.GetNotBefore(),
	}
}

// GetRun returns a run of the caller's tenant.
func (s *Service) GetRun(ctx context.Context, req *pawlv1.GetRunRequest) (*pawlv1.GetRunResponse, error) {
	found, err := s.getRun(ctx, req.GetRunId())
	if err != nil {
		return nil, err
	}
	return &pawlv1.GetRunResponse{Run: found.GetRun()}, nil
}

func (s *Service) getRun(ctx context.Context, id string) (*systemv1.GetRunResponse, error) {
	return s.orchestrator.GetRun(ctx, &systemv1.GetRunRequest{Tenant: callerOf(ctx).tenant, RunId: id})
}

// ListRuns returns a page of the tenant's runs.
func (s *Service) ListRuns(ctx context.Context, req *pawlv1.ListRunsRequest) (*pawlv1.ListRunsResponse, error) {
	tenant := callerOf(ctx).tenant
	token, err := s.pages.open(tenant, req)
	if err != nil {
		return nil, err
	}
	query := proto.CloneOf(req)
	query.PageSize, query.PageToken = pageSize(req.GetPageSize(), defaultPage), token
	page, err := s.orchestrator.ListRuns(ctx, &systemv1.ListRunsRequest{Tenant: tenant, Query: query})
	if err != nil {
		return nil, err
	}
	return &pawlv1.ListRunsResponse{
		Runs: page.GetRuns(), NextPageToken: s.pages.seal(tenant, req, page.GetNextPageToken()),
	}, nil
}

// ListRunSteps returns a page of the steps and shards of a run.
func (s *Service) ListRunSteps(ctx context.Context, req *pawlv1.ListRunStepsRequest) (*pawlv1.ListRunStepsResponse, error) {
	tenant := callerOf(ctx).tenant
	token, err := s.pages.open(tenant, req)
	if err != nil {
		return nil, err
	}
	page, err := s.orchestrator.ListRunSteps(ctx, &systemv1.ListRunStepsRequest{
		Tenant: tenant, RunId: req.GetRunId(), PageSize: pageSize(req.GetPageSize(), defaultRunPage), PageToken: token,
	})
	if err != nil {
		return nil, err
	}
	return &pawlv1.ListRunStepsResponse{
		Steps: page.GetSteps(), NextPageToken: s.pages.seal(tenant, req, page.GetNextPageToken()),
	}, nil
}

// ListRunEvents returns a page of a run's journal.
func (s *Service) ListRunEvents(ctx context.Context, req *pawlv1.ListRunEventsRequest) (*pawlv1.ListRunEventsResponse, error) {
	tenant := callerOf(ctx).tenant
	token, err := s.pages.open(tenant, req)
	if err != nil {
		return nil, err
	}
	query := proto.CloneOf(req)
	query.PageSize, query.PageToken = pageSize(req.GetPageSize(), defaultRunPage), token
	page, err := s.orchestrator.ListRunEvents(ctx, &systemv1.ListRunEventsRequest{Tenant: tenant, Query: query})
	if err != nil {
		return nil, err
	}
	return &pawlv1.ListRunEventsResponse{
		Events: page.GetEvents(), NextPageToken: s.pages.seal(tenant, req, page.GetNextPageToken()),
	}, nil
}

// ListRunCalls returns the run's requests to models. The gateway knows calls but not runs, so whether there is such a run
// is asked first.
func (s *Service) ListRunCalls(ctx context.Context, req *pawlv1.ListRunCallsRequest) (*pawlv1.ListRunCallsResponse, error) {
	id, err := uuidBytes(req.GetRunId())
	if err != nil {
		return nil, err
	}
	if _, err := s.getRun(ctx, req.GetRunId()); err != nil {
		return nil, err
	}
	found, err := s.gateway.ListCalls(ctx, &systemv1.ListCallsRequest{Tenant: callerOf(ctx).tenant, RunId: id})
	if err != nil {
		return nil, err
	}
	return &pawlv1.ListRunCallsResponse{Calls: found.GetCalls()}, nil
}

// GetRunCall returns one of the run's calls, with the masked request and the raw answers.
func (s *Service) GetRunCall(ctx context.Context, req *pawlv1.GetRunCallRequest) (*pawlv1.GetRunCallResponse, error) {
	id, err := uuidBytes(req.GetRunId())
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(req.GetCallKey())
	if err != nil { // its form was checked
		return nil, fault.Internal(err)
	}
	if _, err := s.getRun(ctx, req.GetRunId()); err != nil {
		return nil, err
	}
	found, err := s.gateway.GetCall(ctx, &systemv1.GetCallRequest{Tenant: callerOf(ctx).tenant, RunId: id, CallKey: key})
	if err != nil {
		return nil, err
	}
	return &pawlv1.GetRunCallResponse{Call: found.GetCall()}, nil
}
