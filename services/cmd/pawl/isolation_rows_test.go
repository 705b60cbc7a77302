package main

import (
	"strings"

	"google.golang.org/protobuf/proto"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/intake/store"
)

// outcome is what somebody gets who asks with another tenant's ids.
type outcome string

const (
	// notFound: there is no such thing.
	notFound outcome = "NOT_FOUND"
	// empty: a list without items.
	empty outcome = "an empty list"
	// own: what is the caller's own, or made for it, or nobody's; there is nothing of the other tenant in it.
	own outcome = "the caller's own"
	// denied: only operators may.
	denied outcome = "PERMISSION_DENIED"
)

// row says how a method of the public API is asked with another tenant's ids, which role it takes, and what must come of it.
type row struct {
	role store.Role
	want outcome
	ask  func(theirs foreign) proto.Message
	// more are the messages after the first of a method that takes a stream.
	more func(theirs foreign) []proto.Message
}

// foreign is the ids of the tenant whose things are asked for.
type foreign struct {
	tenant, run, document, job, batch, callKey, pipeline, schedule, prefix, idempotencyKey string
}

// rows has every method of every service of pawl.v1: one that is missing fails the test.
func rows() map[string]row {
	const viewer, client, operator, admin = store.RoleViewer, store.RoleClient, store.RoleOperator, store.RoleAdmin
	input := &pawlv1.JsonValue{Json: `{"text":"x"}`}
	return map[string]row{
		"RunService/CreateRun": {client, notFound, func(t foreign) proto.Message {
			return &pawlv1.CreateRunRequest{Pipeline: t.pipeline, Input: input, IdempotencyKey: t.idempotencyKey + "-run"}
		}, nil},
		"RunService/GetRun":       {viewer, notFound, func(t foreign) proto.Message { return &pawlv1.GetRunRequest{RunId: t.run} }, nil},
		"RunService/ListRuns":     {viewer, empty, func(t foreign) proto.Message { return &pawlv1.ListRunsRequest{Pipeline: "document_extract"} }, nil},
		"RunService/ListRunSteps": {viewer, notFound, func(t foreign) proto.Message { return &pawlv1.ListRunStepsRequest{RunId: t.run} }, nil},
		"RunService/ListRunEvents": {viewer, notFound, func(t foreign) proto.Message {
			return &pawlv1.ListRunEventsRequest{RunId: t.run}
		}, nil},
		"RunService/ListRunCalls": {viewer, notFound, func(t foreign) proto.Message { return &pawlv1.ListRunCallsRequest{RunId: t.job} }, nil},
		"RunService/GetRunCall": {operator, notFound, func(t foreign) proto.Message {
			return &pawlv1.GetRunCallRequest{RunId: t.job, CallKey: t.callKey}
		}, nil},
		"RunService/WatchRun":  {viewer, notFound, func(t foreign) proto.Message { return &pawlv1.WatchRunRequest{RunId: t.run} }, nil},
		"RunService/CancelRun": {client, notFound, func(t foreign) proto.Message { return &pawlv1.CancelRunRequest{RunId: t.run} }, nil},
		"RunService/RetryRun": {operator, notFound, func(t foreign) proto.Message {
			return &pawlv1.RetryRunRequest{RunId: t.run, Reason: "x"}
		}, nil},
		"RunService/RerunRun": {operator, notFound, func(t foreign) proto.Message {
			return &pawlv1.RerunRunRequest{RunId: t.run, FromStep: "sections", Reason: "x"}
		}, nil},
		"RunService/PromoteRun": {client, notFound, func(t foreign) proto.Message { return &pawlv1.PromoteRunRequest{RunId: t.run} }, nil},

		"DocumentService/CreateDocument": {client, own, func(t foreign) proto.Message {
			return &pawlv1.CreateDocumentRequest{Text: "mine", IdempotencyKey: t.idempotencyKey}
		}, nil},
		"DocumentService/GetDocument": {viewer, notFound, func(t foreign) proto.Message {
			return &pawlv1.GetDocumentRequest{DocumentId: t.document}
		}, nil},
		"DocumentService/ExtractDocument": {client, notFound, func(t foreign) proto.Message {
			return &pawlv1.ExtractDocumentRequest{DocumentId: t.document, IdempotencyKey: t.idempotencyKey + "-run"}
		}, nil},

		"JobService/CreateJob": {client, notFound, func(t foreign) proto.Message {
			return &pawlv1.CreateJobRequest{
				Model: "default", Messages: []*pawlv1.ChatMessage{{Role: "user", Content: "mine"}}, IdempotencyKey: t.idempotencyKey + "-job",
			}
		}, nil},
		"JobService/GetJob": {viewer, notFound, func(t foreign) proto.Message { return &pawlv1.GetJobRequest{JobId: t.job} }, nil},

		"PipelineService/CreatePipeline": {operator, own, func(t foreign) proto.Message {
			return &pawlv1.CreatePipelineRequest{Pipeline: &pawlv1.CreatePipelineRequest_Source{Source: aPipeline("mine")}}
		}, nil},
		"PipelineService/ValidatePipeline": {viewer, own, func(t foreign) proto.Message {
			return &pawlv1.ValidatePipelineRequest{Pipeline: &pawlv1.ValidatePipelineRequest_Source{Source: aPipeline("mine")}}
		}, nil},
		"PipelineService/GetPipeline": {viewer, notFound, func(t foreign) proto.Message {
			return &pawlv1.GetPipelineRequest{Name: t.pipeline}
		}, nil},
		"PipelineService/ListPipelines": {viewer, own, func(t foreign) proto.Message { return &pawlv1.ListPipelinesRequest{} }, nil},

		"StatsService/GetSpend":  {viewer, notFound, func(t foreign) proto.Message { return &pawlv1.GetSpendRequest{Tenant: t.tenant} }, nil},
		"StatsService/GetLimits": {viewer, own, func(t foreign) proto.Message { return &pawlv1.GetLimitsRequest{} }, nil},
		"StatsService/GetBudget": {viewer, notFound, func(t foreign) proto.Message { return &pawlv1.GetBudgetRequest{Tenant: t.tenant} }, nil},
		"StatsService/SetBudget": {admin, notFound, func(t foreign) proto.Message {
			return &pawlv1.SetBudgetRequest{Tenant: t.tenant, MonthUsd: proto.String("1")}
		}, nil},

		"ScheduleService/CreateSchedule": {operator, notFound, func(t foreign) proto.Message {
			return &pawlv1.CreateScheduleRequest{Schedule: aSchedule(t)}
		}, nil},
		"ScheduleService/GetSchedule": {viewer, notFound, func(t foreign) proto.Message {
			return &pawlv1.GetScheduleRequest{Name: t.schedule}
		}, nil},
		"ScheduleService/ListSchedules": {viewer, empty, func(t foreign) proto.Message { return &pawlv1.ListSchedulesRequest{} }, nil},
		"ScheduleService/PauseSchedule": {operator, notFound, func(t foreign) proto.Message {
			return &pawlv1.PauseScheduleRequest{Name: t.schedule}
		}, nil},
		"ScheduleService/ResumeSchedule": {operator, notFound, func(t foreign) proto.Message {
			return &pawlv1.ResumeScheduleRequest{Name: t.schedule}
		}, nil},
		"ScheduleService/DeleteSchedule": {operator, own, func(t foreign) proto.Message {
			return &pawlv1.DeleteScheduleRequest{Name: t.schedule}
		}, nil},

		"TenantService/CreateTenant": {admin, denied, func(t foreign) proto.Message {
			return &pawlv1.CreateTenantRequest{TenantId: t.tenant}
		}, nil},
		"TenantService/GetTenant":   {admin, notFound, func(t foreign) proto.Message { return &pawlv1.GetTenantRequest{TenantId: t.tenant} }, nil},
		"TenantService/ListTenants": {admin, own, func(t foreign) proto.Message { return &pawlv1.ListTenantsRequest{} }, nil},
		"TenantService/UpdateTenant": {admin, notFound, func(t foreign) proto.Message {
			return &pawlv1.UpdateTenantRequest{TenantId: t.tenant, Weight: proto.Int32(9), Reason: "x"}
		}, nil},
		"TenantService/CreateKey": {admin, notFound, func(t foreign) proto.Message {
			return &pawlv1.CreateKeyRequest{TenantId: t.tenant, Role: pawlv1.KeyRole_KEY_ROLE_ADMIN}
		}, nil},
		"TenantService/ListKeys": {admin, notFound, func(t foreign) proto.Message { return &pawlv1.ListKeysRequest{TenantId: t.tenant} }, nil},
		"TenantService/RevokeKey": {admin, notFound, func(t foreign) proto.Message {
			return &pawlv1.RevokeKeyRequest{TenantId: t.tenant, Prefix: t.prefix, Reason: "x"}
		}, nil},
		"TenantService/RotateKey": {admin, notFound, func(t foreign) proto.Message {
			return &pawlv1.RotateKeyRequest{TenantId: t.tenant, Prefix: t.prefix}
		}, nil},

		"BatchService/CreateBatch": {client, notFound, func(t foreign) proto.Message { return aBatch(t) }, nil},
		"BatchService/UploadBatch": {client, notFound, func(t foreign) proto.Message {
			return &pawlv1.UploadBatchRequest{Part: &pawlv1.UploadBatchRequest_Batch{Batch: aBatch(t).GetBatch()}}
		}, func(t foreign) []proto.Message {
			return []proto.Message{&pawlv1.UploadBatchRequest{Part: &pawlv1.UploadBatchRequest_Item{Item: aBatch(t).GetItems()[0]}}}
		}},
		"BatchService/GetBatch":    {viewer, notFound, func(t foreign) proto.Message { return &pawlv1.GetBatchRequest{BatchId: t.batch} }, nil},
		"BatchService/ListBatches": {viewer, empty, func(t foreign) proto.Message { return &pawlv1.ListBatchesRequest{} }, nil},
		"BatchService/StreamBatchResults": {viewer, notFound, func(t foreign) proto.Message {
			return &pawlv1.StreamBatchResultsRequest{BatchId: t.batch}
		}, nil},
		"BatchService/CancelBatch": {client, notFound, func(t foreign) proto.Message { return &pawlv1.CancelBatchRequest{BatchId: t.batch} }, nil},
		"BatchService/PauseBatch":  {operator, notFound, func(t foreign) proto.Message { return &pawlv1.PauseBatchRequest{BatchId: t.batch} }, nil},
		"BatchService/ResumeBatch": {operator, notFound, func(t foreign) proto.Message { return &pawlv1.ResumeBatchRequest{BatchId: t.batch} }, nil},
		"BatchService/RetryFailedItems": {operator, notFound, func(t foreign) proto.Message {
			return &pawlv1.RetryFailedItemsRequest{BatchId: t.batch, Reason: "x"}
		}, nil},
	}
}

