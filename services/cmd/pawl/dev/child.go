package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/subprocess"
)

const (
	// stopGrace is how long a child may take to end after SIGTERM: a gateway awaits its calls.
	stopGrace = 150 * time.Second
	// The wait before a child is started anew doubles from restartFirst to restartMost, and starts over after a child has
	// lived for restartMost.
	restartFirst = 200 * time.Millisecond
	restartMost  = 5 * time.Second
)

// child keeps one service running as a process of its own: whenever it ends, it is started anew.
type child struct {
	service string
	args    []string
	env     []string
	output  io.Writer
	clock   clock.Clock
	// started is told the process id of every start, and how many there were before.
	started func(pid, restarts int) error
}

// run keeps the child alive until ctx ends, then stops it and returns.
func (c *child) run(ctx context.Context) { keep(ctx, c.clock, c.output, c.service, c.once) }

// keep runs once, which returns how its program ended, again and again until ctx ends.
func keep(ctx context.Context, clk clock.Clock, output io.Writer, name string, once func(ctx context.Context, restarts int) error) {
	wait := restartFirst
	for restarts := 0; ; restarts++ {
		began := clk.Now()
		err := once(ctx, restarts)
		if ctx.Err() != nil { // it was told to end, however it did
			return
		}
		if clk.Now().Sub(began) > restartMost {
			wait = restartFirst
		}
		fmt.Fprintf(output, "%s ended (%v); starting it anew in %s\n", name, err, wait)
		if clk.Sleep(ctx, wait) != nil {
			return // told to end
		}
		wait = min(2*wait, restartMost)
	}
}

// once starts the child and waits for its end.
func (c *child) once(ctx context.Context, restarts int) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, c.args...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = c.output, c.output
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	process, err := subprocess.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return fmt.Errorf("%s: %w", c.service, err)
	}
	if err := c.started(process.PID(), restarts); err != nil {
		process.Signal(syscall.SIGKILL)
		return errors.Join(err, process.Wait())
	}
	return process.Wait()
}
