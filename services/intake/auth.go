package intake

import (
	"context"
	"crypto/subtle"
	"errors"
	"strings"

	"google.golang.org/grpc/metadata"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/fault"
)

// caller is who made a call.
type caller struct {
	tenant string
	role   store.Role
	// keyPrefix is the public part of the API key.
	keyPrefix string
	// limits are those that were set for the tenant.
	limits store.Limits
}

// actor names the caller in the journal.
func (c caller) actor() string { return "key:" + c.keyPrefix }

type callerKey struct{}

// callerOf returns who made the call; Authenticate has set it for every method of the API.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// Authenticate identifies the caller by its API key and checks that the key's role allows the method.
//
// Other services that ask whose a key is present none of their own: what they ask about is in the request.
func (s *Service) Authenticate(ctx context.Context, method string) (context.Context, error) {
	if method == systemv1.AccessService_Authenticate_FullMethodName {
		return ctx, nil
	}
	key := presentedKey(ctx)
	if key == "" {
		return nil, unauthenticated("an API key is needed: send it as Authorization: Bearer pawl_…")
	}
	c, err := s.keys.identify(ctx, key)
	if err != nil {
		return nil, err
	}
	if needed := leastRole(method); !c.role.Allows(needed) {
		return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
			"a key with the role %s cannot do this: it takes the role %s", c.role, needed)
	}
	return context.WithValue(ctx, callerKey{}, c), nil
}

// presentedKey is the key that came with the call: as a bearer token, or in x-api-key.
func presentedKey(ctx context.Context) string {
	for _, value := range metadata.ValueFromIncomingContext(ctx, "authorization") {
		scheme, token, _ := strings.Cut(value, " ")
		if strings.EqualFold(scheme, "bearer") {
			return strings.TrimSpace(token)
		}
	}
	if values := metadata.ValueFromIncomingContext(ctx, "x-api-key"); len(values) > 0 {
		return strings.TrimSpace(values[0])
	}
	return ""
}

// leastRole is the role that a method takes. A method that is not listed nobody may call.
func leastRole(method string) store.Role {
	switch method {
	case pawlv1.RunService_GetRun_FullMethodName,
		pawlv1.RunService_ListRuns_FullMethodName,
		pawlv1.RunService_ListRunSteps_FullMethodName,
		pawlv1.RunService_ListRunEvents_FullMethodName,
		pawlv1.RunService_ListRunCalls_FullMethodName,
		pawlv1.RunService_WatchRun_FullMethodName,
		pawlv1.StatsService_GetSpend_FullMethodName,
		pawlv1.StatsService_GetLimits_FullMethodName,
		pawlv1.StatsService_GetBudget_FullMethodName,
		pawlv1.DocumentService_GetDocument_FullMethodName,
		pawlv1.BatchService_GetBatch_FullMethodName,
		pawlv1.BatchService_ListBatches_FullMethodName,
		pawlv1.BatchService_StreamBatchResults_FullMethodName,
		pawlv1.ScheduleService_GetSchedule_FullMethodName,
		pawlv1.ScheduleService_ListSchedules_FullMethodName,
		pawlv1.JobService_GetJob_FullMethodName,
		pawlv1.PipelineService_ValidatePipeline_FullMethodName,
		pawlv1.PipelineService_GetPipeline_FullMethodName,
		pawlv1.PipelineService_ListPipelines_FullMethodName:
		return store.RoleViewer
	case pawlv1.RunService_CreateRun_FullMethodName,
		pawlv1.RunService_CancelRun_FullMethodName,
		pawlv1.BatchService_CreateBatch_FullMethodName,
		pawlv1.BatchService_UploadBatch_FullMethodName,
		pawlv1.BatchService_CancelBatch_FullMethodName,
		pawlv1.RunService_PromoteRun_FullMethodName,
		pawlv1.DocumentService_CreateDocument_FullMethodName,
		pawlv1.DocumentService_ExtractDocument_FullMethodName,
		pawlv1.JobService_CreateJob_FullMethodName:
		return store.RoleClient
	case pawlv1.RunService_RetryRun_FullMethodName,
		pawlv1.BatchService_PauseBatch_FullMethodName,
		pawlv1.BatchService_ResumeBatch_FullMethodName,
		pawlv1.BatchService_RetryFailedItems_FullMethodName,
		pawlv1.RunService_GetRunCall_FullMethodName,
		pawlv1.RunService_RerunRun_FullMethodName,
		pawlv1.ScheduleService_CreateSchedule_FullMethodName,
		pawlv1.ScheduleService_PauseSchedule_FullMethodName,
		pawlv1.ScheduleService_ResumeSchedule_FullMethodName,
		pawlv1.ScheduleService_DeleteSchedule_FullMethodName,
		pawlv1.PipelineService_CreatePipeline_FullMethodName:
		return store.RoleOperator
	case pawlv1.StatsService_SetBudget_FullMethodName,
		pawlv1.TenantService_CreateTenant_FullMethodName,
		pawlv1.TenantService_GetTenant_FullMethodName,
		pawlv1.TenantService_ListTenants_FullMethodName,
		pawlv1.TenantService_UpdateTenant_FullMethodName,
		pawlv1.TenantService_CreateKey_FullMethodName,
		pawlv1.TenantService_ListKeys_FullMethodName,
		pawlv1.TenantService_RevokeKey_FullMethodName,
		pawlv1.TenantService_RotateKey_FullMethodName:
		return store.RoleAdmin
	default:
		return ""
	}
}

// verify turns a stored key into the caller that it stands for, or into the refusal of the key that was presented.
func verify(found store.Key, err error, digest keyDigest) (caller, error) {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return caller{}, errUnknownKey()
	case err != nil:
		return caller{}, err
	case subtle.ConstantTimeCompare(found.Hash, digest[:]) != 1:
		return caller{}, errUnknownKey()
	case found.Revoked:
		return caller{}, unauthenticated("the API key pawl_%s_… has been revoked", found.Prefix)
	case found.Expired:
		return caller{}, unauthenticated("the API key pawl_%s_… has expired", found.Prefix)
	case found.Disabled:
		return caller{}, unauthenticated("the tenant of the API key pawl_%s_… is disabled", found.Prefix)
	}
	return caller{tenant: found.Tenant, role: found.Role, keyPrefix: found.Prefix, limits: found.Limits}, nil
}

// opens reports whether the key that was stored is the presented one and is valid.
func opens(found store.Key, digest keyDigest) bool {
	_, err := verify(found, nil, digest)
	return err == nil
}

func errUnknownKey() error { return unauthenticated("there is no such API key") }

func unauthenticated(format string, args ...any) *fault.Error {
	return fault.New(faultv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED, format, args...)
}
