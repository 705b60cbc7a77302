package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"pawl.internal/services/intake/store/db"
	"pawl.internal/services/internal/pg"
)

// Rotation is how a key is replaced.
type Rotation struct {
	// Prefix and Hash are the new key's.
	Prefix string
	Hash   []byte
	// Overlap is how long the old key stays valid.
	Overlap time.Duration
	// Expiry is the new key's; nil for as long as the old one was made for.
	Expiry *Expiry
}

// RotateKey makes a key with the role and note of another one, which expires after the overlap. ErrNotFound when the tenant
// has no such key, ErrEnded when that is not valid any more.
func (s *Store) RotateKey(ctx context.Context, tenant, prefix string, r Rotation, by Deed) (fresh, old KeyInfo, err error) {
	err = pg.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		q := s.queries.WithTx(tx)
		row, err := q.LockKey(ctx, tenant, prefix)
		if err != nil {
			return missing(err)
		}
		now, err := q.Now(ctx)
		if err != nil {
			return fmt.Errorf("read the clock: %w", err)
		}
		before := infoOf(row)
		if before.ended(now) {
			return ErrEnded
		}
		key := NewKey{Prefix: r.Prefix, Hash: r.Hash, Tenant: tenant, Role: before.Role, Note: before.Note}
		key.Expiry = before.sameLife()
		if r.Expiry != nil {
			key.Expiry = *r.Expiry
		}
		if fresh, err = insertKey(ctx, q, key, by); err != nil {
			return err
		}
		if err := q.EndKey(ctx, db.EndKeyParams{Until: new(now.Add(r.Overlap)), Tenant: tenant, Prefix: prefix}); err != nil {
			return fmt.Errorf("end API key: %w", err)
		}
		if row, err = q.GetKey(ctx, tenant, prefix); err != nil {
			return fmt.Errorf("read API key: %w", err)
		}
		old = infoOf(row)
		after := map[string]any{"made": fresh.recorded(), "replaced": old.recorded()}
		return record(ctx, q, "rotate_key", tenant, by, before.recorded(), after)
	})
	return fresh, old, err
}

// Bootstrap makes a first key for the administrators of the operators' tenant. It is ErrExists when there is a valid one,
// unless another one is wanted.
func (s *Store) Bootstrap(ctx context.Context, key NewKey, again bool, by Deed) error {
	return pg.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		q := s.queries.WithTx(tx)
		if err := q.EnsureTenant(ctx, System, "Operators"); err != nil {
			return fmt.Errorf("ensure tenant %s: %w", System, err)
		}
		if _, err := q.LockTenant(ctx, System); err != nil { // one at a time
			return fmt.Errorf("lock tenant %s: %w", System, err)
		}
		have, err := q.CountAdminKeys(ctx, System)
		if err != nil {
			return fmt.Errorf("count keys: %w", err)
		}
		if have > 0 && !again {
			return ErrExists
		}
		made, err := insertKey(ctx, q, key, by)
		if err != nil {
			return err
		}
		return record(ctx, q, "create_key", System, by, nil, made.recorded())
	})
}

// sameLife lets a new key live as long as this one was made for.
func (k KeyInfo) sameLife() Expiry {
	if k.ExpiresAt == nil {
		return Expiry{}
	}
	return Expiry{After: k.ExpiresAt.Sub(k.CreatedAt)}
}
