package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/store/db"
)

// ReadRun returns the head of a tenant's run, or ErrNoRun.
func (s *Store) ReadRun(ctx context.Context, tenant string, id uuid.UUID) (*db.ReadRunRow, error) {
	row, err := s.read().ReadRun(ctx, id, tenant)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNoRun
	}
	if err != nil {
		return nil, fmt.Errorf("read run %s: %w", id, pg.Fault(err))
	}
	return &row, nil
}

// ReadOutput returns the output of a step of a run, as other steps are given it.
func (s *Store) ReadOutput(ctx context.Context, run uuid.UUID, step string) ([]byte, error) {
	given, err := s.Give(ctx, []Wanted{{Ref: OfRun(run), Inputs: Inputs{Steps: []string{step}}}})
	if err != nil {
		return nil, err
	}
	return given[0].Outputs[step], nil
}
