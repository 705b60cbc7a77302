package intake_test

import (
	"context"
	"maps"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
)

// shares is the part of the fake orchestrator that is about tenants: their policies, and their backlog.
type shares struct {
	policies map[string]*systemv1.SetTenantPolicyRequest
	backlog  []*systemv1.GetBacklogResponse_Backlog
	asked    int
	deaf     error
}

// SetTenantPolicy keeps the newest version.
func (o *orchestrator) SetTenantPolicy(_ context.Context, req *systemv1.SetTenantPolicyRequest) (*systemv1.SetTenantPolicyResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.deaf != nil {
		return nil, o.deaf
	}
	if o.policies == nil {
		o.policies = map[string]*systemv1.SetTenantPolicyRequest{}
	}
	if o.policies[req.GetTenant()].GetVersion() < req.GetVersion() {
		o.policies[req.GetTenant()] = req
	}
	return &systemv1.SetTenantPolicyResponse{}, nil
}

// GetBacklog tells what the test has set.
func (o *orchestrator) GetBacklog(context.Context, *systemv1.GetBacklogRequest) (*systemv1.GetBacklogResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.deaf != nil {
		return nil, o.deaf
	}
	o.asked++
	return &systemv1.GetBacklogResponse{Backlog: o.backlog}, nil
}

// setDeaf keeps the orchestrator from hearing of policies, and telling of the backlog; nil ends it.
func (o *orchestrator) setDeaf(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deaf = err
}

// knownPolicies are the policies that arrived, by tenant.
func (o *orchestrator) knownPolicies() map[string]*systemv1.SetTenantPolicyRequest {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.policies)
}

// setBacklog sets the unfinished runs of a tenant in a class, and returns how often the backlog had been asked for.
func (o *orchestrator) setBacklog(tenant string, class pawlv1.RunClass, unfinished int64) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.backlog = append(o.backlog, &systemv1.GetBacklogResponse_Backlog{Tenant: tenant, Class: class, Unfinished: unfinished})
	return o.asked
}

// timesAsked is how often the backlog was asked for.
func (o *orchestrator) timesAsked() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked
}
