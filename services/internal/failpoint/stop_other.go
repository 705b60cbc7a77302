//go:build failpoints && unix && !linux

package failpoint

import (
	"os"
	"syscall"
)

// stop returns when somebody has sent SIGCONT; this thread may go on for a moment before it stops.
func stop() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }
