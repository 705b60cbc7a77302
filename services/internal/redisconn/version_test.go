package redisconn

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyServersKnownToBeTooOldAreRefused(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, checkVersion("6.2.14"), "7 or newer")
	for _, version := range []string{"7.0.15", "8.2.0", "10.0", "", "valkey"} {
		require.NoError(t, checkVersion(version))
	}
	require.Equal(t, "7.0.15", field("# Server\r\nredis_version:7.0.15\r\nx:y\r\n", "redis_version"))
	require.Empty(t, field("# Server\r\n", "redis_version"))
}
