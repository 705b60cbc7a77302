package boot

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/internal/redisconn"
)

// closeTime bounds the closing of connections to a store.
const closeTime = 5 * time.Second

// Postgres opens a pool of the service's, which is closed when the process has stopped. The role tells several pools of a
// service apart where their names show, in pg_stat_activity; the main one has none.
func (p *Process) Postgres(ctx context.Context, cfg pg.Config, role string) (*pgxpool.Pool, error) {
	name := strings.TrimSuffix(p.service+"-"+role, "-")
	pool, err := pg.Open(ctx, cfg, "pawl-"+name)
	if err != nil {
		return nil, err
	}
	p.OnStop(name+" database", closeTime, func(context.Context) error { pool.Close(); return nil })
	return pool, nil
}

// Redis opens a client of the service's, which /healthz reports, and which is closed when the process has stopped.
func (p *Process) Redis(ctx context.Context, cfg redisconn.Config) (redis.UniversalClient, error) {
	client, err := redisconn.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	p.OnStop(p.service+" redis", closeTime, func(context.Context) error { return client.Close() })
	p.Check("redis", func(ctx context.Context) error { return redisconn.Fault(client.Ping(ctx).Err()) })
	return client, nil
}
