package harness

import "github.com/stretchr/testify/require"

// doctorPatience is how much longer than promised a system under test may take to put something right: other tests run beside.
const doctorPatience = "10s"

// Doctor fails the test when `pawl doctor` finds anything in the system.
func (s *System) Doctor() {
	s.t.Helper()
	found := Run(s.t, "", "doctor", "--database-url", s.record.DatabaseURL, "--redis-url", s.record.RedisURL,
		"--redis-prefix", s.record.RedisPrefix, "--patience", doctorPatience)
	require.Zero(s.t, found.Code, "pawl doctor: %s\n%s", found.Err, found.Out)
}
