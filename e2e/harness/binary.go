// Package harness runs Pawl's real programs for tests: the whole system as separate processes, the simulated provider
// beside it, which counts what it is asked, and the command line. Processes are ended by id, and only those that were
// started here. A package that uses it says so in its TestMain, as testkit wants it.
package harness

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"pawl.internal/services/testkit"
)

// Root is the folder of the repository.
func Root() string {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		panic("the test binary does not know its sources")
	}
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// build makes the pawl binary once for a test binary.
var build = sync.OnceValues(func() (string, error) {
	folder, err := testkit.Folder()
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "pawl")
	command := exec.Command("go", "build", "-o", path, "./services/cmd/pawl")
	command.Dir = Root()
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build pawl: %w\n%s", err, output)
	}
	return path, nil
})

// Binary returns the path of the pawl program, built from the sources at hand.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
