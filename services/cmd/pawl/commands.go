package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"

	"github.com/alecthomas/kong"

	"pawl.internal/services/cmd/pawl/client"
	"pawl.internal/services/cmd/pawl/dev"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/internal/telemetry"
)

// serveCmd runs services with the stores that it is told.
type serveCmd struct {
	serve.Config
	Services []string `arg:"" help:"orchestrator, llm-gateway, step-runner, intake, or all."`
}

// Run serves until ctx ends.
func (c *serveCmd) Run(ctx context.Context) error {
	names := c.Services
	if slices.Contains(names, "all") {
		names = serve.Names()
	}
	log := telemetry.NewLogger(os.Stderr, c.Log)
	return serve.Run(ctx, serve.NewProcess(c.Config, log), c.Config, names)
}

// migrateCmd brings the schemas up to date.
type migrateCmd struct {
	DatabaseURL config.Secret `help:"PostgreSQL connection URL." placeholder:"postgres://…" required:""`
}

// Run migrates. It is safe to run in several places at once.
func (c *migrateCmd) Run(ctx context.Context, s client.Streams) error {
	if err := pg.Migrate(ctx, c.DatabaseURL.Reveal(), serve.Schemas()...); err != nil {
		return err
	}
	fmt.Fprintln(s.Out, "the schemas are up to date")
	return nil
}

// devCmd runs the whole system.
type devCmd struct{ dev.Config }

// Run runs it until ctx ends, and says how to use it.
func (c *devCmd) Run(ctx context.Context, command *kong.Context, s client.Streams) error {
	c.Told = config.Environment(command)
	return dev.Run(ctx, c.Config, s.Err, func(r dev.Record) { r.Describe(s.Out) })
}

// versionCmd says which build this is.
type versionCmd struct{}

// Run prints the version that Go stamped into the program.
func (versionCmd) Run(s client.Streams) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		fmt.Fprintln(s.Out, "pawl (no build information)")
		return nil
	}
	revision := "unknown revision"
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			revision = setting.Value
		}
	}
	fmt.Fprintln(s.Out, "pawl", info.Main.Version, revision, info.GoVersion)
	return nil
}
