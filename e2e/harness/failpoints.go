package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/testkit"
)

// Failpoints arms the processes of a running System; package failpoint in services/internal says what rules are.
type Failpoints struct {
	t      testing.TB
	folder string
}

// NewFailpoints returns failpoints of which none is armed.
func NewFailpoints(t testing.TB) *Failpoints { return &Failpoints{t: t, folder: t.TempDir()} }

// For is the same for a subtest.
func (f *Failpoints) For(t testing.TB) *Failpoints { return &Failpoints{t: t, folder: f.folder} }

func (f *Failpoints) env() []string { return []string{"PAWL_FAILPOINT_DIR=" + f.folder} }

// Arm replaces the rules, from now on, and forgets what has acted before. Without rules nothing happens any more.
func (f *Failpoints) Arm(rules ...string) {
	f.t.Helper()
	f.write("")
	marks, err := filepath.Glob(filepath.Join(f.folder, "*.hit"))
	require.NoError(f.t, err)
	for _, mark := range marks {
		require.NoError(f.t, os.Remove(mark))
	}
	f.write(strings.Join(rules, "\n"))
}

// write replaces the file at once: processes read it all the time.
func (f *Failpoints) write(rules string) {
	f.t.Helper()
	fresh := filepath.Join(f.folder, "armed.new")
	require.NoError(f.t, os.WriteFile(fresh, []byte(rules), 0o600))
	require.NoError(f.t, os.Rename(fresh, filepath.Join(f.folder, "armed")))
}

// Acted returns the process in which the rule, which is named by what stands before its `=`, acted first; 0 if none did.
func (f *Failpoints) Acted(rule string) (pid int) {
	f.t.Helper()
	mark, err := os.ReadFile(filepath.Join(f.folder, rule+".hit"))
	if os.IsNotExist(err) || len(mark) == 0 {
		return 0
	}
	require.NoError(f.t, err)
	pid, err = strconv.Atoi(strings.TrimSpace(string(mark)))
	require.NoError(f.t, err)
	return pid
}

// AwaitActed waits until the rule has acted, and returns in which process.
func (f *Failpoints) AwaitActed(rule string) (pid int) {
	f.t.Helper()
	Eventually(f.t, func() error {
		if pid = f.Acted(rule); pid == 0 {
			return fmt.Errorf("nobody has come to %s", rule)
		}
		return nil
	})
	return pid
}

// AwaitStopped waits until the rule has stopped a process, and returns what lets it go on.
func (f *Failpoints) AwaitStopped(rule string) (resume func()) {
	f.t.Helper()
	pid := f.AwaitActed(rule)
	Eventually(f.t, func() error {
		if !testkit.Stands(pid) {
			return fmt.Errorf("process %d still runs", pid)
		}
		return nil
	})
	return func() {
		f.t.Helper()
		require.NoError(f.t, syscall.Kill(pid, syscall.SIGCONT), "process %d", pid)
	}
}
