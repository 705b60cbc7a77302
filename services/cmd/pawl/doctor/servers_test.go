package doctor

import (
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/internal/checkup"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/redisconn"
	llm "pawl.internal/services/llmgateway/inspect"
	core "pawl.internal/services/orchestrator/inspect"
	"pawl.internal/services/testkit"
)

// What the doctor takes for usual is what services do without flags.
func TestUsualIsWhatTheFlagsSay(t *testing.T) {
	t.Parallel()
	var usual serve.Config
	parser, err := kong.New(&usual, config.Options()...)
	require.NoError(t, err)
	_, err = parser.Parse(nil)
	require.NoError(t, err)
	require.Equal(t, core.UsualLease, usual.Orchestrator.Lease)
	require.Equal(t, llm.UsualLease, usual.LLMGateway.Lease)
	require.EqualValues(t, mainConns, usual.Database.MaxConns)
	require.EqualValues(t, controlConns, usual.Orchestrator.ControlConns)
	require.EqualValues(t, controlConns, usual.LLMGateway.ControlConns)
}

// What cannot be planted in a server that tests share is found when the bounds are moved instead.
func TestServerChecks(t *testing.T) {
	t.Parallel()
	database, keys := testkit.Postgres(t, serve.Schemas()...), testkit.Redis(t)
	target := &checkup.Target{Pool: database.Pool, Redis: keys.Client, Prefix: keys.Prefix, Clock: clock.System()}
	find := func(query string, args ...any) []checkup.Finding {
		found, err := checkup.Query(query, args...)(t.Context(), target)
		require.NoError(t, err)
		return found
	}
	require.Empty(t, find(oldPostgres, leastPostgres))
	require.Len(t, find(oldPostgres, 1000), 1)
	require.Contains(t, find(unsafeSettings), checkup.Finding{Key: "fsync", Detail: "fsync is off"}, "servers of tests do without fsync")
	require.Len(t, find(connections, 1_000_000, controlConns, -1_000_000), 1)
	require.Len(t, find(connections, 0, 0, 1_000_000), 1)

	tx, err := database.Pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT pg_current_xact_id()")
	require.NoError(t, err)
	require.NotEmpty(t, find(oldSnapshots, "0 seconds"))
	require.NoError(t, tx.Rollback(t.Context()))
	require.Empty(t, find(oldSnapshots, "1 hour"))
}

func TestRedisChecks(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, unsupported(redisconn.Server{Version: "6.2.7"}))
	require.Empty(t, unsupported(redisconn.Server{Version: "7.0.15"}))
	keys := testkit.KeysAt(t, testkit.PrivateRedis(t).URL())
	ask := func() redisconn.Server {
		server, err := redisconn.Ask(t.Context(), keys.Client)
		require.NoError(t, err)
		return server
	}
	require.Empty(t, evicting(ask()))
	require.NoError(t, keys.Client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	require.Equal(t, "maxmemory-policy is allkeys-lru", evicting(ask()))
	require.NoError(t, keys.Client.ConfigSet(t.Context(), "save", "60 1").Err())
	require.Contains(t, persisting(ask()), "snapshots: true")
	require.NoError(t, keys.Client.ConfigSet(t.Context(), "save", "").Err())
	require.NoError(t, keys.Client.ConfigSet(t.Context(), "appendonly", "no").Err())
	require.Empty(t, persisting(ask()))
}
