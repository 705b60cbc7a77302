//go:build failpoints

package failpoint

import (
	"os"
	"runtime"
	"syscall"
)

// stop returns when somebody has sent SIGCONT. The signal goes to this very thread, so that it stops before it goes on.
func stop() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, _, _ = syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(syscall.Gettid()), uintptr(syscall.SIGSTOP))
}
