package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/subprocess"
)

const (
	// readyTime bounds the start of a process.
	readyTime = time.Minute
	// stopTime bounds its end in order.
	stopTime = time.Minute
	// shownLines is how much of a process's output a failed test shows.
	shownLines = 100
)

// ProcessConfig says what to run.
type ProcessConfig struct {
	// Path of the program; see Build.
	Path string
	Args []string
	// Env is added to the environment of the test.
	Env []string
	// Dir is the folder in which the program works; that of the test if empty.
	Dir string
}

// Process is a program that a test runs, and kills as it likes. It ends with the test at the latest, and its own children
// with it. When the test has failed, the end of its output is shown.
type Process struct {
	tb      testing.TB
	program string
	process *subprocess.Process
	output  *output
}

// Start runs a program.
func Start(tb testing.TB, cfg ProcessConfig) *Process {
	tb.Helper()
	cmd := exec.Command(cfg.Path, cfg.Args...) //nolint:noctx // the test ends it with the signal that it wants
	cmd.Env, cmd.Dir = append(os.Environ(), cfg.Env...), cfg.Dir
	p := &Process{tb: tb, program: cmd.String(), output: &output{}}
	cmd.Stdout, cmd.Stderr = p.output, p.output
	process, err := subprocess.Start(cmd, syscall.SIGKILL)
	require.NoError(tb, err)
	p.process = process
	tb.Cleanup(p.clean)
	return p
}

// PID is the process's id.
func (p *Process) PID() int { return p.process.PID() }

// Output is what the process has written so far, to stdout and stderr.
func (p *Process) Output() string { return p.output.String() }

// Kill ends the process at once, without a chance to tidy up.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.process.Exited()
}

// Pause stops the process where it stands, until Resume. Once Pause has returned, the process does nothing more.
func (p *Process) Pause() {
	p.tb.Helper()
	p.Signal(syscall.SIGSTOP)
	p.AwaitStopped()
}

// AwaitStopped waits until the process has stopped where it stands, and does nothing more.
func (p *Process) AwaitStopped() {
	p.tb.Helper()
	p.Await(func() error {
		if !Stands(p.PID()) {
			return errors.New("it still runs")
		}
		return nil
	})
}

// Resume ends Pause.
func (p *Process) Resume() { p.Signal(syscall.SIGCONT) }

// Stop asks the process to end and returns how it did; one that does not is killed, which fails the test.
func (p *Process) Stop() error {
	p.tb.Helper()
	p.Signal(syscall.SIGTERM)
	return p.Wait(stopTime)
}

// Signal sends a signal. One that has ended already gets none.
func (p *Process) Signal(signal os.Signal) { p.process.Signal(signal) }

// Wait returns how the process ended; when it does not within the time, it is killed and the test fails.
func (p *Process) Wait(timeout time.Duration) error {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	select {
	case <-p.process.Exited():
		return p.process.Wait()
	case <-ctx.Done():
		p.Kill()
		p.tb.Fatalf("%s did not end within %v", p.program, timeout)
		return nil
	}
}

// AwaitOK waits until a GET of the URL is answered by 200.
func (p *Process) AwaitOK(url string) {
	p.tb.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	p.Await(func() error {
		request, err := http.NewRequestWithContext(p.tb.Context(), http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	})
}

// Await is Eventually that gives up at once when the process ends.
func (p *Process) Await(try func() error) {
	p.tb.Helper()
	Eventually(p.tb, readyTime, func() error {
		select {
		case <-p.process.Exited():
			p.tb.Fatalf("%s ended before it was ready: %v", p.program, p.process.Wait())
		default:
		}
		return try()
	})
}

// clean ends the process and its children, and shows what it wrote if the test has failed.
func (p *Process) clean() {
	p.process.SignalGroup(syscall.SIGKILL)
	<-p.process.Exited()
	if p.tb.Failed() {
		p.tb.Logf("output of %s:\n%s", p.program, lastLines(p.Output(), shownLines))
	}
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// output collects what a process writes while others read it.
type output struct {
	mu     sync.Mutex
	buffer bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.String()
}

// Build compiles the package's program with build tags, once for all tests of the binary, and returns its path.
func Build(tb testing.TB, pkg string, tags ...string) string {
	tb.Helper()
	own.mu.Lock()
	defer own.mu.Unlock()
	key := program{pkg: pkg, tags: strings.Join(tags, ",")}
	if path := own.programs[key]; path != "" {
		return path
	}
	require.True(tb, own.managed, "Build needs a TestMain that calls testkit.Main")
	folder, err := dataFolder()
	require.NoError(tb, err)
	own.folders = append(own.folders, folder)
	path := filepath.Join(folder, filepath.Base(pkg))
	said, err := exec.CommandContext(tb.Context(), "go", "build", "-tags", key.tags, "-o", path, pkg).CombinedOutput()
	require.NoError(tb, err, "build %s:\n%s", pkg, said)
	if own.programs == nil {
		own.programs = map[program]string{}
	}
	own.programs[key] = path
	return path
}

// program is what Build makes: a package and the tags, with commas, that it is built with.
type program struct{ pkg, tags string }
