package testkit

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// attributes give a process a group of its own, by which it is ended with all its children, and let the kernel end it when
// the test binary is killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// stands reports whether every thread of the process has been stopped.
func stands(pid int) bool {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return false
	}
	for _, thread := range threads {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/status", pid, thread.Name()))
		if err == nil && !strings.Contains(string(status), "State:\tT") {
			return false
		}
	}
	return true
}
