package intake

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"strconv"

	"google.golang.org/protobuf/types/known/timestamppb"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/fault"
)

// tenantForm is what the id of a tenant looks like.
var tenantForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// operates reports whether the caller is one of the operators: an administrator of their own tenant.
func (c caller) operates() bool { return c.tenant == store.System && c.role.Allows(store.RoleAdmin) }

// maySee returns TENANT_NOT_FOUND unless the tenant is the caller's own or the caller is an operator. Whether another
// tenant exists is nobody else's business.
func (c caller) maySee(tenant string) error {
	if c.tenant == tenant || c.operates() && tenantForm.MatchString(tenant) {
		return nil
	}
	return errNoTenant(tenant)
}

// mayChange is maySee for what only operators may do.
func (c caller) mayChange(tenant string) error {
	if err := c.maySee(tenant); err != nil {
		return err
	}
	return c.mustOperate("change a tenant")
}

func (c caller) mustOperate(what string) error {
	if c.operates() {
		return nil
	}
	return fault.New(faultv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
		"only administrators of the tenant %s can %s", store.System, what)
}

// deed is what is recorded of the caller's action.
func (c caller) deed(reason string) store.Deed { return store.Deed{Actor: c.actor(), Reason: reason} }

// CreateTenant makes a tenant.
func (s *Service) CreateTenant(ctx context.Context, req *pawlv1.CreateTenantRequest) (*pawlv1.CreateTenantResponse, error) {
	who := callerOf(ctx)
	if err := who.mustOperate("make a tenant"); err != nil {
		return nil, err
	}
	weight := int32(1)
	if req.Weight != nil {
		weight = req.GetWeight()
	}
	made, err := s.store.CreateTenant(ctx, store.Tenant{
		ID: req.GetTenantId(), Name: cmp.Or(req.GetName(), req.GetTenantId()), Weight: weight,
		Limits: mergeLimits(store.Limits{}, req.GetLimits()),
	}, who.deed(req.GetReason()))
	if errors.Is(err, store.ErrExists) {
		return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS, "there is a tenant %s already", req.GetTenantId()).
			WithMeta("tenant_id", req.GetTenantId())
	}
	if err != nil {
		return nil, err
	}
	s.policies.hurry()
	return &pawlv1.CreateTenantResponse{Tenant: s.tenantOf(made)}, nil
}

// GetTenant returns a tenant.
func (s *Service) GetTenant(ctx context.Context, req *pawlv1.GetTenantRequest) (*pawlv1.GetTenantResponse, error) {
	if err := callerOf(ctx).maySee(req.GetTenantId()); err != nil {
		return nil, err
	}
	found, err := s.store.GetTenant(ctx, req.GetTenantId())
	if err != nil {
		return nil, nameTenant(err, req.GetTenantId())
	}
	return &pawlv1.GetTenantResponse{Tenant: s.tenantOf(found)}, nil
}

// ListTenants returns a page of the tenants: for operators all, for others their own.
func (s *Service) ListTenants(ctx context.Context, req *pawlv1.ListTenantsRequest) (*pawlv1.ListTenantsResponse, error) {
	who := callerOf(ctx)
	after, err := s.pages.open(who.tenant, req)
	if err != nil {
		return nil, err
	}
	wanted := who.tenant
	if who.operates() {
		wanted = ""
	}
	size := pageSize(req.GetPageSize(), defaultPage)
	found, err := s.store.ListTenants(ctx, wanted, after, size+1)
	if err != nil {
		return nil, err
	}
	page, next := &pawlv1.ListTenantsResponse{}, ""
	if len(found) > int(size) {
		found = found[:size]
		next = found[size-1].ID
	}
	for _, each := range found {
		page.Tenants = append(page.Tenants, s.tenantOf(each))
	}
	page.NextPageToken = s.pages.seal(who.tenant, req, next)
	return page, nil
}

