package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/store/db"
)

// Policy says how a tenant shares the runners with the others.
type Policy struct {
	// Weight is the tenant's share beside others that have work too.
	Weight int
	// MaxSteps is how many of its steps may be dispatched and not finished at once; 0 for no cap.
	MaxSteps int
}

// MaxWeight is the largest weight of a tenant.
const MaxWeight = 1000

// SetTenantPolicy stores a tenant's policy, unless one of that version or of a newer is there. Replicas know of it within
// about a second; until then they dispatch as before.
func (s *Store) SetTenantPolicy(ctx context.Context, tenant string, p Policy, version int64) error {
	err := pg.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		q := db.New(tx)
		stored, err := q.PutTenantPolicy(ctx, db.PutTenantPolicyParams{
			Tenant: tenant, Weight: int32(p.Weight), MaxConcurrentSteps: int32(p.MaxSteps), Version: version,
		})
		if err != nil || stored == 0 || p.MaxSteps == 0 {
			return err
		}
		return q.CountPolicySteps(ctx, tenant)
	})
	if err != nil {
		return fmt.Errorf("store the policy of a tenant: %w", err)
	}
	return s.LoadPolicies(ctx)
}

// LoadPolicies reads the policies of tenants anew. Before it was called, tenants have none.
func (s *Store) LoadPolicies(ctx context.Context) error {
	rows, err := db.New(s.control).ReadTenantPolicies(ctx)
	if err != nil {
		return fmt.Errorf("read policies of tenants: %w", pg.Fault(err))
	}
	policies := make(map[string]Policy, len(rows))
	for _, row := range rows {
		policies[row.Tenant] = Policy{Weight: int(row.Weight), MaxSteps: int(row.MaxConcurrentSteps)}
	}
	s.policies.Store(&policies)
	return nil
}

// policy returns a tenant's policy as far as this replica knows.
func (s *Store) policy(tenant string) Policy {
	if known := s.policies.Load(); known != nil {
		if p, has := (*known)[tenant]; has {
			return p
		}
	}
	return Policy{Weight: 1}
}

// capped returns the tenants that have caps.
func (s *Store) capped() map[string]int {
	caps := map[string]int{}
	if known := s.policies.Load(); known != nil {
		for tenant, p := range *known {
			if p.MaxSteps > 0 {
				caps[tenant] = p.MaxSteps
			}
		}
	}
	return caps
}
