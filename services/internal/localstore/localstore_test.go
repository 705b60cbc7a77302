package localstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pawl.internal/services/internal/localstore"
	"pawl.internal/services/testkit"
)

// holderVariable makes the test binary a program that starts both stores in the folder it names, and waits to be killed.
const holderVariable = "PAWL_TEST_HOLD_STORES"

func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv(holderVariable); ok {
		hold(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func hold(dir string) {
	ctx := context.Background()
	p, err := localstore.StartPostgres(ctx, localstore.PostgresConfig{Dir: filepath.Join(dir, "postgres"), Unsafe: true})
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		return
	}
	r, err := localstore.StartRedis(ctx, localstore.RedisConfig{Dir: filepath.Join(dir, "redis")}, slog.Default())
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		return
	}
	fmt.Fprintln(os.Stdout, p.URL(), r.URL())
	select {}
}

// folder is one that the database's user may enter.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pawl-localstore-") //nolint:usetesting // a test's own folder lets nobody else in
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func startPostgres(t *testing.T, dir string) *localstore.Postgres {
	t.Helper()
	p, err := localstore.StartPostgres(t.Context(), localstore.PostgresConfig{Dir: dir, Unsafe: true})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p
}

func query(t *testing.T, database, sql string) (result string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&result))
	return result
}

func TestPostgresKeepsItsDataOverRestarts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folder(t), "deep", "postgres")
	require.NoError(t, os.Mkdir(filepath.Dir(dir), 0o711))
	p := startPostgres(t, dir)
	query(t, p.URL(), "WITH x AS (SELECT set_config('a.b', 'c', false)) SELECT 'x' FROM x")
	conn, err := pgx.Connect(t.Context(), p.URL())
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 'yes' AS answer")
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))

	p.Stop()
	require.NoError(t, p.Start(t.Context()))
	require.Equal(t, "yes", query(t, p.URL(), "SELECT answer FROM kept"))
	p.Kill()
	require.NoError(t, p.Start(t.Context()))
	require.Equal(t, "yes", query(t, p.URL(), "SELECT answer FROM kept"))
	p.Stop()
	again := startPostgres(t, dir) // as a later process does
	require.Equal(t, "yes", query(t, again.URL(), "SELECT answer FROM kept"))
	require.Equal(t, "on", query(t, again.URL(), "SHOW synchronous_commit"))
}

func TestSecondPostgresOnAFolderIsRefused(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	startPostgres(t, dir)
	_, err := localstore.StartPostgres(t.Context(), localstore.PostgresConfig{Dir: dir})
	require.ErrorContains(t, err, "already runs on "+dir)
}

func TestLockOfAKilledServerIsClearedThoughItsProcessIDLivesOn(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	p := startPostgres(t, dir)
	p.Kill()
	lock := filepath.Join(dir, "data", "postmaster.pid")
	require.NoError(t, os.WriteFile(lock, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644))
	require.NoError(t, p.Start(t.Context()))
}

func TestInterruptedFirstStartIsBegunAnew(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "data.unfinished", "base"), 0o755))
	p := startPostgres(t, dir)
	require.NotEmpty(t, query(t, p.URL(), "SHOW server_version"))
}

func TestPortInUseIsNamedWithTheServersOwnWords(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	address, ok := taken.Addr().(*net.TCPAddr)
	require.True(t, ok)
	_, err = localstore.StartPostgres(t.Context(), localstore.PostgresConfig{Dir: folder(t), Port: address.Port})
	require.ErrorContains(t, err, "Address already in use")
	other, err := url.Parse(startRedis(t, folder(t)).URL())
	require.NoError(t, err)
	for _, port := range []string{strconv.Itoa(address.Port), other.Port()} {
		cfg := localstore.RedisConfig{Dir: folder(t)}
		cfg.Port, err = strconv.Atoi(port)
		require.NoError(t, err)
		_, err = localstore.StartRedis(t.Context(), cfg, slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, "Address already in use")
	}
}

func startRedis(t *testing.T, dir string) *localstore.Redis {
	t.Helper()
	r, err := localstore.StartRedis(t.Context(), localstore.RedisConfig{Dir: dir, Real: true}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(r.Kill)
	return r
}

func client(t *testing.T, r *localstore.Redis) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(r.URL())
	require.NoError(t, err)
	c := redis.NewClient(options)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestRedisKeepsItsDataOverRestarts(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	r := startRedis(t, dir)
	require.NoError(t, client(t, r).Set(t.Context(), "k", "kept", 0).Err())
	r.Stop()
	require.NoError(t, r.Start(t.Context()))
	require.Equal(t, "kept", client(t, r).Get(t.Context(), "k").Val())
	r.Stop()
	again := startRedis(t, dir)
	require.Equal(t, "kept", client(t, again).Get(t.Context(), "k").Val())
	require.Equal(t, "noeviction", client(t, again).ConfigGet(t.Context(), "maxmemory-policy").Val()["maxmemory-policy"])
}

func TestWithoutRedisAStandInServesAndSaysSo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var said strings.Builder
	r, err := localstore.StartRedis(t.Context(), localstore.RedisConfig{}, slog.New(slog.NewTextHandler(&said, nil)))
	require.NoError(t, err)
	require.Contains(t, said.String(), "apt-get install redis-server")
	require.NoError(t, client(t, r).Set(t.Context(), "k", "v", 0).Err())
	r.Kill()
	require.NoError(t, r.Start(t.Context()))
	require.Equal(t, "v", client(t, r).Get(t.Context(), "k").Val())
	r.Pause()
	r.Resume()
	r.Stop()

	_, err = localstore.StartRedis(t.Context(), localstore.RedisConfig{Real: true}, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "redis-server is not installed: apt-get install")
}

func TestStoresEndWithAProcessThatIsKilled(t *testing.T) {
	t.Parallel()
	holder := exec.CommandContext(t.Context(), os.Args[0])
	holder.Env = append(os.Environ(), holderVariable+"="+folder(t))
	output, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	stores := strings.Fields(line)
	require.Len(t, stores, 2, line)
	for _, store := range stores {
		require.NoError(t, reach(t.Context(), store))
	}
	require.NoError(t, holder.Process.Signal(syscall.SIGKILL))
	require.Error(t, holder.Wait())
	for _, store := range stores {
		testkit.Eventually(t, 20*time.Second, func() error {
			if reach(t.Context(), store) == nil {
				return errors.New("it outlived its owner")
			}
			return nil
		})
	}
}

func reach(ctx context.Context, store string) error {
	u, err := url.Parse(store)
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return err
	}
	return conn.Close()
}
