package testkit

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// fillBlock is how much is written to a disk at a time while there is room for it.
const fillBlock = 1 << 20

// Disk is a small filesystem of a test's own, in memory, which it may fill.
type Disk struct {
	tb testing.TB
	// Folder is where it is mounted. Every user may enter it.
	Folder string
}

// NewDisk mounts a disk of so many MiB for the time of the test. It takes the right to mount, which root has.
func NewDisk(tb testing.TB, mebibytes int) *Disk {
	tb.Helper()
	d := &Disk{tb: tb, Folder: privateFolder(tb)}
	require.NoError(tb, mountMemory(d.Folder, mebibytes), "mount a small disk: run this test as root")
	tb.Cleanup(func() { require.NoError(tb, unmount(d.Folder)) })
	return d
}

// smallDiskSettings are those of a PostgreSQL server that fits on a Disk of 160 MiB with room for little else.
func smallDiskSettings() []string {
	return []string{"max_wal_size=64MB", "min_wal_size=32MB", "wal_recycle=off", "shared_buffers=64MB"}
}

func (d *Disk) filler() string { return filepath.Join(d.Folder, "filler") }

// Fill leaves no byte free. It may be called again, since whoever else writes there also removes.
func (d *Disk) Fill() {
	d.tb.Helper()
	file, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(d.tb, err)
	defer func() { require.NoError(d.tb, file.Close()) }()
	for block := fillBlock; block > 0; {
		_, err := file.Write(make([]byte, block))
		switch {
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, io.ErrShortWrite):
			block /= 2
		case err != nil:
			require.NoError(d.tb, err)
		}
	}
}

// Free ends Fill.
func (d *Disk) Free() {
	d.tb.Helper()
	require.NoError(d.tb, os.Remove(d.filler()))
}
