package redisconn_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/redisconn"
	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func open(t *testing.T, url string, allowEviction bool) error {
	t.Helper()
	client, err := redisconn.Open(t.Context(), redisconn.Config{URL: config.NewSecret(url), AllowEviction: allowEviction})
	if err == nil {
		require.NoError(t, client.Close())
	}
	return err
}

func TestServerThatEvictsIsRefusedUnlessAllowed(t *testing.T) {
	t.Parallel()
	server := testkit.PrivateRedis(t)
	keys := testkit.KeysAt(t, server.URL())
	require.NoError(t, keys.Client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	require.ErrorContains(t, open(t, server.URL(), false), "maxmemory-policy allkeys-lru")
	require.NoError(t, open(t, server.URL(), true))
	require.NoError(t, keys.Client.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
	require.NoError(t, open(t, server.URL(), false))
}

func TestFullServerIsUnavailableNotBroken(t *testing.T) {
	t.Parallel()
	keys := testkit.KeysAt(t, testkit.PrivateRedis(t).URL())
	require.NoError(t, keys.Client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	err := redisconn.Fault(keys.Client.Set(t.Context(), "k", "v", 0).Err())
	require.Equal(t, codes.Unavailable, fault.CodeOf(err))
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"":                                 "give --redis-url",
		"http://hidden@h":                  "write redis://",
		"redis+sentinel://:hidden@h/notdb": "write redis://",
		"redis+cluster://:hidden@h:x:y/":   "write redis://",
		"redis://:hidden@127.0.0.1:1/0":    "redis is not available",
	} {
		err := open(t, url, false)
		require.ErrorContains(t, err, want, url)
		require.NotContains(t, err.Error(), "hidden")
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	keys := testkit.Redis(t)
	require.NoError(t, redisconn.Fault(nil))
	require.ErrorIs(t, redisconn.Fault(keys.Client.Get(t.Context(), keys.Prefix).Err()), redis.Nil)
	require.NoError(t, keys.Client.Set(t.Context(), keys.Prefix, "text", 0).Err())
	wrongType := redisconn.Fault(keys.Client.LLen(t.Context(), keys.Prefix).Err())
	require.ErrorContains(t, wrongType, "WRONGTYPE")
	require.Equal(t, codes.Internal, fault.CodeOf(wrongType))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, codes.Canceled, fault.CodeOf(redisconn.Fault(keys.Client.Ping(ended).Err())))
	require.Equal(t, codes.Unavailable, fault.CodeOf(redisconn.Fault(errors.New("connection reset"))))
}
