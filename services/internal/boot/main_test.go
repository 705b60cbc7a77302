package boot

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

type coded struct{ error }

func (coded) ExitCode() int { return 7 }

func TestExitCode(t *testing.T) {
	t.Parallel()
	require.Equal(t, 0, exitCode(nil))
	require.Equal(t, 1, exitCode(errors.New("any")))
	require.Equal(t, 7, exitCode(fmt.Errorf("wrapped: %w", coded{errors.New("run failed")})))
}
