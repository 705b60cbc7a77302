//go:build unix && !linux

package localstore

import "syscall"

// attributes put the child into a process group of its own, so that Ctrl-C reaches us first and we stop it in order. When
// we are killed, the child stays; the next start reports it.
func attributes(as *identity) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: as}
}
