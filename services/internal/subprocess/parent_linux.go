package subprocess

import "syscall"

// dieWithParent lets the kernel send the signal when we end.
func dieWithParent(attributes *syscall.SysProcAttr, signal syscall.Signal) {
	attributes.Pdeathsig = signal
}
