package orchestrator

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/orchestrator/store"
)

// CreatePipeline stores a version of a pipeline.
func (s *Service) CreatePipeline(ctx context.Context, req *systemv1.CreatePipelineRequest) (*systemv1.CreatePipelineResponse, error) {
	compiled, err := s.store.CompileSource(req.GetSource())
	if err != nil {
		return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_PIPELINE_INVALID, "%s", err.Error())
	}
	stored, created, err := s.store.CreatePipeline(ctx, req.GetTenant(), compiled, req.GetSource(), plain(req.GetCreatedBy()))
	if errors.Is(err, store.ErrPipelineExists) {
		return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_PIPELINE_EXISTS,
			"%s:%s is stored with another content: a version never changes, so give the new content a new version",
			compiled.Name, compiled.Version)
	}
	if err != nil {
		return nil, err
	}
	return &systemv1.CreatePipelineResponse{Pipeline: pipelineProto(stored), Created: created}, nil
}

// GetPipeline returns a version of a pipeline.
func (s *Service) GetPipeline(ctx context.Context, req *systemv1.GetPipelineRequest) (*systemv1.GetPipelineResponse, error) {
	found, err := s.findPipeline(ctx, req)
	if errors.Is(err, store.ErrNoPipeline) {
		what := req.GetName()
		if what == "" {
			what = "with digest " + hex.EncodeToString(req.GetDigest())
		}
		return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_PIPELINE_NOT_FOUND, "there is no pipeline %s", what)
	}
	if err != nil {
		return nil, err
	}
	return &systemv1.GetPipelineResponse{Pipeline: pipelineProto(found)}, nil
}

func (s *Service) findPipeline(ctx context.Context, req *systemv1.GetPipelineRequest) (store.PipelineVersion, error) {
	if digest := req.GetDigest(); len(digest) > 0 {
		if len(digest) != len(store.Digest{}) {
			return store.PipelineVersion{}, store.ErrNoPipeline
		}
		return s.store.FindPipelineByDigest(ctx, req.GetTenant(), store.Digest(digest))
	}
	name, version, _ := strings.Cut(req.GetName(), ":")
	return s.store.FindPipeline(ctx, req.GetTenant(), plain(name), plain(version))
}

// ListPipelines returns a tenant's pipelines without their sources. The page token is the last version's place.
func (s *Service) ListPipelines(ctx context.Context, req *systemv1.ListPipelinesRequest) (*systemv1.ListPipelinesResponse, error) {
	after, err := placeOf(req.GetQuery().GetPageToken())
	if err != nil {
		return nil, err
	}
	most := pageSize(req.GetQuery().GetPageSize())
	versions, err := s.store.ListPipelines(ctx, req.GetTenant(), after, most+1)
	if err != nil {
		return nil, err
	}
	page := &systemv1.ListPipelinesResponse{}
	if len(versions) > most {
		versions = versions[:most]
		last := versions[most-1]
		page.NextPageToken = fmt.Sprintf("%s:%d", last.Name, last.Ordinal)
	}
	for _, v := range versions {
		page.Pipelines = append(page.Pipelines, pipelineProto(v))
	}
	return page, nil
}

func placeOf(token string) (store.PipelinePlace, error) {
	if token == "" {
		return store.PipelinePlace{}, nil
	}
	name, number, _ := strings.Cut(token, ":")
	ordinal, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		return store.PipelinePlace{}, badPageToken()
	}
	return store.PipelinePlace{Name: name, Ordinal: int32(ordinal)}, nil
}

func pipelineProto(v store.PipelineVersion) *pawlv1.Pipeline {
	return &pawlv1.Pipeline{
		Name: v.Name, Version: v.Version, Digest: hex.EncodeToString(v.Digest[:]), Source: v.Source, Steps: v.Steps,
		CreatedAt: timestamppb.New(v.CreatedAt), CreatedBy: v.CreatedBy,
	}
}
