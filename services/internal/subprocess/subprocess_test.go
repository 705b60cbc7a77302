package subprocess_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/subprocess"
	"pawl.internal/services/testkit"
)

// parentVariable makes the test binary a program that starts another, says its process id, and waits.
const parentVariable = "PAWL_TEST_PARENT"

func TestMain(m *testing.M) {
	if _, ok := os.LookupEnv(parentVariable); ok {
		p, err := subprocess.Start(exec.Command("sleep", "300"), syscall.SIGKILL)
		if err != nil {
			fmt.Fprintln(os.Stdout, err)
			return
		}
		fmt.Fprintln(os.Stdout, p.PID())
		_ = p.Wait()
		return
	}
	testkit.Main(m)
}

func TestEndOfAProgramIsKnown(t *testing.T) {
	t.Parallel()
	p, err := subprocess.Start(exec.Command("sh", "-c", "exit 3"), syscall.SIGKILL)
	require.NoError(t, err)
	ended, ok := errors.AsType[*exec.ExitError](p.Wait())
	require.True(t, ok)
	require.Equal(t, 3, ended.ExitCode())
	<-p.Exited()
	p.Signal(syscall.SIGTERM)
	p.SignalGroup(syscall.SIGTERM)

	_, err = subprocess.Start(exec.Command("/does/not/exist"), syscall.SIGKILL)
	require.ErrorContains(t, err, "start /does/not/exist")
}

func TestProgramHasAGroupOfItsOwn(t *testing.T) {
	t.Parallel()
	p, err := subprocess.Start(exec.Command("sh", "-c", "sleep 300 & wait"), syscall.SIGKILL)
	require.NoError(t, err)
	group, err := syscall.Getpgid(p.PID())
	require.NoError(t, err)
	require.Equal(t, p.PID(), group)
	p.SignalGroup(syscall.SIGKILL)
	require.Error(t, p.Wait())
}

func TestProgramEndsWithAParentThatIsKilled(t *testing.T) {
	t.Parallel()
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"=yes")
	output, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	require.True(t, runs(pid))
	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait())
	testkit.Eventually(t, 10*time.Second, func() error {
		if runs(pid) {
			return errors.New("the program outlived its parent")
		}
		return nil
	})
}

// runs reports whether the process exists and is not merely waiting to be collected.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
