package pg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

const undefinedTable = "42P01"

// lockSeconds bounds how long one process waits for another that is migrating.
const lockSeconds = 300

// Schema is one owner's part of the database: a PostgreSQL schema and the goose SQL files that build it.
type Schema struct {
	// Name is the PostgreSQL schema. It is created before the first migration, and holds the table schema_version.
	Name string
	// Files has the migrations at its root, named like 00001_runs.sql.
	Files fs.FS
}

func (s Schema) versionTable() string { return s.Name + ".schema_version" }

// Migrate brings the schemas to the version of their files, one after the other. Several processes may do so at once: one
// works, the others wait and find nothing left to do.
func Migrate(ctx context.Context, url string, schemas ...Schema) error {
	db, err := open(url)
	if err != nil {
		return err
	}
	return errors.Join(withLock(ctx, db, func() error { return migrateAll(ctx, db, schemas) }), db.Close())
}

func open(url string) (*sql.DB, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, errBadURL()
	}
	return stdlib.OpenDB(*cfg), nil
}

// withLock runs fn while a connection of db holds the lock of migrations.
func withLock(ctx context.Context, db *sql.DB, fn func() error) error {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, lockSeconds))
	if err != nil {
		return fmt.Errorf("migration lock: %w", err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", Fault(err))
	}
	if err := locker.SessionLock(ctx, conn); err != nil {
		return errors.Join(fmt.Errorf("migration lock: %w", err), conn.Close())
	}
	err = fn()
	// The lock ends with the connection too, so an error here leaves nothing behind.
	return errors.Join(err, locker.SessionUnlock(context.WithoutCancel(ctx), conn), conn.Close())
}

func migrateAll(ctx context.Context, db *sql.DB, schemas []Schema) error {
	for _, s := range schemas {
		if _, err := db.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{s.Name}.Sanitize()); err != nil {
			return fmt.Errorf("create schema %s: %w", s.Name, err)
		}
		provider, err := goose.NewProvider(goose.DialectPostgres, db, s.Files, goose.WithTableName(s.versionTable()))
		if err != nil {
			return fmt.Errorf("migrations of %s: %w", s.Name, err)
		}
		if _, err := provider.Up(ctx); err != nil {
			return fmt.Errorf("migrate %s: %w", s.at(err), err)
		}
	}
	return nil
}

// at names the file that failed, if it was one.
func (s Schema) at(err error) string {
	if partial, ok := errors.AsType[*goose.PartialError](err); ok && partial.Failed != nil {
		return s.Name + "/" + partial.Failed.Source.Path
	}
	return s.Name
}

// CheckVersion returns an error that says what to do when a schema is older than this build needs. A newer one is welcome:
// during an upgrade both builds run on it.
func CheckVersion(ctx context.Context, pool *pgxpool.Pool, schemas ...Schema) error {
	for _, s := range schemas {
		have, need, err := s.Versions(ctx, pool)
		if err != nil {
			return err
		}
		if have < need {
			return fmt.Errorf("database schema %s is at version %d and this build needs %d: run `pawl migrate` first",
				s.Name, have, need)
		}
	}
	return nil
}

// Versions returns the version of the schema in the database, 0 before the first migration, and the one that this build needs.
func (s Schema) Versions(ctx context.Context, pool *pgxpool.Pool) (have, need int64, err error) {
	if need, err = s.newest(); err != nil {
		return 0, 0, err
	}
	have, err = s.current(ctx, pool)
	return have, need, err
}

// newest is the version of the last of the files.
func (s Schema) newest() (int64, error) {
	names, err := fs.Glob(s.Files, "*.sql")
	if err != nil {
		return 0, fmt.Errorf("migrations of %s: %w", s.Name, err)
	}
	var newest int64
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return 0, fmt.Errorf("migration %s/%s: %w", s.Name, name, err)
		}
		newest = max(newest, version)
	}
	return newest, nil
}

// current is the version of the database; 0 before the first migration.
func (s Schema) current(ctx context.Context, pool *pgxpool.Pool) (version int64, err error) {
	query := "SELECT coalesce(max(version_id), 0) FROM " + pgx.Identifier{s.Name, "schema_version"}.Sanitize()
	err = pool.QueryRow(ctx, query).Scan(&version)
	if hasState(err, undefinedTable) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read version of schema %s: %w", s.Name, Fault(err))
	}
	return version, nil
}
