package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main runs a program until it ends by itself or the process gets SIGINT or SIGTERM, and exits with its code: 0, or what
// the error's ExitCode() says, or 1. A second signal ends the process at once.
func Main(run func(ctx context.Context) error) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, cancel) // from here on the next signal has its usual effect
	err := run(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pawl:", err)
	}
	os.Exit(exitCode(err)) //nolint:forbidigo // the one place where a process ends
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if coded, ok := errors.AsType[interface {
		error
		ExitCode() int
	}](err); ok {
		return coded.ExitCode()
	}
	return 1
}
