// Package pg is what the services share of PostgreSQL: pools, transactions with a bounded retry, the translation of the
// server's errors, and migrations.
//
// It holds no query: each owner of a schema has its own store package. Nothing here keeps state between calls, and
// everything is safe for concurrent use.
package pg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"pawl.internal/services/internal/config"
)

// Config says how to reach the database. Embed it with the prefix "database-".
type Config struct {
	URL              config.Secret `help:"PostgreSQL connection URL." placeholder:"postgres://…"`
	MaxConns         int32         `help:"Most connections that one pool of the process opens." default:"10"`
	StatementTimeout time.Duration `help:"Time after which the server gives up a statement." default:"15s"`
	ConnectTimeout   time.Duration `help:"Time after which an attempt to connect is given up." default:"5s"`
	// Settings are run-time parameters of each session, set by the service and not by the operator.
	Settings map[string]string `kong:"-"`
}

// ByKey are the settings of sessions whose statements all find their rows by key, in tables that swing between empty and
// large: a plan that was made for an empty table and reads all of it must never be kept. Their plans do not depend on the
// parameters, so they are made once.
func ByKey() map[string]string {
	return map[string]string{
		"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off",
		"plan_cache_mode": "force_generic_plan", "jit": "off",
	}
}

// Open returns a pool whose connections all lead to a server that accepts writes, and fails if none can be made now.
// The application's name shows in pg_stat_activity.
func Open(ctx context.Context, cfg Config, application string) (*pgxpool.Pool, error) {
	poolConfig, err := parse(cfg, application)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return nil, fmt.Errorf("open database pool: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect to %s: %w", where(poolConfig.ConnConfig), Fault(err))
	}
	return pool, nil
}

// Ping reports whether the database answers.
func Ping(ctx context.Context, pool *pgxpool.Pool) error {
	if err := pool.Ping(ctx); err != nil {
		return fmt.Errorf("ping: %w", Fault(err))
	}
	return nil
}

func parse(cfg Config, application string) (*pgxpool.Config, error) {
	if cfg.URL.IsZero() {
		return nil, errors.New("no database URL is set: give --database-url or PAWL_DATABASE_URL")
	}
	poolConfig, err := pgxpool.ParseConfig(cfg.URL.Reveal())
	if err != nil {
		return nil, errBadURL()
	}
	if cfg.MaxConns > 0 {
		poolConfig.MaxConns = cfg.MaxConns
	}
	poolConfig.MaxConnLifetimeJitter = poolConfig.MaxConnLifetime / 10
	poolConfig.PingTimeout = cfg.ConnectTimeout
	poolConfig.AfterConnect = prepare
	conn := poolConfig.ConnConfig
	conn.ConnectTimeout = cfg.ConnectTimeout
	if conn.ValidateConnect == nil {
		conn.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if cfg.StatementTimeout > 0 {
		conn.Tracer = bound{limit: cfg.StatementTimeout + answerTime}
	}
	limit := strconv.FormatInt(cfg.StatementTimeout.Milliseconds(), 10)
	conn.RuntimeParams["application_name"] = application
	conn.RuntimeParams["timezone"] = "UTC"
	conn.RuntimeParams["statement_timeout"] = limit
	conn.RuntimeParams["idle_in_transaction_session_timeout"] = limit
	maps.Copy(conn.RuntimeParams, cfg.Settings)
	return poolConfig, nil
}

// errBadURL does not repeat the URL, as pgx does: URLs hold passwords.
func errBadURL() error {
	return errors.New("the database URL cannot be read: write postgres://user:password@host:port/database")
}

// where names a server in messages, without the credentials.
func where(c *pgx.ConnConfig) string {
	return fmt.Sprintf("database %q at %s:%d as user %q", c.Database, c.Host, c.Port, c.User)
}

// prepare makes a new connection give times in UTC, and take UUIDs as bytes.
func prepare(_ context.Context, conn *pgx.Conn) error {
	types := conn.TypeMap()
	registerUUIDs(types)
	instant := &pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID,
		Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	}
	types.RegisterType(instant)
	types.RegisterType(&pgtype.Type{
		Name: "_timestamptz", OID: pgtype.TimestamptzArrayOID,
		Codec: &pgtype.ArrayCodec{ElementType: instant},
	})
	return nil
}