// byHand are the REST routes that no proto file has, with the method that they are twins of.
func byHand() map[string]string {
	return map[string]string{
		"GET /v1/runs/{run_id}:watch": "RunService/WatchRun", "GET /runs/{run_id}:watch": "RunService/WatchRun",
		"POST /v1/batches:upload": "BatchService/UploadBatch", "GET /v1/batches/{batch_id}/results": "BatchService/StreamBatchResults",
	}
}

func aPipeline(name string) string {
	return "name: " + name + "\nversion: v1\nsteps:\n  - {name: only, transform: 1}\n"
}

func aSchedule(t foreign) *pawlv1.Schedule {
	return &pawlv1.Schedule{Name: "yearly", Cron: "0 0 1 1 *", Run: &pawlv1.CreateRunRequest{
		Pipeline: t.pipeline, Input: &pawlv1.JsonValue{Json: `{"text":"x"}`},
	}}
}

func aBatch(t foreign) *pawlv1.CreateBatchRequest {
	return &pawlv1.CreateBatchRequest{
		Batch: &pawlv1.BatchHeader{Pipeline: t.pipeline, IdempotencyKey: t.idempotencyKey + "-batch"},
		Items: []*pawlv1.BatchItem{{CustomId: "1", Input: &pawlv1.JsonValue{Json: `{"text":"` + strings.Repeat("x", 8) + `"}`}}},
	}
}
