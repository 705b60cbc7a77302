package intake

import (
	"context"
	"encoding/json"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
)

// jobPipeline is the pipeline of which every job is a run.
const jobPipeline = "llm_completion"

// CreateJob accepts a model call as a run of its own pipeline.
func (s *Service) CreateJob(ctx context.Context, req *pawlv1.CreateJobRequest) (*pawlv1.CreateJobResponse, error) {
	if err := s.checkSize(req); err != nil {
		return nil, err
	}
	idempotency, err := idempotency(ctx, pawlv1.JobService_CreateJob_FullMethodName, req)
	if err != nil {
		return nil, err
	}
	created, err := s.submitJob(ctx, req, idempotency)
	if created, err = s.orEarlier(ctx, kindJob, idempotency, created, err); err != nil {
		return nil, err
	}
	status := pawlv1.JobStatus_JOB_STATUS_QUEUED
	if created.GetReplayed() {
		status = pawlv1.JobStatus_JOB_STATUS_DUPLICATE
	}
	return &pawlv1.CreateJobResponse{JobId: created.GetRunId(), Status: status}, nil
}

func (s *Service) submitJob(
	ctx context.Context, req *pawlv1.CreateJobRequest, idempotency *systemv1.Idempotency,
) (*systemv1.CreateRunResponse, error) {
	if err := s.models.check(ctx, req.GetModel()); err != nil {
		return nil, err
	}
	input, err := jobInput(req)
	if err != nil {
		return nil, err
	}
	class := pawlv1.RunClass_RUN_CLASS_INTERACTIVE
	if req.GetBatch() {
		class = pawlv1.RunClass_RUN_CLASS_BATCH
	}
	return s.submit(ctx, submission{
		kind: kindJob, idempotency: idempotency, pipeline: jobPipeline, input: input, class: class,
		callbackURL: req.GetCallbackUrl(),
	})
}

// jobInput is the input of jobPipeline.
func jobInput(req *pawlv1.CreateJobRequest) ([]byte, error) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	input := struct {
		Model     string    `json:"model"`
		Messages  []message `json:"messages"`
		MaxTokens int32     `json:"max_tokens,omitempty"`
	}{Model: req.GetModel(), MaxTokens: req.GetMaxTokens()}
	for _, m := range req.GetMessages() {
		input.Messages = append(input.Messages, message{Role: m.GetRole(), Content: m.GetContent()})
	}
	text, err := json.Marshal(input)
	if err != nil {
		return nil, fault.Internal(err) // texts and numbers always encode
	}
	return text, nil
}

// GetJob returns a job: a run that was started as one.
func (s *Service) GetJob(ctx context.Context, req *pawlv1.GetJobRequest) (*pawlv1.GetJobResponse, error) {
	found, err := s.getRun(ctx, req.GetJobId())
	if fault.Is(err, faultv1.ErrorReason_ERROR_REASON_RUN_NOT_FOUND) || err == nil && found.GetKind() != kindJob {
		return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND, "there is no job %s", req.GetJobId()).
			WithMeta("job_id", req.GetJobId())
	}
	if err != nil {
		return nil, err
	}
	run := found.GetRun()
	return &pawlv1.GetJobResponse{Job: &pawlv1.Job{
		JobId: run.GetRunId(), Status: jobStatus(run.GetStatus()), Result: run.GetResult(),
		Reason: run.GetReason(), Error: run.GetError(), CostSoFarUsd: run.GetCostSoFarUsd(),
		CreatedAt: run.GetCreatedAt(), FinishedAt: run.GetFinishedAt(),
	}}, nil
}

func jobStatus(status pawlv1.RunStatus) pawlv1.JobStatus {
	switch status {
	case pawlv1.RunStatus_RUN_STATUS_QUEUED:
		return pawlv1.JobStatus_JOB_STATUS_QUEUED
	case pawlv1.RunStatus_RUN_STATUS_RUNNING, pawlv1.RunStatus_RUN_STATUS_COMPENSATING:
		return pawlv1.JobStatus_JOB_STATUS_RUNNING
	case pawlv1.RunStatus_RUN_STATUS_NEEDS_REVIEW:
		return pawlv1.JobStatus_JOB_STATUS_NEEDS_REVIEW
	case pawlv1.RunStatus_RUN_STATUS_DONE:
		return pawlv1.JobStatus_JOB_STATUS_DONE
	case pawlv1.RunStatus_RUN_STATUS_FAILED:
		return pawlv1.JobStatus_JOB_STATUS_FAILED
	case pawlv1.RunStatus_RUN_STATUS_CANCELLED:
		return pawlv1.JobStatus_JOB_STATUS_CANCELLED
	default:
		return pawlv1.JobStatus_JOB_STATUS_UNSPECIFIED
	}
}
