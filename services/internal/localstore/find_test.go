package localstore

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeBinaries makes a folder that looks like an installed PostgreSQL.
func fakeBinaries(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + "'\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "postgres"), []byte(script), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "initdb"), nil, 0o755))
	return dir
}

func TestNewestPostgresOrThatOfTheClusterIsChosen(t *testing.T) {
	t.Parallel()
	old, fresh, beta := fakeBinaries(t, "9.6.24"), fakeBinaries(t, "17.2 (Debian 17.2-1)"), fakeBinaries(t, "16beta1")
	folders := []string{old, fresh, beta, t.TempDir(), fakeBinaries(t, "")}
	found, err := choosePostgres(folders, "")
	require.NoError(t, err)
	require.Equal(t, fresh, found)
	found, err = choosePostgres(folders, "16")
	require.NoError(t, err)
	require.Equal(t, beta, found)
	_, err = choosePostgres(folders, "15")
	require.ErrorContains(t, err, "made by PostgreSQL 15, which is not installed")
	_, err = choosePostgres(nil, "")
	require.ErrorContains(t, err, "PostgreSQL is not installed: install it")
}

func TestWhoMayPassAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	owner := &identity{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())}
	member := &identity{Uid: 4_000_000, Gid: owner.Gid}
	stranger := &identity{Uid: 4_000_000, Gid: 4_000_000}
	for mode, want := range map[os.FileMode][3]bool{
		0o700: {true, false, false}, 0o710: {true, true, false}, 0o701: {true, false, true}, 0o066: {false, false, false},
	} {
		require.NoError(t, os.Chmod(dir, mode))
		require.Equal(t, want, [3]bool{mayPass(dir, owner), mayPass(dir, member), mayPass(dir, stranger)}, mode)
	}
	require.NoError(t, os.Chmod(dir, 0o700))
	require.False(t, mayPass(filepath.Join(dir, "missing"), owner))
}
