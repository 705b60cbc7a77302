package testkit

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/subprocess"
)

// restartPause is the wait before a program is started anew, so that one that ends at once does not eat the machine.
const restartPause = 50 * time.Millisecond

// Supervised is a program that is started anew whenever it ends, with the same arguments, as a container is: until Down or
// the end of the test. Its methods are safe for concurrent use.
type Supervised struct {
	tb     testing.TB
	cfg    ProcessConfig
	output *output

	mu      sync.Mutex
	process *subprocess.Process // guarded by mu; the newest
	starts  int                 // guarded by mu
	stop    context.CancelFunc  // guarded by mu; nil while it is down
	ended   chan struct{}       // guarded by mu; closed when nothing runs after stop
}

// Supervise starts a program and keeps it running.
func Supervise(tb testing.TB, cfg ProcessConfig) *Supervised {
	tb.Helper()
	s := &Supervised{tb: tb, cfg: cfg, output: &output{}}
	s.Up()
	tb.Cleanup(s.clean)
	return s
}

// PID is the id of the newest process.
func (s *Supervised) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.PID()
}

// Starts is how often the program was started.
func (s *Supervised) Starts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.starts
}

// Output is what all its processes have written so far, to stdout and stderr.
func (s *Supervised) Output() string { return s.output.String() }

// Signal sends a signal to the newest process. One that has ended already gets none.
func (s *Supervised) Signal(signal os.Signal) { s.current().Signal(signal) }

// Pause stops the process where it stands, until Resume. Once Pause has returned, the process does nothing more.
func (s *Supervised) Pause() {
	s.tb.Helper()
	process := s.current()
	process.Signal(syscall.SIGSTOP)
	Eventually(s.tb, readyTime, func() error {
		if !Stands(process.PID()) {
			return errors.New("it still runs")
		}
		return nil
	})
}

// Resume ends Pause.
func (s *Supervised) Resume() { s.Signal(syscall.SIGCONT) }

// Down kills the program and keeps it from being started anew until Up.
func (s *Supervised) Down() {
	s.mu.Lock()
	stop, ended := s.stop, s.ended
	s.stop = nil
	s.mu.Unlock()
	if stop != nil {
		stop()
		<-ended
	}
}

// Up starts the program and keeps it running, unless it is up already.
func (s *Supervised) Up() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		return
	}
	require.NoError(s.tb, s.start())
	ctx, cancel := context.WithCancel(context.Background())
	s.stop, s.ended = cancel, make(chan struct{})
	go s.keep(ctx, s.ended)
}

// keep starts the program anew until ctx ends, and then kills it.
func (s *Supervised) keep(ctx context.Context, ended chan<- struct{}) {
	defer close(ended)
	for {
		process := s.current()
		select {
		case <-process.Exited():
		case <-ctx.Done():
			process.SignalGroup(syscall.SIGKILL)
			<-process.Exited()
			return
		}
		if clock.System().Sleep(ctx, restartPause) != nil {
			return
		}
		s.mu.Lock()
		err := s.start()
		s.mu.Unlock()
		if err != nil {
			s.tb.Errorf("start anew: %v", err)
			return
		}
	}
}

// start starts one process. s.mu is held.
func (s *Supervised) start() error {
	cmd := exec.Command(s.cfg.Path, s.cfg.Args...) //nolint:noctx // the test ends it with the signal that it wants
	cmd.Env, cmd.Dir = append(os.Environ(), s.cfg.Env...), s.cfg.Dir
	cmd.Stdout, cmd.Stderr = s.output, s.output
	process, err := subprocess.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return err
	}
	s.process = process
	s.starts++
	return nil
}

func (s *Supervised) current() *subprocess.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// clean ends the program, and shows what it wrote if the test has failed.
func (s *Supervised) clean() {
	s.Down()
	if s.tb.Failed() {
		s.tb.Logf("output of %s %v:\n%s", s.cfg.Path, s.cfg.Args, lastLines(s.Output(), shownLines))
	}
}
