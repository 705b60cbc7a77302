// Command teststores runs a command beside a PostgreSQL and a Redis of its own, on free loopback ports:
//
//	teststores -- go test ./...
//
// The command finds them by the variables of package testkit, and its exit code is passed on. Nothing is left behind.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"pawl.internal/services/testkit"
)

// usage is the exit code for a call without a command.
const usage = 2

// interruptTime is how long the command may take to end when we are told to.
const interruptTime = 10 * time.Second

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 || slices.Contains([]string{"-h", "--help"}, args[0]) {
		fmt.Fprintln(os.Stderr, "usage: teststores -- command [argument...]")
		os.Exit(usage)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, args)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "teststores:", err)
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string) (code int, err error) {
	stores, err := testkit.StartStores(ctx)
	if err != nil {
		return 1, err
	}
	defer stores.Stop()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = interruptTime
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), stores.Environment()...)
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1), nil
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}
