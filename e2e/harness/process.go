package harness

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// stopTime is how long a program may take to end in order.
	stopTime = 40 * time.Second
	// commandTime bounds a command that ends by itself.
	commandTime = 2 * time.Minute
)

// Process is a program that was started here; it ends with the test.
type Process struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	// Out and Err are what it prints.
	Out, Err *Text
	ended    chan struct{} // closed when it has ended
}

// Launch starts a program that goes on by itself. Its process group is its own, as if a shell had started it.
func Launch(t testing.TB, name string, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{t: t, name: name, cmd: cmd, Out: &Text{}, Err: &Text{}, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.Out, p.Err
	if cmd.Dir == "" {
		cmd.Dir = t.TempDir()
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start(), name)
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // ExitCode tells
	}()
	t.Cleanup(p.cleanup)
	return p
}

// Pawl is a command of the pawl program with more environment.
func Pawl(t testing.TB, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(Binary(t), args...)
	cmd.Env = append(cmd.Environ(), env...)
	return cmd
}

func (p *Process) cleanup() {
	p.Stop()
	if p.t.Failed() {
		p.t.Logf("%s printed:\n%s\nand to standard error:\n%s", p.name, p.Out.tail(), p.Err.tail())
	}
}

// Stop ends the program in order, and fails the test when that takes too long.
func (p *Process) Stop() {
	if p.Signal(syscall.SIGTERM) != nil {
		return
	}
	select {
	case <-p.ended:
	case <-time.After(stopTime):
		p.t.Errorf("%s did not end within %v of SIGTERM", p.name, stopTime)
		_ = p.Signal(syscall.SIGKILL)
		<-p.ended
	}
}

// Signal sends the signal to the process group, as a terminal does; an error says that the program has ended.
func (p *Process) Signal(s syscall.Signal) error {
	select {
	case <-p.ended:
		return errors.New("ended")
	default:
		return syscall.Kill(-p.cmd.Process.Pid, s)
	}
}

// ExitCode waits until the program has ended by itself and returns its exit code; it fails the test when that takes longer
// than the limit.
func (p *Process) ExitCode(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		p.t.Fatalf("%s has not ended within %v", p.name, limit)
	}
	return p.cmd.ProcessState.ExitCode()
}

// RequireRunning fails the test when the program has ended.
func (p *Process) RequireRunning() {
	p.t.Helper()
	select {
	case <-p.ended:
		p.t.Fatalf("%s ended with code %d", p.name, p.cmd.ProcessState.ExitCode())
	default:
	}
}

// Result is how a command ended.
type Result struct {
	Code     int
	Out, Err string
}

// Run runs a command of the pawl program to its end, with an input.
func Run(t testing.TB, env []string, input string, args ...string) Result {
	t.Helper()
	cmd := Pawl(t, env, args...)
	cmd.Dir = Root()
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewBufferString(input), &out, &errs
	ctx, cancel := context.WithTimeout(t.Context(), commandTime)
	defer cancel()
	require.NoError(t, cmd.Start())
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		_, exited := errors.AsType[*exec.ExitError](err)
		require.True(t, exited, "pawl %v: %v", args, err)
	}
	return Result{Code: cmd.ProcessState.ExitCode(), Out: out.String(), Err: errs.String()}
}

// Text keeps what a program prints.
type Text struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all that was printed.
func (l *Text) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// tail returns the end of what was printed.
func (l *Text) tail() string {
	const most = 12_000
	text := l.String()
	return text[max(0, len(text)-most):]
}
