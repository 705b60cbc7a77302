// Package harness runs the whole of Pawl for tests: its services as separate processes, the simulated provider beside them,
// which counts what it is asked, a foreign one, and the command line. Processes are ended by id, and only those that were
// started here.
package harness

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/testkit"
)

// commandTime bounds a command that ends by itself.
const commandTime = 2 * time.Minute

// Root is the folder of the repository.
func Root() string {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		panic("the test binary does not know its sources")
	}
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Binary returns the path of the pawl program, built from the sources at hand with build tags.
func Binary(t testing.TB, tags ...string) string {
	t.Helper()
	return testkit.Build(t, "pawl.internal/services/cmd/pawl", tags...)
}

// Launch runs a command of the pawl program that goes on by itself, in the repository's folder and with more environment.
func Launch(t testing.TB, env []string, args ...string) *testkit.Process {
	t.Helper()
	return testkit.Start(t, testkit.ProcessConfig{Path: Binary(t), Args: args, Env: env, Dir: Root()})
}

// Result is how a command ended.
type Result struct {
	Code     int
	Out, Err string
}

// Run runs a command of the pawl program to its end, in the repository's folder and with an input.
func Run(t testing.TB, input string, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, Binary(t), args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = Root(), strings.NewReader(input), &out, &errs
	if err := cmd.Run(); err != nil {
		_, exited := errors.AsType[*exec.ExitError](err)
		require.True(t, exited, "pawl %v: %v", args, err)
	}
	return Result{Code: cmd.ProcessState.ExitCode(), Out: out.String(), Err: errs.String()}
}

// WriteFile writes a file into a folder of the test's.
func WriteFile(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}
