package localstore_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/localstore"
	"pawl.internal/services/testkit"
)

func connect(t *testing.T, p *localstore.Postgres) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func requireCode(t *testing.T, want string, err error) {
	t.Helper()
	refused, ok := errors.AsType[*pgconn.PgError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, want, refused.Code, "%v", refused)
}

func TestCrashedPostgresRecovers(t *testing.T) {
	t.Parallel()
	p := startPostgres(t, folder(t))
	session := connect(t, p)
	_, err := session.Exec(t.Context(), "CREATE TABLE kept AS SELECT 'yes' AS answer")
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, p.Crash(t.Context()))
		require.Error(t, session.Ping(t.Context()))
		require.NoError(t, p.Start(t.Context()))
		require.Equal(t, "yes", query(t, p.URL(), "SELECT answer FROM kept"))
		session = connect(t, p)
	}
}

func TestReadOnlyPostgresRefusesOpenSessionsToo(t *testing.T) {
	t.Parallel()
	p := startPostgres(t, folder(t))
	session := connect(t, p)
	_, err := session.Exec(t.Context(), "CREATE TABLE entries (n int)")
	require.NoError(t, err)
	insert := func() error {
		_, err := session.Exec(t.Context(), "INSERT INTO entries VALUES (1)")
		return err
	}
	require.NoError(t, p.SetReadOnly(t.Context(), true))
	testkit.Eventually(t, 10*time.Second, func() error { // a session hears of it between two statements
		if insert() == nil {
			return errors.New("it still writes")
		}
		return nil
	})
	requireCode(t, "25006", insert())
	require.NoError(t, p.SetReadOnly(t.Context(), false))
	testkit.Eventually(t, 10*time.Second, insert)
}

func TestExhaustedPostgresGivesNobodyAConnection(t *testing.T) {
	t.Parallel()
	const most = 20
	p, err := localstore.StartPostgres(t.Context(), localstore.PostgresConfig{
		Dir: folder(t), Unsafe: true, Settings: []string{"max_connections=" + strconv.Itoa(most)},
	})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	session := connect(t, p)
	release, err := p.Exhaust(t.Context())
	require.NoError(t, err)
	require.Error(t, session.Ping(t.Context()), "the session of another lives on")
	_, err = pgx.Connect(t.Context(), p.URL())
	requireCode(t, "53300", err)
	release()
	release()
	testkit.Eventually(t, 10*time.Second, func() error { // sessions end after their connections
		conn, err := pgx.Connect(t.Context(), p.URL())
		if err != nil {
			return err
		}
		return conn.Close(t.Context())
	})
}

func TestPostgresOnAFullDiskRecovers(t *testing.T) {
	t.Parallel()
	disk := testkit.NewDisk(t, 160)
	p := testkit.PostgresOn(t, disk)
	session := connect(t, p)
	_, err := session.Exec(t.Context(), "CREATE TABLE entries (n int)")
	require.NoError(t, err)
	fill := "INSERT INTO entries SELECT generate_series(1, 1000000)" // 35 MB
	disk.Fill()
	_, err = session.Exec(t.Context(), fill)
	requireCode(t, "53100", err)
	disk.Free()
	_, err = session.Exec(t.Context(), "INSERT INTO entries VALUES (1)")
	if err != nil { // the log of changes had no room either, and the server recovers, or has ended
		_ = p.Crash(t.Context())
		require.NoError(t, p.Start(t.Context()))
		session = connect(t, p)
		_, err = session.Exec(t.Context(), "INSERT INTO entries VALUES (1)")
	}
	require.NoError(t, err)
}
