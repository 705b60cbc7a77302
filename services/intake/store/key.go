package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"pawl.internal/services/intake/store/db"
	"pawl.internal/services/internal/pg"
)

// ErrEnded says that a key is revoked or has expired.
var ErrEnded = errors.New("is not valid any more")

// KeyInfo is what administrators see of a key.
type KeyInfo struct {
	Prefix, Tenant string
	Role           Role
	Note           string
	// CreatedBy names who made it.
	CreatedBy string
	CreatedAt time.Time
	// ExpiresAt, RevokedAt and LastUsedAt are nil for never.
	ExpiresAt, RevokedAt, LastUsedAt *time.Time
}

// Expiry says when a new key stops: at a time, or after one; never if both are zero.
type Expiry struct {
	At    *time.Time
	After time.Duration
}

// from returns the time for a key that is made now.
func (e Expiry) from(now time.Time) *time.Time {
	if e.After > 0 {
		return new(now.Add(e.After))
	}
	return e.At
}

// NewKey is a key that is to be made.
type NewKey struct {
	Prefix string
	Hash   []byte
	Tenant string
	Role   Role
	Note   string
	Expiry Expiry
}

// CreateKey stores a new key; ErrNotFound when there is no such tenant.
func (s *Store) CreateKey(ctx context.Context, key NewKey, by Deed) (KeyInfo, error) {
	var made KeyInfo
	err := pg.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		q := s.queries.WithTx(tx)
		if _, err := q.GetTenant(ctx, key.Tenant); err != nil {
			return missing(err)
		}
		var err error
		if made, err = insertKey(ctx, q, key, by); err != nil {
			return err
		}
		return record(ctx, q, "create_key", key.Tenant, by, nil, made.recorded())
	})
	return made, err
}

// insertKey stores a key and reads it back.
func insertKey(ctx context.Context, q *db.Queries, key NewKey, by Deed) (KeyInfo, error) {
	now, err := q.Now(ctx)
	if err != nil {
		return KeyInfo{}, fmt.Errorf("read the clock: %w", err)
	}
	rows, err := q.InsertKey(ctx, db.InsertKeyParams{
		Prefix: key.Prefix, Hash: key.Hash, Tenant: key.Tenant, Role: string(key.Role), ExpiresAt: key.Expiry.from(now),
		Note: key.Note, CreatedBy: by.Actor,
	})
	if err != nil {
		return KeyInfo{}, fmt.Errorf("insert API key: %w", err)
	}
	if rows == 0 { // 40 random bits
		return KeyInfo{}, ErrExists
	}
	row, err := q.GetKey(ctx, key.Tenant, key.Prefix)
	if err != nil {
		return KeyInfo{}, fmt.Errorf("read API key: %w", err)
	}
	return infoOf(row), nil
}

// KeyPlace is where a page of keys ends.
type KeyPlace struct {
	CreatedAt time.Time `json:"at"`
	Prefix    string    `json:"prefix"`
}

// FirstKeys is before the first page.
func FirstKeys() KeyPlace { return KeyPlace{CreatedAt: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} }

// ListKeys returns a tenant's keys after the place, the newest first.
func (s *Store) ListKeys(ctx context.Context, tenant string, after KeyPlace, most int32) ([]KeyInfo, error) {
	rows, err := s.queries.ListKeys(ctx, db.ListKeysParams{
		Tenant: tenant, BeforeTime: after.CreatedAt, BeforePrefix: after.Prefix, Most: most,
	})
	if err != nil {
		return nil, fmt.Errorf("list API keys: %w", pg.Fault(err))
	}
	keys := make([]KeyInfo, len(rows))
	for i, row := range rows {
		keys[i] = infoOf(row)
	}
	return keys, nil
}

// RevokeKey ends a key for good; one that has been revoked stays as it is. ErrNotFound when the tenant has no such key.
func (s *Store) RevokeKey(ctx context.Context, tenant, prefix string, by Deed) (KeyInfo, error) {
	var revoked KeyInfo
	err := pg.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		q := s.queries.WithTx(tx)
		row, err := q.LockKey(ctx, tenant, prefix)
		if err != nil {
			return missing(err)
		}
		if revoked = infoOf(row); revoked.RevokedAt != nil {
			return nil
		}
		before := revoked.recorded()
		if err := q.RevokeKey(ctx, tenant, prefix); err != nil {
			return fmt.Errorf("revoke API key: %w", err)
		}
		if row, err = q.GetKey(ctx, tenant, prefix); err != nil {
			return fmt.Errorf("read API key: %w", err)
		}
		revoked = infoOf(row)
		return record(ctx, q, "revoke_key", tenant, by, before, revoked.recorded())
	})
	return revoked, err
}

// missing says that a row is not there, in the words of this package.
func missing(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotFound
	}
	return err
}

func infoOf(row db.AccessApiKey) KeyInfo {
	return KeyInfo{
		Prefix: row.Prefix, Tenant: row.Tenant, Role: Role(row.Role), Note: row.Note, CreatedBy: row.CreatedBy,
		CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt, RevokedAt: row.RevokedAt, LastUsedAt: row.LastUsedAt,
	}
}

func (k KeyInfo) ended(now time.Time) bool {
	return k.RevokedAt != nil || k.ExpiresAt != nil && !k.ExpiresAt.After(now)
}

// recorded is the key as the record of an action shows it.
func (k KeyInfo) recorded() map[string]any {
	return map[string]any{
		"prefix": k.Prefix, "role": k.Role, "note": k.Note, "expires_at": k.ExpiresAt, "revoked_at": k.RevokedAt,
	}
}
