package localstore

import "syscall"

// attributes put the child into a process group of its own, so that Ctrl-C reaches us first and we stop it in order, and
// let the kernel end it cleanly when we are killed.
func attributes(as *identity) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGINT, Credential: as}
}
