package store

import (
	"context"
	"fmt"

	"pawl.internal/services/intake/store/db"
	"pawl.internal/services/internal/pg"
)

// Policy is what the orchestrator must know of a tenant.
type Policy struct {
	Tenant string
	Weight int32
	// MaxConcurrentSteps is nil without a limit.
	MaxConcurrentSteps *int32
	Version            int64
}

// PoliciesOwed returns policies that the orchestrator has not confirmed yet.
func (s *Store) PoliciesOwed(ctx context.Context, most int32) ([]Policy, error) {
	rows, err := s.queries.ListPoliciesOwed(ctx, most)
	if err != nil {
		return nil, fmt.Errorf("list policies owed: %w", pg.Fault(err))
	}
	owed := make([]Policy, len(rows))
	for i, row := range rows {
		owed[i] = policyOf(row)
	}
	return owed, nil
}

func policyOf(row db.ListPoliciesOwedRow) Policy {
	return Policy{Tenant: row.ID, Weight: row.Weight, MaxConcurrentSteps: row.MaxConcurrentSteps, Version: row.Version}
}

// ConfirmPolicy notes that the orchestrator has a version of a policy.
func (s *Store) ConfirmPolicy(ctx context.Context, tenant string, version int64) error {
	if err := s.queries.ConfirmPolicy(ctx, version, tenant); err != nil {
		return fmt.Errorf("confirm policy: %w", pg.Fault(err))
	}
	return nil
}
