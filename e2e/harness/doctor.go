package harness

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/testkit"
)

// doctorPatience is how much longer than promised a system under test may take to put something right: other tests run beside.
const doctorPatience = "10s"

// Doctor fails the test when `pawl doctor` finds anything in the system.
func (s *System) Doctor() {
	s.t.Helper()
	record := s.Record()
	RequireHealthy(s.t, record.DatabaseURL, &testkit.Keys{URL: record.RedisURL, Prefix: record.RedisPrefix})
}

// RequireHealthy fails the test when `pawl doctor` finds anything in the system whose state is in these stores.
func RequireHealthy(t testing.TB, databaseURL string, redis *testkit.Keys) {
	t.Helper()
	result := Doctor(t, databaseURL, redis)
	require.Zero(t, result.Code, "pawl doctor: %s\n%s", result.Err, result.Out)
}

// Doctor runs `pawl doctor` on these stores.
func Doctor(t testing.TB, databaseURL string, redis *testkit.Keys, args ...string) Result {
	t.Helper()
	return Run(t, "", append([]string{
		"doctor", "--database-url", databaseURL, "--redis-url", redis.URL, "--redis-prefix", redis.Prefix, "--patience", doctorPatience,
	}, args...)...)
}
