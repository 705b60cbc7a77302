package testkit

import (
	"fmt"
	"os"
	"strings"
)

// Stands reports whether every thread of the process has been stopped.
func Stands(pid int) bool {
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
