package rest

import (
	"context"
	"net/http"
	"strconv"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"

	pawlv1 "pawl.internal/gen/pawl/v1"
)

// pollSeconds is the hint to callers that poll: a run takes seconds, and watching it is cheaper.
const pollSeconds = 1

const replayedHeader = "Idempotency-Replayed"

// describeAnswer sets the status and headers that follow from an answer; grpc-gateway calls it before the body.
func describeAnswer(ctx context.Context, w http.ResponseWriter, m proto.Message) error {
	w.Header().Set("Cache-Control", "no-store")
	setLimits(ctx, w)
	// Where the answer's body is a field of the message, m is a wrapper around it.
	switch answer := m.ProtoReflect().Interface().(type) {
	case *pawlv1.CreateRunResponse:
		accepted(w, "/v1/runs/"+answer.GetRunId(), answer.GetReplayed())
	case *pawlv1.ExtractDocumentResponse:
		accepted(w, "/v1/runs/"+answer.GetRunId(), answer.GetReplayed())
	case *pawlv1.CreateJobResponse:
		accepted(w, "/v1/jobs/"+answer.GetJobId(), answer.GetStatus() == pawlv1.JobStatus_JOB_STATUS_DUPLICATE)
	case *pawlv1.CreateDocumentResponse:
		created(w, "/v1/documents/"+answer.GetDocumentId(), !answer.GetReplayed())
	case *pawlv1.CreatePipelineResponse:
		pipeline := answer.GetPipeline()
		created(w, "/v1/pipelines/"+pipeline.GetName()+":"+pipeline.GetVersion(), answer.GetCreated())
	case *pawlv1.CreateTenantResponse:
		tagTenant(w, answer.GetTenant())
		created(w, tenantPath(answer.GetTenant().GetTenantId()), true)
	case *pawlv1.CreateKeyResponse:
		created(w, tenantPath(answer.GetKey().GetTenantId())+"/keys", true)
	case *pawlv1.RotateKeyResponse:
		created(w, tenantPath(answer.GetKey().GetTenantId())+"/keys", true)
	case interface{ GetTenant() *pawlv1.Tenant }:
		tagTenant(w, answer.GetTenant())
	case *pawlv1.CreateBatchResponse:
		accepted(w, batchPath(answer.GetBatchId()), answer.GetReplayed())
	case *pawlv1.UploadBatchResponse:
		accepted(w, batchPath(answer.GetBatchId()), answer.GetReplayed())
	case interface{ GetBatch() *pawlv1.Batch }:
		describeBatch(w, answer.GetBatch())
	case interface{ GetRun() *pawlv1.Run }:
		describeRun(ctx, w, answer.GetRun())
	case interface{ GetJob() *pawlv1.Job }:
		hintPoll(w, !jobEnded(answer.GetJob().GetStatus()))
	}
	return nil
}

// setLimits hands on how the caller's limits stand, where the handler has told.
func setLimits(ctx context.Context, w http.ResponseWriter) {
	told, _ := runtime.ServerMetadataFromContext(ctx)
	for name, key := range map[string]string{"RateLimit": "ratelimit", "RateLimit-Policy": "ratelimit-policy"} {
		if values := told.HeaderMD.Get(key); len(values) > 0 {
			w.Header().Set(name, values[len(values)-1])
		}
	}
}

// accepted answers 202: the thing exists, and its work goes on without the caller.
func accepted(w http.ResponseWriter, location string, replayed bool) {
	w.Header().Set("Location", location)
	markReplayed(w, replayed)
	hintPoll(w, true)
	w.WriteHeader(http.StatusAccepted)
}

// created answers 201 for what is new, and 200 for what was there.
func created(w http.ResponseWriter, location string, isNew bool) {
	w.Header().Set("Location", location)
	markReplayed(w, !isNew)
	if isNew {
		w.WriteHeader(http.StatusCreated)
	}
}

func tagTenant(w http.ResponseWriter, tenant *pawlv1.Tenant) {
	w.Header().Set("ETag", strconv.Quote(tenant.GetEtag()))
}

func tenantPath(id string) string { return "/v1/tenants/" + id }

func markReplayed(w http.ResponseWriter, replayed bool) {
	if replayed {
		w.Header().Set(replayedHeader, "true")
	}
}

func hintPoll(w http.ResponseWriter, unfinished bool) {
	if unfinished {
		w.Header().Set("Retry-After", strconv.Itoa(pollSeconds))
	}
}

func batchPath(id string) string { return "/v1/batches/" + id }

// describeBatch adds the batch's tag. It changes with decisions only, and not with the counts, so nobody is told that there is
// nothing new.
func describeBatch(w http.ResponseWriter, batch *pawlv1.Batch) {
	hintPoll(w, batch.GetFinishedAt() == nil)
	if batch.GetEtag() != "" {
		w.Header().Set("ETag", strconv.Quote(batch.GetEtag()))
	}
}

// describeRun adds the run's tag, and answers 304 to a caller who has that state already; grpc-gateway's attempt to write
// the body then comes to nothing.
func describeRun(ctx context.Context, w http.ResponseWriter, run *pawlv1.Run) {
	hintPoll(w, !runEnded(run.GetStatus()))
	if run.GetEtag() == "" {
		return
	}
	tag := strconv.Quote(run.GetEtag())
	w.Header().Set("ETag", tag)
	if exchangeOf(ctx).ifNoneMatch == tag {
		w.Header().Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
	}
}

func runEnded(status pawlv1.RunStatus) bool {
	return status == pawlv1.RunStatus_RUN_STATUS_DONE || status == pawlv1.RunStatus_RUN_STATUS_FAILED ||
		status == pawlv1.RunStatus_RUN_STATUS_CANCELLED
}

func jobEnded(status pawlv1.JobStatus) bool {
	return status == pawlv1.JobStatus_JOB_STATUS_DONE || status == pawlv1.JobStatus_JOB_STATUS_FAILED ||
		status == pawlv1.JobStatus_JOB_STATUS_CANCELLED
}
