//go:build unix && !linux

package subprocess

import "syscall"

// dieWithParent does nothing where the kernel has no such service.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
