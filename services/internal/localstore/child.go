// Package localstore runs a private PostgreSQL and a private Redis from installed binaries, for development and tests.
//
// The servers listen on loopback only, belong to this process, and end with it, also when it is killed (on Linux). Data
// lives in a folder that survives restarts. Nothing is downloaded: what is missing is named with how to install it.
package localstore

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/subprocess"
)

const (
	// startTime bounds the start of a server, recovery after a crash included.
	startTime = 60 * time.Second
	// pollTime is the time between two looks at whether a server answers.
	pollTime = 20 * time.Millisecond
	// answerTime bounds one look.
	answerTime = 2 * time.Second
	// tailLines is how much of a server's log an error shows.
	tailLines = 12
)

// child is a server that runs as a child process.
type child struct {
	*subprocess.Process
	path string // of the program
	log  string // path of the file that has its output
}

// identity is the user that a server runs as; nil for our own.
type identity = syscall.Credential

// run starts the command with its output appended to the file log.
func run(cmd *exec.Cmd, as *identity, log string) (*child, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("server log: %w", err)
	}
	defer func() { _ = output.Close() }() // the child has its own
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	// When we are killed, SIGINT comes once for each of our threads. PostgreSQL ends in order all the same; Redis takes the
	// second for impatience and may lose its last second, on which nothing depends.
	process, err := subprocess.Start(cmd, syscall.SIGINT)
	if err != nil {
		return nil, err
	}
	return &child{Process: process, path: cmd.Path, log: log}, nil
}

// await polls ready until it returns nil, the child ends, or startTime is over.
func (c *child) await(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		err := c.ask(ctx, ready)
		if err == nil {
			return nil
		}
		select {
		case <-c.Exited():
			return fmt.Errorf("%s ended at once: %w%s", c.path, c.Wait(), c.tail())
		default:
		}
		if clock.System().Sleep(ctx, pollTime) != nil {
			return fmt.Errorf("%s does not answer: %w%s", c.path, err, c.tail())
		}
	}
}

// ask asks ready once; a stranger on the server's port may never answer.
func (c *child) ask(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return ready(ctx)
}

// stop sends the signals one after the other until the child has ended, waiting a while after each but the last, which must
// be one that cannot fail to help.
func (c *child) stop(wait time.Duration, signals ...os.Signal) {
	for _, signal := range signals {
		c.Signal(signal)
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		select {
		case <-c.Exited():
			cancel()
			return
		case <-ctx.Done():
			cancel()
		}
	}
	<-c.Exited()
}

// ended waits for the child's end and says how it ended, or until ctx ends.
func (c *child) ended(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.Exited():
		return fmt.Errorf("%s ended: %w", c.path, c.Wait())
	}
}

// signalAll sends the signal to the child and to its own children. Where those cannot be seen, only the child gets it.
func (c *child) signalAll(signal syscall.Signal) {
	for _, pid := range c.family() {
		_ = syscall.Kill(pid, signal) // one that has just ended needs no signal
	}
}

// family lists the child and its own children, by process id. Where those cannot be seen, it is the child alone.
func (c *child) family() []int {
	pid := c.PID()
	pids := []int{pid}
	listed, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, field := range strings.Fields(string(listed)) {
		if n, err := strconv.Atoi(field); err == nil {
			pids = append(pids, n)
		}
	}
	return pids
}

// tail is the end of the child's log, ready to follow an error's text.
func (c *child) tail() string {
	content, err := os.ReadFile(c.log)
	if err != nil || len(bytes.TrimSpace(content)) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return "\n  " + strings.Join(lines[max(0, len(lines)-tailLines):], "\n  ")
}

// freePort returns a loopback port that nobody listens on at the moment.
func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }() // only its number was wanted
	address, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("find a free port: unexpected address %v", l.Addr())
	}
	return address.Port, nil
}
