package pg_test

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/testkit"
)

// raise makes the server refuse with a SQLSTATE.
func raise(ctx context.Context, tx pgx.Tx, state string) error {
	_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE EXCEPTION 'raised' USING ERRCODE = '`+state+`'; END $$`)
	return err
}

func TestInTxBeginsAnewAfterAConflict(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t, shop())
	for _, state := range []string{"40001", "40P01"} {
		tries := 0
		err := pg.InTx(t.Context(), db.Pool, func(ctx context.Context, tx pgx.Tx) error {
			if tries++; tries < 3 {
				return raise(ctx, tx, state)
			}
			return insert(ctx, tx, state)
		})
		require.NoError(t, err)
		require.Equal(t, 3, tries)
		tries = 0
		err = pg.InTx(t.Context(), db.Pool, func(ctx context.Context, tx pgx.Tx) error {
			tries++
			return raise(ctx, tx, state)
		})
		require.Equal(t, codes.Aborted, fault.CodeOf(err))
		require.Equal(t, 3, tries)
	}
	require.Equal(t, 2, count(t, db))
}

func TestStatesBecomeFaults(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t, shop())
	for state, want := range map[string]codes.Code{
		"55P03": codes.Aborted, "57014": codes.Canceled, "23505": codes.AlreadyExists, "25006": codes.Unavailable,
		"08006": codes.Unavailable, "53100": codes.Unavailable, "53300": codes.Unavailable, "57P01": codes.Unavailable,
		"57P03": codes.Unavailable, "58030": codes.Unavailable, "42601": codes.Internal, "23514": codes.Internal, "22003": codes.Internal,
	} {
		err := pg.InTx(t.Context(), db.Pool, func(ctx context.Context, tx pgx.Tx) error { return raise(ctx, tx, state) })
		require.Equal(t, want, fault.CodeOf(err), state)
		require.NotContains(t, fault.Of(err).Message, "raised")
	}
	require.NoError(t, pg.Fault(nil))
	require.ErrorIs(t, pg.Fault(pgx.ErrNoRows), pgx.ErrNoRows)
	require.Equal(t, codes.Canceled, fault.CodeOf(pg.Fault(context.Canceled)))
}

func TestSessionsAreSetUpAsConfigured(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	pool, err := pg.Open(t.Context(), pg.Config{
		URL: config.NewSecret(db.URL), StatementTimeout: 20 * time.Millisecond,
		Settings: map[string]string{"plan_cache_mode": "force_generic_plan"},
	}, "t")
	require.NoError(t, err)
	defer pool.Close()
	_, err = pool.Exec(t.Context(), "SELECT pg_sleep(60)")
	require.Equal(t, codes.Canceled, fault.CodeOf(pg.Fault(err)))
	for setting, want := range map[string]string{
		"application_name": "t", "TimeZone": "UTC", "plan_cache_mode": "force_generic_plan",
		"idle_in_transaction_session_timeout": "20ms",
	} {
		var got string
		require.NoError(t, pool.QueryRow(t.Context(), "SHOW "+setting).Scan(&got))
		require.Equal(t, want, got)
	}
}

func TestReadOnlyServerIsLeftForAnother(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t, shop())
	session := func() (pid int) {
		require.NoError(t, db.Pool.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
		return pid
	}
	before := session()
	err := pg.InTx(t.Context(), db.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET TRANSACTION READ ONLY"); err != nil {
			return err
		}
		return insert(ctx, tx, "a")
	})
	require.Equal(t, codes.Unavailable, fault.CodeOf(err))
	require.NotEqual(t, before, session(), "the pool keeps a connection to a server that accepts no writes")

	_, err = db.Pool.Exec(t.Context(), `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$`)
	require.NoError(t, err)
	_, err = pg.Open(t.Context(), pg.Config{URL: config.NewSecret(db.URL)}, "test")
	require.Equal(t, codes.Unavailable, fault.CodeOf(err))
}

func TestConnectionsComeBackAfterTheServer(t *testing.T) {
	t.Parallel()
	server := testkit.PrivatePostgres(t)
	db := testkit.DatabaseAt(t, server.URL(), shop())
	add := func() error {
		return pg.InTx(t.Context(), db.Pool, func(ctx context.Context, tx pgx.Tx) error { return insert(ctx, tx, uuid.NewString()) })
	}
	server.Kill()
	require.Equal(t, codes.Unavailable, fault.CodeOf(add()))
	require.NoError(t, server.Start(t.Context()))
	testkit.Eventually(t, 5*time.Second, add)

	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := pg.InTx(ctx, db.Pool, func(ctx context.Context, tx pgx.Tx) error { return insert(ctx, tx, "b") })
	require.Equal(t, codes.DeadlineExceeded, fault.CodeOf(err))
	server.Resume()
	testkit.Eventually(t, 5*time.Second, add)
}

func TestLostConnectionIsNotUncertain(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t, shop())
	err := pg.InTx(t.Context(), db.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if err := insert(ctx, tx, "a"); err != nil {
			return err
		}
		require.NoError(t, tx.Conn().PgConn().Conn().Close())
		return insert(ctx, tx, "b")
	})
	require.Equal(t, codes.Unavailable, fault.CodeOf(err))
	require.NotErrorIs(t, err, pg.ErrUncertain)
	require.Zero(t, count(t, db))
}

func TestUnansweredCommitIsUncertain(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t, shop())
	committed := 0
	for name, delivered := range map[string]bool{"lost on the way": false, "answer lost": true} {
		pool := throughProxy(t, db.URL, delivered)
		err := pg.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error { return insert(ctx, tx, name) })
		require.ErrorIs(t, err, pg.ErrUncertain, name)
		require.Equal(t, codes.Unavailable, fault.CodeOf(err), name)
		testkit.Eventually(t, 5*time.Second, func() error { return sessionsEnded(t, db) })
		if delivered {
			committed++
		}
		require.Equal(t, committed, count(t, db), name)
	}
}

// sessionsEnded waits until the server has done what it was told by connections that were cut.
func sessionsEnded(t *testing.T, db *testkit.Database) error {
	t.Helper()
	var others int
	query := `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'cut'`
	require.NoError(t, db.Pool.QueryRow(t.Context(), query).Scan(&others))
	if others > 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// throughProxy returns a pool whose connections break at COMMIT, before or after the server got it.
func throughProxy(t *testing.T, server string, deliver bool) *pgxpool.Pool {
	t.Helper()
	u, err := url.Parse(server)
	require.NoError(t, err)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	target := u.Host
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() { cutAtCommit(t, client, target, deliver) })
		}
	})
	u.Host = listener.Addr().String()
	pool, err := pg.Open(t.Context(), pg.Config{URL: config.NewSecret(u.String())}, "cut")
	require.NoError(t, err)
	t.Cleanup(func() {
		pool.Close()
		require.NoError(t, listener.Close())
		connections.Wait()
	})
	return pool
}

// cutAtCommit passes bytes on in both directions until the client commits.
func cutAtCommit(t *testing.T, client net.Conn, server string, deliver bool) {
	t.Helper()
	upstream, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	answers := make(chan struct{}) // closed when no answer may pass any more
	back.Go(func() { pass(upstream, client, answers) })
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		commits := bytes.Contains(buffer[:n], []byte("commit"))
		if commits {
			close(answers)
		}
		if n > 0 && (!commits || deliver) {
			_, _ = upstream.Write(buffer[:n])
		}
		if err != nil || commits {
			break
		}
	}
	_ = client.Close()
	_ = upstream.Close()
	back.Wait()
}

// pass copies from one connection to the other until either ends or closed is, and then closes the other.
func pass(from, to net.Conn, closed <-chan struct{}) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-closed:
			return
		default:
		}
		if err != nil {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
