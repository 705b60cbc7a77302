package golden_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/golden"
)

// recorder is a test whose failure is looked at.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Errorf(format string, args ...any) { r.said = fmt.Sprintf(format, args...) }
func (r *recorder) FailNow()                          { runtime.Goexit() }

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	r.FailNow()
}

func said(t *testing.T, path, got string) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		golden.Assert(r, path, []byte(got))
	}()
	<-done
	return r.said
}

func TestOnlyTheSameContentPasses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.golden")
	require.Contains(t, said(t, path, "a"), "run the test with -update to make it")
	require.NoError(t, os.WriteFile(path, []byte("a\n"), 0o600))
	require.Empty(t, said(t, path, "a\n"))
	require.Contains(t, said(t, path, "a"), "run the test with -update if that is meant")
}
