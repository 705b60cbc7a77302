package testkit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/localstore"
	"pawl.internal/services/internal/pg"
)

const (
	// templateLock is the advisory lock under which templates are made.
	templateLock = 7_295_011
	testConns    = 8
)

// Database is a test's own database.
type Database struct {
	Pool *pgxpool.Pool
	URL  string
}

// Postgres returns a database with the schemas, migrated, which exists as long as the test.
func Postgres(tb testing.TB, schemas ...pg.Schema) *Database {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), setupTime)
	defer cancel()
	server, err := given(ctx, PostgresURLVariable, (*Stores).PostgresURL)
	require.NoError(tb, err)
	return DatabaseAt(tb, server, schemas...)
}

// DatabaseAt is Postgres on a particular server, such as one of PrivatePostgres.
func DatabaseAt(tb testing.TB, server string, schemas ...pg.Schema) *Database {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), setupTime)
	defer cancel()
	template, err := ensureTemplate(ctx, server, schemas)
	require.NoError(tb, err)
	name := "test_" + strings.ToLower(rand.Text())
	require.NoError(tb, execute(ctx, server, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, template)))
	tb.Cleanup(func() { dropDatabase(tb, server, name) })
	db := &Database{URL: withDatabase(server, name)}
	db.Pool, err = pg.Open(ctx, pg.Config{
		URL: config.NewSecret(db.URL), MaxConns: testConns, StatementTimeout: time.Minute, ConnectTimeout: time.Minute,
	}, "test")
	require.NoError(tb, err)
	tb.Cleanup(db.Pool.Close)
	return db
}

// PrivatePostgres returns a server that the test may stop, kill and pause as it likes, with more settings (name=value) if
// some are given. It keeps what was committed, as a server without fsync does: across everything but a crash of the machine.
func PrivatePostgres(tb testing.TB, settings ...string) *localstore.Postgres {
	tb.Helper()
	return postgresIn(tb, privateFolder(tb), settings)
}

// PostgresOn is PrivatePostgres with its data on a small disk.
func PostgresOn(tb testing.TB, disk *Disk) *localstore.Postgres {
	tb.Helper()
	return postgresIn(tb, disk.Folder, smallDiskSettings())
}

func postgresIn(tb testing.TB, folder string, settings []string) *localstore.Postgres {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), setupTime)
	defer cancel()
	server, err := startPostgres(ctx, folder, settings...)
	require.NoError(tb, err)
	tb.Cleanup(server.Kill)
	return server
}

// privateFolder is a folder for a server's data that is removed after the server was stopped.
func privateFolder(tb testing.TB) string {
	tb.Helper()
	folder, err := dataFolder()
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, os.RemoveAll(folder)) })
	return folder
}

// ensureTemplate returns the database of the schemas from which tests copy theirs, and makes it if it is missing. Test
// binaries that share a server share it.
func ensureTemplate(ctx context.Context, server string, schemas []pg.Schema) (string, error) {
	digest, err := digestOf(schemas)
	if err != nil {
		return "", err
	}
	name := "template_" + digest
	return name, onServer(ctx, server, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", templateLock); err != nil {
			return fmt.Errorf("lock templates: %w", err)
		}
		var finished bool
		query := "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)"
		if err := conn.QueryRow(ctx, query, name).Scan(&finished); err != nil || finished {
			return err
		}
		return makeTemplate(ctx, conn, server, name, schemas)
	})
}

// makeTemplate makes the database and marks it when it is complete, so that an interrupted one is made anew.
func makeTemplate(ctx context.Context, conn *pgx.Conn, server, name string, schemas []pg.Schema) error {
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + name, "CREATE DATABASE " + name} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("make template: %w", err)
		}
	}
	if err := pg.Migrate(ctx, withDatabase(server, name), schemas...); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+name+" IS_TEMPLATE true"); err != nil {
		return fmt.Errorf("make template: %w", err)
	}
	return nil
}

// digestOf names what the schemas' migrations are, so that a changed one gets a template of its own.
func digestOf(schemas []pg.Schema) (string, error) {
	hash := sha256.New()
	for _, s := range schemas {
		fmt.Fprintf(hash, "schema %s\n", s.Name)
		names, err := fs.Glob(s.Files, "*.sql")
		if err != nil {
			return "", err
		}
		for _, name := range names {
			content, err := fs.ReadFile(s.Files, name)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(hash, "file %s %d\n%s", name, len(content), content)
		}
	}
	return hex.EncodeToString(hash.Sum(nil)[:10]), nil
}

func dropDatabase(tb testing.TB, server, name string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), setupTime)
	defer cancel()
	if err := execute(ctx, server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
		tb.Logf("drop test database: %v", err) // a server that the test has stopped takes it along
	}
}

func execute(ctx context.Context, server, statement string) error {
	return onServer(ctx, server, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statement)
		return err
	})
}

// onServer runs fn with a connection of its own.
func onServer(ctx context.Context, server string, fn func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("connect to the test database server: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is left to lose on it
	return fn(conn)
}

// withDatabase is the server's URL with another database.
func withDatabase(server, database string) string {
	u, err := url.Parse(server)
	if err != nil { // pgx has connected with it
		return server
	}
	u.Path = "/" + database
	return u.String()
}
