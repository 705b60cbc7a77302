package dev

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/testkit"
)

// TestKilledStoresAreStartedAnew kills the only Redis and the only PostgreSQL of a system, and waits for the next ones.
func TestKilledStoresAreStartedAnew(t *testing.T) {
	t.Parallel()
	folder, err := os.MkdirTemp("", "pawl-dev-") //nolint:usetesting // a test's own folder keeps the database's user out
	require.NoError(t, err)
	require.NoError(t, os.Chmod(folder, 0o711))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	base, err := FreePortBase(t.Context())
	require.NoError(t, err)
	s := &system{cfg: Config{DataDir: folder}, ports: PortsFrom(base), log: slog.New(slog.DiscardHandler), output: t.Output()}
	require.NoError(t, s.startStores(t.Context()))
	t.Cleanup(func() {
		for _, stop := range slices.Backward(s.closers) {
			stop()
		}
	})

	requireAnew(t, func() (int, error) { return redisProcess(t.Context(), s.cfg.Serve.Redis.URL.Reveal()) })
	requireAnew(t, func() (int, error) {
		return postgresProcess(t.Context(), s.cfg.Serve.Database.URL.Reveal(), filepath.Join(folder, "postgres", "data"))
	})
}

// requireAnew kills a server, and waits for another that answers.
func requireAnew(t *testing.T, process func() (int, error)) {
	t.Helper()
	first, err := process()
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	testkit.Eventually(t, time.Minute, func() error {
		second, err := process()
		if err == nil && second == first {
			return fmt.Errorf("process %d has not ended", first)
		}
		return err
	})
}

// redisProcess gives the id of the process that answers.
func redisProcess(ctx context.Context, url string) (int, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return 0, err
	}
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }() // all that matters has been read
	info, err := client.InfoMap(ctx, "server").Result()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(info["Server"]["process_id"])
}

// postgresProcess gives the id of the server's first process, if it answers.
func postgresProcess(ctx context.Context, url, data string) (int, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(ctx) }() // it has answered
	lock, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(lock), "\n")
	return strconv.Atoi(first)
}
