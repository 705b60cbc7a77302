package testkit

import (
	"fmt"
	"syscall"
)

func mountMemory(folder string, mebibytes int) error {
	return syscall.Mount("tmpfs", folder, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0711", mebibytes))
}

func unmount(folder string) error { return syscall.Unmount(folder, syscall.MNT_DETACH) }
