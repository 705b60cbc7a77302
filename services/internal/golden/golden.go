// Package golden compares what a test produced with a file, and rewrites the file when the tests run with -update.
package golden

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

//nolint:gochecknoglobals // flags of a test binary are global by nature
var update = flag.Bool("update", false, "rewrite golden files with what the tests produce")

// Updating reports whether the tests run with -update.
func Updating() bool { return *update }

// Assert fails the test when got is not what the file holds. The file is usually testdata/….golden, or a generated page of
// the documentation.
func Assert(tb testing.TB, path string, got []byte) {
	tb.Helper()
	if *update {
		require.NoError(tb, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(tb, os.WriteFile(path, got, 0o644)) //nolint:gosec // a file of the repository, for everybody
		return
	}
	want, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		tb.Fatalf("%s does not exist: run the test with -update to make it", path)
	}
	require.NoError(tb, err)
	require.Equal(tb, string(want), string(got), "%s differs: run the test with -update if that is meant", path)
}
