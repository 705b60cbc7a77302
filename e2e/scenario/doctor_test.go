package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
)

// The doctor finds nothing in a system that works, whether it is told where the stores are or finds them by the data folder.
func TestDoctorFindsNothingInAWorkingSystem(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{})
	s.Doctor()
	result := harness.Run(t, "", "doctor", "--data-dir", s.DataDir)
	require.Zero(t, result.Code, "%s\n%s", result.Err, result.Out)
}
