package testkit

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/localstore"
	"pawl.internal/services/internal/redisconn"
)

// Keys is a test's own part of a Redis server.
type Keys struct {
	Client redis.UniversalClient
	URL    string
	// Prefix begins every key of the test; it takes the place of redisconn.Config.Prefix.
	Prefix string
}

// Redis returns keys of a server that other tests use too. A test that flushes or stops the server needs PrivateRedis.
func Redis(tb testing.TB) *Keys {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), setupTime)
	defer cancel()
	server, err := given(ctx, RedisURLVariable, (*Stores).RedisURL)
	require.NoError(tb, err)
	return KeysAt(tb, server)
}

// KeysAt is Redis on a particular server, such as one of PrivateRedis.
func KeysAt(tb testing.TB, server string) *Keys {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), setupTime)
	defer cancel()
	client, err := redisconn.Open(ctx, redisconn.Config{URL: config.NewSecret(server)})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, client.Close()) })
	return &Keys{Client: client, URL: server, Prefix: "test" + rand.Text()}
}

// PrivateRedis returns a server that the test may flush, stop and kill as it likes.
func PrivateRedis(tb testing.TB) *localstore.Redis {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), setupTime)
	defer cancel()
	folder := privateFolder(tb)
	server, err := startRedis(ctx, folder)
	require.NoError(tb, err)
	tb.Cleanup(server.Kill)
	return server
}