// UpdateTenant changes a tenant's name, weight and limits, and whether its keys are refused.
func (s *Service) UpdateTenant(ctx context.Context, req *pawlv1.UpdateTenantRequest) (*pawlv1.UpdateTenantResponse, error) {
	who := callerOf(ctx)
	if err := who.mayChange(req.GetTenantId()); err != nil {
		return nil, err
	}
	if req.GetDisabled() && req.GetTenantId() == store.System {
		return nil, fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT,
			fault.Violation{Field: "disabled", Message: "must not be true for the operators' own tenant"})
	}
	etag, err := etagOf(ctx, req.GetEtag())
	if err != nil {
		return nil, err
	}
	changed, err := s.store.UpdateTenant(ctx, req.GetTenantId(), who.deed(req.GetReason()), func(t *store.Tenant) error {
		if etag != "" && etag != tenantEtag(*t) {
			return fault.New(faultv1.ErrorReason_ERROR_REASON_ETAG_MISMATCH,
				"the tenant has changed since: its etag is %s now, not %s", tenantEtag(*t), etag)
		}
		applyUpdate(t, req)
		return nil
	})
	if err != nil {
		return nil, nameTenant(err, req.GetTenantId())
	}
	s.keys.drop(func(c caller) bool { return c.tenant == changed.ID })
	s.policies.hurry()
	return &pawlv1.UpdateTenantResponse{Tenant: s.tenantOf(changed)}, nil
}

// applyUpdate changes what the request gives.
func applyUpdate(t *store.Tenant, req *pawlv1.UpdateTenantRequest) {
	if req.Name != nil {
		t.Name = req.GetName()
	}
	if req.Weight != nil {
		t.Weight = req.GetWeight()
	}
	if req.Disabled != nil {
		t.Disabled = req.GetDisabled()
	}
	for _, name := range req.GetResetLimits() {
		switch name {
		case "submit_rate":
			t.Limits.SubmitRate = nil
		case "submit_burst":
			t.Limits.SubmitBurst = nil
		case "max_queued_runs":
			t.Limits.MaxQueuedRuns = nil
		case "max_concurrent_steps":
			t.Limits.MaxConcurrentSteps = nil
		}
	}
	t.Limits = mergeLimits(t.Limits, req.GetLimits())
}

// mergeLimits replaces those limits that are given.
func mergeLimits(have store.Limits, given *pawlv1.TenantLimits) store.Limits {
	if given == nil {
		return have
	}
	return store.Limits{
		SubmitRate: cmp.Or(given.SubmitRate, have.SubmitRate), SubmitBurst: cmp.Or(given.SubmitBurst, have.SubmitBurst),
		MaxQueuedRuns:      cmp.Or(given.MaxQueuedRuns, have.MaxQueuedRuns),
		MaxConcurrentSteps: cmp.Or(given.MaxConcurrentSteps, have.MaxConcurrentSteps),
	}
}

// tenantOf is a tenant as the API shows it.
func (s *Service) tenantOf(t store.Tenant) *pawlv1.Tenant {
	holds := s.config.Admission.limitsOf(t.Limits)
	return &pawlv1.Tenant{
		TenantId: t.ID, Name: t.Name, Weight: t.Weight, Disabled: t.Disabled,
		CreatedAt: timestamppb.New(t.CreatedAt), UpdatedAt: timestamppb.New(t.UpdatedAt), Etag: tenantEtag(t),
		Limits: &pawlv1.TenantLimits{
			SubmitRate: t.Limits.SubmitRate, SubmitBurst: t.Limits.SubmitBurst,
			MaxQueuedRuns: t.Limits.MaxQueuedRuns, MaxConcurrentSteps: t.Limits.MaxConcurrentSteps,
		},
		EffectiveLimits: &pawlv1.TenantLimits{
			SubmitRate: new(holds.rate), SubmitBurst: new(holds.burst), MaxQueuedRuns: new(holds.queued),
			MaxConcurrentSteps: t.Limits.MaxConcurrentSteps,
		},
	}
}

func tenantEtag(t store.Tenant) string { return strconv.FormatInt(t.Version, 10) }

// nameTenant says which tenant is not there.
func nameTenant(err error, id string) error {
	if errors.Is(err, store.ErrNotFound) {
		return errNoTenant(id)
	}
	return err
}

func errNoTenant(id string) error {
	return fault.New(faultv1.ErrorReason_ERROR_REASON_TENANT_NOT_FOUND, "there is no tenant %s", id).WithMeta("tenant_id", id)
}
