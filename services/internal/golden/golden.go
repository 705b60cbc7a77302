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

// Assert fails the test when got is not what the file holds. The file is usually testdata/….golden, or a generated page of
// the documentation.
func Assert(t testing.TB, path string, got []byte) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644)) //nolint:gosec // a file of the repository, for everybody
		return
	}
	want, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s does not exist: run the test with -update to make it", path)
	}
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "%s differs: run the test with -update if that is meant", path)
}
