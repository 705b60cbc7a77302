package harness

import (
	"bytes"
	"errors"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// stopTime is how long a program may take to end in order.
const stopTime = 40 * time.Second

// process is a program that was started here; it ends with the test.
type process struct {
	t      testing.TB
	name   string
	cmd    *exec.Cmd
	output lines
	ended  chan struct{} // closed when it has ended
}

// start runs the pawl program with arguments.
func start(t testing.TB, name string, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: exec.Command(Binary(t), args...), ended: make(chan struct{})}
	p.cmd.Env = append(p.cmd.Environ(), env...)
	p.cmd.Dir = t.TempDir()
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // how it ended shows in its output
	}()
	t.Cleanup(p.cleanup)
	return p
}

func (p *process) cleanup() {
	p.stop()
	if p.t.Failed() {
		p.t.Logf("output of %s:\n%s", p.name, p.output.tail())
	}
}

// stop ends the program in order, and fails the test when that takes too long.
func (p *process) stop() {
	if p.signal(syscall.SIGTERM) != nil {
		return
	}
	select {
	case <-p.ended:
	case <-time.After(stopTime):
		p.t.Errorf("%s did not end within %v of SIGTERM", p.name, stopTime)
		_ = p.signal(syscall.SIGKILL)
		<-p.ended
	}
}

// signal sends the signal; an error says that the program has ended.
func (p *process) signal(s syscall.Signal) error {
	select {
	case <-p.ended:
		return errors.New("ended")
	default:
		return p.cmd.Process.Signal(s)
	}
}

// lines keeps what a program prints.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all that was printed.
func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// tail returns the end of what was printed.
func (l *lines) tail() string {
	const most = 12_000
	text := l.String()
	return text[max(0, len(text)-most):]
}
