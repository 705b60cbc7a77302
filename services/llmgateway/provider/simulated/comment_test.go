package simulated_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// packageComment is what stands before the package clause, as it is in the file.
func packageComment(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile("simulated.go")
	require.NoError(t, err)
	comment, _, found := strings.Cut(string(source), "\npackage simulated\n")
	require.True(t, found)
	return comment
}
