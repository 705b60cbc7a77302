// Package store keeps who may call: tenants, API keys and the keys that replicas of intake share. It owns the PostgreSQL
// schema access and knows no run, job or document.
//
// A Store is safe for concurrent use. Its errors are faults.
package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"pawl.internal/services/intake/store/db"
	"pawl.internal/services/internal/pg"
)

//go:embed migration/*.sql
var migrations embed.FS

// ErrNotFound says that there is no such row.
var ErrNotFound = errors.New("not found")

// Schema is the schema access with its migrations.
func Schema() pg.Schema {
	files, err := fs.Sub(migrations, "migration")
	if err != nil { // only for a path that is not valid, and this one is
		files = migrations
	}
	return pg.Schema{Name: "access", Files: files}
}

// Store reads and writes the schema access.
type Store struct {
	pool    *pgxpool.Pool
	queries *db.Queries
}

// New returns the store in the pool's database, whose schema must be migrated.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool, queries: db.New(pool)} }

// Key is an API key as a presented one is judged by it: without its secret.
type Key struct {
	// Prefix is the public part, by which the key is found.
	Prefix string
	// Hash is the SHA-256 of the whole key.
	Hash   []byte
	Tenant string
	Role   Role
	// Revoked, Expired and Disabled say why a key opens nothing: by the database's clock, and because its tenant is disabled.
	Revoked, Expired, Disabled bool
	// Left is how long the key is valid from now; decades when it does not expire.
	Left time.Duration
	// Limits are the tenant's.
	Limits Limits
}

// FindKey returns the key with that prefix; ErrNotFound if there is none.
func (s *Store) FindKey(ctx context.Context, prefix string) (Key, error) {
	row, err := s.queries.FindKey(ctx, prefix)
	if errors.Is(err, pgx.ErrNoRows) {
		return Key{}, ErrNotFound
	}
	if err != nil {
		return Key{}, fmt.Errorf("find API key: %w", pg.Fault(err))
	}
	return Key{
		Prefix: prefix, Hash: row.Hash, Tenant: row.Tenant, Role: Role(row.Role), Revoked: row.Revoked, Expired: row.Expired,
		Disabled: row.Disabled, Left: time.Duration(row.SecondsLeft * float64(time.Second)),
		Limits: Limits{SubmitRate: row.SubmitRate, SubmitBurst: row.SubmitBurst, MaxQueuedRuns: row.MaxQueuedRuns},
	}, nil
}

// AddKey stores a key that somebody made up, and its tenant if that is new: for development and tests. It reports false, and
// changes nothing, when there is a key with that prefix already.
func (s *Store) AddKey(ctx context.Context, key Key) (added bool, err error) {
	err = pg.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		queries := s.queries.WithTx(tx)
		if err := queries.EnsureTenant(ctx, key.Tenant, key.Tenant); err != nil {
			return fmt.Errorf("ensure tenant: %w", err)
		}
		rows, err := queries.InsertKey(ctx, db.InsertKeyParams{
			Prefix: key.Prefix, Hash: key.Hash, Tenant: key.Tenant, Role: string(key.Role),
		})
		if err != nil {
			return fmt.Errorf("insert API key: %w", err)
		}
		added = rows == 1
		return nil
	})
	return added, err
}

// TouchKeys records when keys were last used, times by prefix; a use within a minute of what is recorded is not.
func (s *Store) TouchKeys(ctx context.Context, used map[string]time.Time) error {
	prefixes, times := make([]string, 0, len(used)), make([]time.Time, 0, len(used))
	for prefix, at := range used {
		prefixes, times = append(prefixes, prefix), append(times, at)
	}
	if err := s.queries.TouchKeys(ctx, prefixes, times); err != nil {
		return fmt.Errorf("touch API keys: %w", pg.Fault(err))
	}
	return nil
}

// SigningKey returns the key that all replicas share for the purpose; the candidate becomes it when there is none yet.
func (s *Store) SigningKey(ctx context.Context, purpose string, candidate [32]byte) ([]byte, error) {
	if err := s.queries.EnsureSigningKey(ctx, purpose, candidate[:]); err != nil {
		return nil, fmt.Errorf("ensure signing key: %w", pg.Fault(err))
	}
	key, err := s.queries.GetSigningKey(ctx, purpose)
	if err != nil {
		return nil, fmt.Errorf("get signing key: %w", pg.Fault(err))
	}
	return key, nil
}

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return pg.Ping(ctx, s.pool) }
