package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"pawl.internal/services/intake/store/db"
	"pawl.internal/services/internal/pg"
)

// System is the operators' own tenant: its administrators also manage the others.
const System = "system"

// ErrExists says that there is such a row already.
var ErrExists = errors.New("exists already")

// Limits bound what a tenant may submit and how much of it runs at once. What is nil is as the configuration says.
type Limits struct {
	// SubmitRate is submits in a minute, SubmitBurst submits at once.
	SubmitRate, SubmitBurst *int32
	// MaxQueuedRuns is runs that have not ended.
	MaxQueuedRuns *int64
	// MaxConcurrentSteps is steps that are dispatched and have not ended; there is no limit without one.
	MaxConcurrentSteps *int32
}

// Tenant is somebody who uses the system.
type Tenant struct {
	ID, Name string
	// Weight is its share beside others, in proportion to theirs.
	Weight   int32
	Limits   Limits
	Disabled bool
	// Version grows with every change.
	Version              int64
	CreatedAt, UpdatedAt time.Time
}

// Deed says who changes something, and why.
type Deed struct{ Actor, Reason string }

// EnsureSystem makes the operators' tenant when it is missing.
func (s *Store) EnsureSystem(ctx context.Context) error {
	if err := s.queries.EnsureTenant(ctx, System, "Operators"); err != nil {
		return fmt.Errorf("ensure tenant %s: %w", System, pg.Fault(err))
	}
	return nil
}

// CreateTenant stores a new tenant; ErrExists when its id is taken.
func (s *Store) CreateTenant(ctx context.Context, t Tenant, by Deed) (Tenant, error) {
	var made Tenant
	err := pg.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		q := s.queries.WithTx(tx)
		rows, err := q.InsertTenant(ctx, db.InsertTenantParams{
			ID: t.ID, Name: t.Name, Weight: t.Weight, SubmitRate: t.Limits.SubmitRate, SubmitBurst: t.Limits.SubmitBurst,
			MaxQueuedRuns: t.Limits.MaxQueuedRuns, MaxConcurrentSteps: t.Limits.MaxConcurrentSteps,
		})
		if err != nil {
			return fmt.Errorf("insert tenant: %w", err)
		}
		if rows == 0 {
			return ErrExists
		}
		row, err := q.GetTenant(ctx, t.ID)
		if err != nil {
			return fmt.Errorf("read tenant: %w", err)
		}
		made = tenantOf(row)
		return record(ctx, q, "create_tenant", t.ID, by, nil, made.recorded())
	})
	return made, err
}

// GetTenant returns a tenant; ErrNotFound if there is none.
func (s *Store) GetTenant(ctx context.Context, id string) (Tenant, error) {
	row, err := s.queries.GetTenant(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Tenant{}, ErrNotFound
	}
	if err != nil {
		return Tenant{}, fmt.Errorf("get tenant: %w", pg.Fault(err))
	}
	return tenantOf(row), nil
}

// ListTenants returns tenants by id, those after the given one: the wanted one only, or all if that is "".
func (s *Store) ListTenants(ctx context.Context, wanted, after string, most int32) ([]Tenant, error) {
	rows, err := s.queries.ListTenants(ctx, db.ListTenantsParams{After: after, Wanted: wanted, Most: most})
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", pg.Fault(err))
	}
	tenants := make([]Tenant, len(rows))
	for i, row := range rows {
		tenants[i] = tenantOf(row)
	}
	return tenants, nil
}

// UpdateTenant stores what change makes of a tenant, with nobody else changing it in between; an error of change is
// returned and nothing stored. ErrNotFound if there is no such tenant.
func (s *Store) UpdateTenant(ctx context.Context, id string, by Deed, change func(*Tenant) error) (Tenant, error) {
	var changed Tenant
	err := pg.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		q := s.queries.WithTx(tx)
		row, err := q.LockTenant(ctx, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil {
			return fmt.Errorf("lock tenant: %w", err)
		}
		before := tenantOf(row)
		wanted := before
		if err := change(&wanted); err != nil {
			return err
		}
		row, err = q.UpdateTenant(ctx, db.UpdateTenantParams{
			ID: id, Name: wanted.Name, Weight: wanted.Weight, SubmitRate: wanted.Limits.SubmitRate,
			SubmitBurst: wanted.Limits.SubmitBurst, MaxQueuedRuns: wanted.Limits.MaxQueuedRuns,
			MaxConcurrentSteps: wanted.Limits.MaxConcurrentSteps, Disabled: wanted.Disabled,
		})
		if err != nil {
			return fmt.Errorf("update tenant: %w", err)
		}
		changed = tenantOf(row)
		return record(ctx, q, "update_tenant", id, by, before.recorded(), changed.recorded())
	})
	return changed, err
}

func tenantOf(row db.AccessTenant) Tenant {
	return Tenant{
		ID: row.ID, Name: row.Name, Weight: row.Weight, Disabled: row.Disabled, Version: row.Version,
		CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
		Limits: Limits{
			SubmitRate: row.SubmitRate, SubmitBurst: row.SubmitBurst, MaxQueuedRuns: row.MaxQueuedRuns,
			MaxConcurrentSteps: row.MaxConcurrentSteps,
		},
	}
}

// recorded is the tenant as the record of an action shows it.
func (t Tenant) recorded() map[string]any {
	return map[string]any{
		"name": t.Name, "weight": t.Weight, "disabled": t.Disabled, "version": t.Version,
		"submit_rate": t.Limits.SubmitRate, "submit_burst": t.Limits.SubmitBurst,
		"max_queued_runs": t.Limits.MaxQueuedRuns, "max_concurrent_steps": t.Limits.MaxConcurrentSteps,
	}
}

// record writes down what an administrator does, in the transaction that does it.
func record(ctx context.Context, q *db.Queries, action, tenant string, by Deed, before, after map[string]any) error {
	was, errBefore := asJSON(before)
	is, errAfter := asJSON(after)
	if err := errors.Join(errBefore, errAfter); err != nil {
		return fmt.Errorf("record the action: %w", err)
	}
	err := q.InsertAction(ctx, db.InsertActionParams{
		Actor: by.Actor, Action: action, Tenant: tenant, Before: was, After: is, Reason: by.Reason,
	})
	if err != nil {
		return fmt.Errorf("record the action: %w", err)
	}
	return nil
}

// asJSON is NULL for nothing.
func asJSON(thing map[string]any) ([]byte, error) {
	if thing == nil {
		return nil, nil
	}
	return json.Marshal(thing)
}
