package localstore

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// postgresPlaces are where packages of PostgreSQL put their binaries, one folder a version.
func postgresPlaces() []string {
	return []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin", "/Library/PostgreSQL/*/bin",
	}
}

const howToInstallPostgres = "install it (Debian, Ubuntu: apt-get install postgresql; Fedora: dnf install " +
	"postgresql-server; macOS: brew install postgresql@17), or give the URL of a server in PAWL_DATABASE_URL"

// findPostgres returns the folder of the newest installed PostgreSQL, or of exactly the version that a cluster was made by.
func findPostgres(version string) (string, error) {
	var folders []string
	for _, pattern := range postgresPlaces() {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("find PostgreSQL: %w", err)
		}
		folders = append(folders, matches...)
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		folders = append(folders, filepath.Dir(path))
	}
	return choosePostgres(folders, version)
}

// choosePostgres returns the folder with the newest binaries, or with those of exactly the version, if one is given.
func choosePostgres(folders []string, version string) (string, error) {
	newest, at := 0, ""
	for _, folder := range folders {
		major := majorVersion(folder)
		if version != "" && strconv.Itoa(major) != version {
			continue
		}
		if major > newest {
			newest, at = major, folder
		}
	}
	switch {
	case at != "":
		return at, nil
	case version != "":
		return "", fmt.Errorf("the data folder was made by PostgreSQL %s, which is not installed: %s, or choose another "+
			"data folder", version, howToInstallPostgres)
	default:
		return "", errors.New("PostgreSQL is not installed: " + howToInstallPostgres)
	}
}

// majorVersion asks the binaries in a folder for their version; 0 when they are not complete.
func majorVersion(folder string) int {
	if _, err := os.Stat(filepath.Join(folder, "initdb")); err != nil {
		return 0
	}
	output, err := exec.Command(filepath.Join(folder, "postgres"), "--version").Output() //nolint:noctx // it only prints
	if err != nil {
		return 0
	}
	words := strings.Fields(string(output)) // "postgres (PostgreSQL) 15.18 (…)"
	if len(words) < 3 {
		return 0
	}
	digits := words[2]
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	major, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return major
}

// clusterVersion is the major version that made the cluster; "" when there is no cluster.
func clusterVersion(data string) string {
	content, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// databaseUser is whom PostgreSQL runs as: it refuses root, so root lends it an unprivileged user.
func databaseUser() (*identity, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		return &identity{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody to lend it: " +
		"start as another user")
}

// handOver gives a file or folder to the database's user, and checks that this user can reach it at all.
func handOver(path string, to *identity) error {
	if to == nil {
		return nil
	}
	if err := os.Chown(path, int(to.Uid), int(to.Gid)); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	for folder := filepath.Dir(path); folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		if !mayPass(folder, to) {
			return fmt.Errorf("PostgreSQL runs as user %d, who may not enter %s: choose a data folder elsewhere, such as "+
				"/var/lib/pawl", to.Uid, folder)
		}
	}
	return nil
}

// mayPass reports whether the user may go through the folder.
func mayPass(folder string, who *identity) bool {
	info, err := os.Stat(folder)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	switch mode := info.Mode().Perm(); {
	case stat.Uid == who.Uid:
		return mode&0o100 != 0
	case stat.Gid == who.Gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}

// isPostgres reports whether the process runs PostgreSQL. Where that cannot be seen, a process that exists is taken for one.
func isPostgres(pid int) bool {
	if !exists(pid) {
		return false
	}
	comm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	if err != nil {
		return true
	}
	return slices.Contains([]string{"postgres", "postmaster"}, strings.TrimSpace(string(comm)))
}

func exists(pid int) bool { return syscall.Kill(pid, 0) == nil }

// isZombie reports whether the process has ended, and only its parent has not asked yet.
func isZombie(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
