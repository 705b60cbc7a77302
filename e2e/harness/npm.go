package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// InstallNPM fetches packages of exact versions once for this machine's user, and returns the folder that has node_modules in it.
// The name, which carries the versions, is the folder's.
func InstallNPM(t testing.TB, name string, packages ...string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	folder := filepath.Join(cache, "pawl-e2e", name)
	if _, err := os.Stat(folder); err == nil {
		return folder
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(folder), 0o755))
	unfinished, err := os.MkdirTemp(filepath.Dir(folder), "unfinished-") //nolint:usetesting // it is moved to where it stays
	require.NoError(t, err)
	defer func() { _ = os.RemoveAll(unfinished) }() // it has been moved, or is of no use
	arguments := append([]string{"install", "--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--prefix", unfinished}, packages...)
	output, err := exec.Command("npm", arguments...).CombinedOutput()
	require.NoError(t, err, "npm (install Node.js 20 or later): %s", output)
	if err := os.Rename(unfinished, folder); err != nil {
		require.DirExists(t, folder, "%v", err) // another test binary was quicker
	}
	return folder
}
