package orchestrator

import (
	"context"
	"fmt"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/orchestrator/store"
)

// SetTenantPolicy says how a tenant shares the runners with the others.
func (s *Service) SetTenantPolicy(ctx context.Context, req *systemv1.SetTenantPolicyRequest) (*systemv1.SetTenantPolicyResponse, error) {
	if req.GetWeight() > store.MaxWeight {
		return nil, fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT,
			fault.Violation{Field: "weight", Message: fmt.Sprintf("must be 1 to %d", store.MaxWeight)})
	}
	policy := store.Policy{Weight: int(req.GetWeight()), MaxSteps: int(req.GetMaxConcurrentSteps())}
	if err := s.store.SetTenantPolicy(ctx, plain(req.GetTenant()), policy, req.GetVersion()); err != nil {
		return nil, err
	}
	return &systemv1.SetTenantPolicyResponse{}, nil
}
