// Bench measures the whole system on this machine and prints a report in Markdown; see package bench.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"pawl.internal/e2e/bench"
)

func main() {
	cfg := bench.Config{}
	flag.StringVar(&cfg.Program, "program", "bin/pawl", "the pawl binary")
	flag.StringVar(&cfg.Root, "root", ".", "folder of the repository")
	flag.IntVar(&cfg.IdleRuns, "idle-runs", 100, "runs measured on an idle system")
	flag.IntVar(&cfg.LoadRuns, "load-runs", 6000, "runs measured under load")
	flag.DurationVar(&cfg.Submits, "submits", 10*time.Second, "how long submits are measured")
	flag.IntVar(&cfg.SubmitRate, "submit-rate", 200, "submits a second")
	flag.StringVar(&cfg.Profiles, "profiles", "", "folder for processor profiles of the load")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench.Run(ctx, cfg, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
