package intake

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/pipeline"
)

// CreatePipeline checks a pipeline and stores it.
func (s *Service) CreatePipeline(
	ctx context.Context, req *pawlv1.CreatePipelineRequest,
) (*pawlv1.CreatePipelineResponse, error) {
	if err := s.checkSize(req); err != nil {
		return nil, err
	}
	source, problems, err := s.check(req)
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		return nil, errPipeline(problems)
	}
	who := callerOf(ctx)
	stored, err := s.orchestrator.CreatePipeline(ctx,
		&systemv1.CreatePipelineRequest{Tenant: who.tenant, Source: source, CreatedBy: who.actor()})
	if err != nil {
		return nil, err
	}
	s.catalog.forget(who.tenant, stored.GetPipeline().GetName())
	return &pawlv1.CreatePipelineResponse{Pipeline: stored.GetPipeline(), Created: stored.GetCreated()}, nil
}

// ValidatePipeline checks a pipeline.
func (s *Service) ValidatePipeline(
	_ context.Context, req *pawlv1.ValidatePipelineRequest,
) (*pawlv1.ValidatePipelineResponse, error) {
	if err := s.checkSize(req); err != nil {
		return nil, err
	}
	_, problems, err := s.check(req)
	if err != nil {
		return nil, err
	}
	answer := &pawlv1.ValidatePipelineResponse{Valid: len(problems) == 0}
	for _, p := range problems {
		answer.Problems = append(answer.Problems, &pawlv1.PipelineProblem{
			Path: p.Path, Line: int32(p.Line), Column: int32(p.Column), Message: p.Message,
		})
	}
	return answer, nil
}

// pipelineBearer is a request that carries a pipeline as text or as a message.
type pipelineBearer interface {
	GetSource() string
	GetSpec() *pawlv1.PipelineSpec
	GetFileName() string
}

// check compiles a pipeline and returns the text to store, and what is wrong with it.
func (s *Service) check(req pipelineBearer) (source string, problems pipeline.Problems, err error) {
	if req.GetSpec() != nil {
		return s.checkSpec(req)
	}
	source = req.GetSource()
	problems, err = s.compile(req.GetFileName(), source)
	return source, problems, err
}

// checkSpec stores a message as JSON. The caller has not seen that text, so places in it say nothing.
func (s *Service) checkSpec(req pipelineBearer) (string, pipeline.Problems, error) {
	source, err := pipeline.Source(req.GetSpec())
	if err != nil {
		return "", nil, fault.Internal(err)
	}
	problems, err := s.compile(req.GetFileName(), string(source))
	for i := range problems {
		problems[i].Position = pipeline.Position{}
		problems[i].Path = strings.TrimSuffix("spec."+problems[i].Path, ".")
	}
	return string(source), problems, err
}

func (s *Service) compile(file, source string) (pipeline.Problems, error) {
	_, err := s.compiler.Compile(file, []byte(source))
	if problems, ok := errors.AsType[pipeline.Problems](err); ok {
		return problems, nil
	}
	return nil, err
}

// errPipeline refuses a pipeline with all its problems.
func errPipeline(problems pipeline.Problems) error {
	violations := make([]fault.Violation, len(problems))
	for i, p := range problems {
		violations[i] = fault.Violation{Field: p.Path, Message: p.Message}
		if p.Line > 0 {
			violations[i].Message += fmt.Sprintf(" (line %d, column %d)", p.Line, p.Column)
		}
	}
	return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_PIPELINE_INVALID, violations...)
}

// GetPipeline returns a stored version.
func (s *Service) GetPipeline(ctx context.Context, req *pawlv1.GetPipelineRequest) (*pawlv1.GetPipelineResponse, error) {
	found, err := s.orchestrator.GetPipeline(ctx, &systemv1.GetPipelineRequest{
		Tenant: callerOf(ctx).tenant, Selector: &systemv1.GetPipelineRequest_Name{Name: req.GetName()},
	})
	if err != nil {
		return nil, err
	}
	return &pawlv1.GetPipelineResponse{Pipeline: found.GetPipeline()}, nil
}

// ListPipelines returns a page of the tenant's pipelines.
func (s *Service) ListPipelines(
	ctx context.Context, req *pawlv1.ListPipelinesRequest,
) (*pawlv1.ListPipelinesResponse, error) {
	tenant := callerOf(ctx).tenant
	token, err := s.pages.open(tenant, req)
	if err != nil {
		return nil, err
	}
	query := proto.CloneOf(req)
	query.PageSize, query.PageToken = pageSize(req.GetPageSize(), defaultPage), token
	page, err := s.orchestrator.ListPipelines(ctx, &systemv1.ListPipelinesRequest{Tenant: tenant, Query: query})
	if err != nil {
		return nil, err
	}
	return &pawlv1.ListPipelinesResponse{
		Pipelines: page.GetPipelines(), NextPageToken: s.pages.seal(tenant, req, page.GetNextPageToken()),
	}, nil
}
