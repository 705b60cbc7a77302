package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// At lists the processes that belong to a system on a data folder: those whose command line names the folder or that work
// inside it. Servers that a system leaves behind are found too, whoever is their parent by now.
func At(t testing.TB, folder string) []string {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	var found []string
	for _, entry := range entries {
		// A process may end between any two looks; then it is not there.
		args, _ := os.ReadFile(filepath.Join(entry, "cmdline"))
		at, _ := os.Readlink(filepath.Join(entry, "cwd"))
		words := strings.Split(string(args), "\x00")
		names := slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, folder) })
		if names || at == folder || strings.HasPrefix(at, folder+"/") {
			found = append(found, fmt.Sprintf("%s in %s: %s", filepath.Base(entry), at, strings.Join(words, " ")))
		}
	}
	return found
}

// Running reports whether there is a process with this id.
func Running(pid int) bool {
	state, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(state), ") ")
	return !strings.HasPrefix(after, "Z") // a zombie has ended; only its parent has not asked yet
}
