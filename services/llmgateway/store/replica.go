package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway/store/db"
)

// RenewLease lengthens a holder's lease to the given time from now, and returns how many other holders there are.
func (s *Store) RenewLease(ctx context.Context, holder uuid.UUID, description string, lease time.Duration) (others int, err error) {
	n, err := db.New(s.control).RenewLease(ctx, db.RenewLeaseParams{Holder: holder, Description: description, Lease: lease})
	if err != nil {
		return 0, fmt.Errorf("renew lease: %w", pg.Fault(err))
	}
	return int(n), nil
}

// EndLease ends a holder's lease. It must have nothing in flight any more.
func (s *Store) EndLease(ctx context.Context, holder uuid.UUID) error {
	if err := db.New(s.control).EndLease(ctx, holder); err != nil {
		return fmt.Errorf("end lease: %w", pg.Fault(err))
	}
	return nil
}

// Orphan is a request in flight whose holder's lease has run out.
type Orphan struct {
	Key   Key
	TryNo int32
}

// FindOrphans returns up to most requests in flight whose holders' leases have run out.
func (s *Store) FindOrphans(ctx context.Context, most int) ([]Orphan, error) {
	rows, err := db.New(s.control).FindOrphans(ctx, int32(most))
	if err != nil {
		return nil, fmt.Errorf("find orphans: %w", pg.Fault(err))
	}
	orphans := make([]Orphan, len(rows))
	for i, r := range rows {
		orphans[i] = Orphan{Key: Key{RunID: r.RunID, Digest: [32]byte(r.CallKey)}, TryNo: r.TryNo}
	}
	return orphans, nil
}

// ForgetReplicas removes holders that are long gone. Until then they are looked at again and again: a request that was
// recorded under a lease may have been committed after it.
func (s *Store) ForgetReplicas(ctx context.Context) error {
	if err := db.New(s.control).ForgetReplicas(ctx); err != nil {
		return fmt.Errorf("forget replicas: %w", pg.Fault(err))
	}
	return nil
}
