package localstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"pawl.internal/services/internal/clock"
)

const (
	// crashTime bounds the end of a killed server's sessions, which find out by themselves that it is gone.
	crashTime = 60 * time.Second
	// grabTime is the time between two looks for connections that have become free.
	grabTime = 10 * time.Millisecond
	// tooManyConnections is the SQLSTATE of a server whose connections are all in use.
	tooManyConnections = "53300"
)

// Crash ends the server as nothing else does: its first process is killed with SIGKILL and can tell nobody. Crash returns
// when the sessions have ended too; Start then recovers. What was committed durably is kept.
func (p *Postgres) Crash(ctx context.Context) error {
	p.Resume()
	family := p.child.family()
	p.child.Signal(syscall.SIGKILL)
	<-p.child.Exited()
	ctx, cancel := context.WithTimeout(ctx, crashTime)
	defer cancel()
	for _, pid := range family {
		for isPostgres(pid) && !isZombie(pid) {
			if err := clock.System().Sleep(ctx, pollTime); err != nil {
				return fmt.Errorf("process %d outlives the killed server: %w", pid, err)
			}
		}
	}
	return nil
}

// SetReadOnly makes the server refuse to write, in the sessions that are open too, from their next transaction on, as a
// standby does; or ends that.
func (p *Postgres) SetReadOnly(ctx context.Context, on bool) error {
	return p.manage(ctx, func(conn *pgx.Conn) error {
		// Nothing but this may be changed while the server is read-only; ALTER SYSTEM writes no data.
		statement := "ALTER SYSTEM RESET default_transaction_read_only"
		if on {
			statement = "ALTER SYSTEM SET default_transaction_read_only = on"
		}
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "SELECT pg_reload_conf()")
		return err
	})
}

// Exhaust takes every connection that the server has to give, and those of everybody else, whose sessions it ends; what
// becomes free it takes too, until release is called. It returns when there is none left.
func (p *Postgres) Exhaust(ctx context.Context) (release func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	first, err := pgx.Connect(ctx, p.URL())
	if err != nil {
		cancel()
		return nil, err
	}
	h := &hoard{server: p.URL(), conns: []*pgx.Conn{first}}
	err = h.fill(ctx)
	for others := 1; err == nil && others > 0; err = errors.Join(err, clock.System().Sleep(ctx, grabTime)) {
		if others, err = h.evict(ctx); err == nil {
			err = h.fill(ctx)
		}
	}
	var keeper sync.WaitGroup
	keeper.Go(func() { h.keep(ctx) })
	release = sync.OnceFunc(func() { //nolint:contextcheck // what is taken is given back also when ctx has ended
		cancel()
		keeper.Wait()
		h.close()
	})
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// hoarder is the name of the application that takes all connections.
const hoarder = "hoarder"

// hoard is connections that do nothing but to be there.
type hoard struct {
	server string
	conns  []*pgx.Conn
}

// fill connects until the server has no connection left.
func (h *hoard) fill(ctx context.Context) error {
	config, err := pgx.ParseConfig(h.server)
	if err != nil {
		return err
	}
	config.RuntimeParams["application_name"] = hoarder
	for {
		conn, err := pgx.ConnectConfig(ctx, config)
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == tooManyConnections {
			return nil
		}
		if err != nil {
			return err
		}
		h.conns = append(h.conns, conn)
	}
}

// evict ends the sessions of all others and returns how many there were. Their connections become free a little later.
func (h *hoard) evict(ctx context.Context) (others int, err error) {
	err = h.conns[0].QueryRow(ctx, `
		SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name <> $1`, hoarder).Scan(&others)
	return others, err
}

// keep takes what becomes free until ctx ends. A server that is away has nothing to take.
func (h *hoard) keep(ctx context.Context) {
	for clock.System().Sleep(ctx, grabTime) == nil {
		_ = h.fill(ctx)
	}
}

func (h *hoard) close() {
	for _, conn := range h.conns {
		_ = conn.Close(context.Background()) // the server may have ended it
	}
}

// manage runs fn with a connection of its own.
func (p *Postgres) manage(ctx context.Context, fn func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, p.URL())
	if err != nil {
		return err
	}
	return errors.Join(fn(conn), conn.Close(ctx))
}
