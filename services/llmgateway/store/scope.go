package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway/store/db"
)

// forgetMost is how many scopes are removed by one statement.
const forgetMost = 1000

// Scope is what an idempotency key of a question outside of runs stands for.
type Scope struct {
	Tenant, Key string
	// ID stands in the place of a run's.
	ID uuid.UUID
	// Digest is that of the question.
	Digest [32]byte
}

// TakeScope takes a key for the scope and keeps it so long, or returns the scope that has the key. It is on disk before
// anything is sent under it: whoever comes back with the key finds the same calls.
func (s *Store) TakeScope(ctx context.Context, scope Scope, keep time.Duration) (Scope, error) {
	query := db.New(s.pool)
	for {
		taken, err := query.PutScope(ctx, db.PutScopeParams{
			Tenant: scope.Tenant, Key: scope.Key, ScopeID: scope.ID, RequestDigest: scope.Digest[:], Keep: keep,
		})
		if err != nil {
			return Scope{}, fmt.Errorf("take scope: %w", pg.Fault(err))
		}
		if taken > 0 {
			failpoint.Hit("gateway.scope.taken")
			return scope, nil
		}
		found, err := query.FindScope(ctx, scope.Tenant, scope.Key)
		if errors.Is(err, pgx.ErrNoRows) { // it has just been forgotten
			continue
		}
		if err != nil {
			return Scope{}, fmt.Errorf("find scope: %w", pg.Fault(err))
		}
		scope.ID, scope.Digest = found.ScopeID, [32]byte(found.RequestDigest)
		return scope, nil
	}
}

// ForgetScopes removes the scopes whose time is over, a few at a time.
func (s *Store) ForgetScopes(ctx context.Context) error {
	for {
		n, err := db.New(s.control).ForgetScopes(ctx, forgetMost)
		if err != nil {
			return fmt.Errorf("forget scopes: %w", pg.Fault(err))
		}
		if n < forgetMost {
			return nil
		}
	}
}
