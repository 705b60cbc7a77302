package pg_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/testkit"
)

// A server that hangs ends no statement: whoever asks it without a deadline gives up all the same, and is served again when
// the server is back.
func TestAServerThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	server := testkit.PrivatePostgres(t)
	pool, err := pg.Open(t.Context(), pg.Config{
		URL: config.NewSecret(server.URL()), StatementTimeout: 200 * time.Millisecond, ConnectTimeout: time.Second, MaxConns: 3,
	}, "test")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	require.NoError(t, pg.Ping(t.Context(), pool))
	asks := map[string]func(context.Context) error{
		"statement": func(ctx context.Context) error {
			_, err := pool.Exec(ctx, "SELECT 1")
			return err
		},
		"query": func(ctx context.Context) error {
			var n int
			return pool.QueryRow(ctx, "SELECT 1").Scan(&n)
		},
		"batch": func(ctx context.Context) error {
			batch := &pgx.Batch{}
			batch.Queue("SELECT 1")
			return pool.SendBatch(ctx, batch).Close()
		},
	}
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	answers := make(chan error, len(asks))
	for _, ask := range asks {
		go func() { answers <- ask(context.WithoutCancel(t.Context())) }()
	}
	for range asks {
		select {
		case err := <-answers:
			require.Contains(t, []codes.Code{codes.DeadlineExceeded, codes.Unavailable}, fault.CodeOf(pg.Fault(err)), "%v", err)
		case <-ctx.Done():
			server.Resume()
			require.Fail(t, "nobody gives up")
		}
	}
	server.Resume()
	for name, ask := range asks {
		testkit.Eventually(t, 20*time.Second, func() error { return ask(t.Context()) })
		require.NoError(t, ask(t.Context()), name)
	}
}
