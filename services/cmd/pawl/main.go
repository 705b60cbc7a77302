// Pawl is the whole system in one program: every service, the client's commands, and what development needs.
package main

import (
	"context"
	"fmt"
	"os"
	_ "time/tzdata" // schedules name time zones, and an image may have no table of them

	"github.com/alecthomas/kong"

	"pawl.internal/services/cmd/pawl/client"
	"pawl.internal/services/cmd/pawl/demo"
	"pawl.internal/services/cmd/pawl/doctor"
	"pawl.internal/services/internal/boot"
	"pawl.internal/services/internal/config"
)

// cli is the command line. What a command is told stands in its own struct.
type cli struct {
	Config kong.ConfigFlag `help:"YAML file that says the same as the flags, under the same names." placeholder:"FILE"`

	Dev  devCmd   `cmd:"" group:"Try it" help:"Run the whole system on this machine, with stores of its own."`
	Demo demo.Cmd `cmd:"" group:"Try it" help:"Run the whole system and extract the fields of ten contracts with it."`

	Runs      client.Runs      `cmd:"" group:"Use it" help:"Submit runs, see how they fare, and watch, cancel or retry them."`
	Batches   client.Batches   `cmd:"" group:"Use it" help:"Submit many inputs at once, watch them, fetch results, cancel, pause or retry them."`
	Documents client.Documents `cmd:"" group:"Use it" help:"Store documents and extract fields from them."`
	Pipelines client.Pipelines `cmd:"" group:"Use it" help:"Check, store and list pipelines."`
	Schedules client.Schedules `cmd:"" group:"Use it" help:"Start runs at times that repeat."`
	Spend     client.Spend     `cmd:"" group:"Use it" help:"Show what was spent, by model, pipeline, day, tenant."`
	Budget    client.Budget    `cmd:"" group:"Use it" help:"Show and set what a tenant may spend in a month."`
	Limits    client.Limits    `cmd:"" group:"Use it" help:"Show how the limits of the models' providers stand: ceilings, requests in flight, callers in line."`

	Tenants client.Tenants `cmd:"" group:"Use it" help:"Make tenants, set their weights and limits; make the first key."`
	Keys    client.Keys    `cmd:"" group:"Use it" help:"Make, list, replace and revoke API keys."`

	Calls callsCmd `cmd:"" group:"Use it" help:"Look at what models were asked, and what they answered; read stored answers again."`

	Serve    serveCmd    `cmd:"" group:"Operate it" help:"Run services in this process: one, several, or all."`
	Migrate  migrateCmd  `cmd:"" group:"Operate it" help:"Bring the database's schemas up to date."`
	Doctor   doctor.Cmd  `cmd:"" group:"Operate it" help:"Check every promise that can be checked on a running system."`
	Recost   recostCmd   `cmd:"" group:"Operate it" help:"Compute what past requests cost by corrected prices, and correct what is booked."`
	Models   modelsCmd   `cmd:"" group:"Operate it" help:"Check models files."`
	Simulate simulateCmd `cmd:"" name:"simulate-provider" group:"Operate it" help:"Run the simulated model provider as a server of its own."`
	Version  versionCmd  `cmd:"" group:"Operate it" help:"Say which build this is."`
}

func main() { boot.Main(run) }

// run carries out the command that the arguments name.
func run(ctx context.Context) error {
	parser, err := newParser(&cli{})
	if err != nil {
		return fmt.Errorf("command line: %w", err)
	}
	command, err := parser.Parse(os.Args[1:])
	if err != nil {
		return client.WithExitCode(err, client.ExitUsage)
	}
	command.BindTo(ctx, (*context.Context)(nil))
	return command.Run(client.Streams{Out: os.Stdout, Err: os.Stderr})
}

// newParser returns the parser of the command line, which fills c in.
func newParser(c *cli) (*kong.Kong, error) {
	return kong.New(c, append(config.Options(),
		kong.Name("pawl"),
		kong.Description("Durable LLM pipelines that never slip back."),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, Summary: true}),
	)...)
}
