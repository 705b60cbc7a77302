package dev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// lockName is the file whose lock says that a system runs on a data folder. The kernel takes the lock back when the process
// ends, however it does.
const lockName = "lock"

// take takes the data folder for this process until the file is closed; held is the process that has it already, if any.
func take(folder string) (lock *os.File, held int, err error) {
	lock, err = os.OpenFile(filepath.Join(folder, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, 0, err
	}
	err = syscall.FcntlFlock(lock.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK})
	if err == nil {
		return lock, 0, nil
	}
	defer lock.Close() //nolint:errcheck // nothing was written
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		held, err = holder(folder)
		return nil, held, err
	}
	return nil, 0, fmt.Errorf("lock %s: %w", lock.Name(), err)
}

// holder returns the process that has taken the data folder; 0 when none has. It must not be asked in that process: closing
// the file there would give the lock back.
func holder(folder string) (pid int, err error) {
	file, err := os.Open(filepath.Join(folder, lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	lock := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_GETLK, &lock); err != nil {
		return 0, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	if lock.Type == syscall.F_UNLCK {
		return 0, nil
	}
	return int(lock.Pid), nil
}
