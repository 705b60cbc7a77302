//go:build unix && !linux

package testkit

import "syscall"

// attributes give a process a group of its own, by which it is ended with all its children.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// stands would report whether the process has been stopped; here it is taken for granted.
func stands(int) bool { return true }
