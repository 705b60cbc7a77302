// Package serve puts Pawl's services into a process: it holds their configuration, the table of how each is built, and the
// schemas that they own. It contains nothing of what a service does.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"pawl.internal/services/intake"
	"pawl.internal/services/internal/boot"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/internal/redisconn"
	"pawl.internal/services/internal/telemetry"
	"pawl.internal/services/llmgateway"
	"pawl.internal/services/orchestrator"
	"pawl.internal/services/steprunner"
)

// The names of the services, as Dial and the command line know them.
const (
	Orchestrator = orchestrator.Name
	LLMGateway   = llmgateway.Name
	StepRunner   = steprunner.Name
	Intake       = intake.Name
)

// Config is what a process with any of the services is told.
type Config struct {
	// Database and Redis are those of all services of the process.
	Database pg.Config        `embed:"" prefix:"database-" group:"stores"`
	Redis    redisconn.Config `embed:"" prefix:"redis-" group:"stores"`

	Intake       intake.Config       `embed:"" prefix:"intake-" group:"intake"`
	Orchestrator orchestrator.Config `embed:"" prefix:"orchestrator-" group:"orchestrator"`
	StepRunner   steprunner.Config   `embed:"" prefix:"step-runner-" group:"step-runner"`
	LLMGateway   llmgateway.Config   `embed:"" prefix:"llm-gateway-" group:"llm-gateway"`

	Network Network          `embed:"" group:"network"`
	Log     telemetry.Config `embed:"" prefix:"log-" group:"logging"`
}

// Network says where the services of this process listen, and where the others are found.
type Network struct {
	GRPCListen         string `name:"grpc-listen" help:"Address of intake's gRPC API." default:"127.0.0.1:9090"`
	OrchestratorListen string `help:"Address of the orchestrator." default:"127.0.0.1:9091"`
	LLMGatewayListen   string `name:"llm-gateway-listen" help:"Address of the LLM gateway." default:"127.0.0.1:9092"`
	StepRunnerListen   string `help:"Address of the step-runner (health only)." default:"127.0.0.1:9094"`
	AdminListen        string `help:"Address of health and metrics of the process; empty for none." default:"127.0.0.1:8081"`

	OrchestratorAddress string `help:"Where the orchestrator is, when it is not in this process." default:"dns:///127.0.0.1:9091"`
	IntakeAddress       string `help:"Where intake's gRPC API is, when it is not in this process." default:"dns:///127.0.0.1:9090"`
	LLMGatewayAddress   string `name:"llm-gateway-address" help:"Where the LLM gateway is, when it is not in this process." default:"dns:///127.0.0.1:9092"`

	Profiles   bool          `help:"Serve Go's profiles below /debug/pprof on the admin address."`
	Reflection bool          `help:"Let gRPC clients ask for the schema."`
	StopDelay  time.Duration `help:"Time between 'not ready' and the first act of stopping." default:"0s"`
}

// Validate returns all that is wrong with the configuration.
func (c Config) Validate() error {
	c = c.shareStores()
	return errors.Join(
		prefixed("intake", c.Intake.Validate()), prefixed("orchestrator", c.Orchestrator.Validate()),
		prefixed("step-runner", c.StepRunner.Validate()), prefixed("llm-gateway", c.LLMGateway.Validate()),
	)
}

func prefixed(service string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", service, err)
}

// shareStores gives the stores to the services.
func (c Config) shareStores() Config {
	c.Intake.Database, c.Orchestrator.Database, c.LLMGateway.Database = c.Database, c.Database, c.Database
	c.Intake.Redis, c.Orchestrator.Redis, c.LLMGateway.Redis, c.StepRunner.Redis = c.Redis, c.Redis, c.Redis, c.Redis
	return c
}

// NewProcess returns a process for the services, which Run builds.
func NewProcess(c Config, log *slog.Logger) *boot.Process {
	clk := failpoint.Clock(clock.System())
	return boot.New(boot.Config{
		Listen: map[string]string{
			Intake: c.Network.GRPCListen, Orchestrator: c.Network.OrchestratorListen,
			LLMGateway: c.Network.LLMGatewayListen, StepRunner: c.Network.StepRunnerListen,
		},
		Peers: map[string]string{
			Orchestrator: c.Network.OrchestratorAddress, LLMGateway: c.Network.LLMGatewayAddress, Intake: c.Network.IntakeAddress,
		},
		Admin: c.Network.AdminListen, Profiles: c.Network.Profiles, Reflection: c.Network.Reflection,
		StopDelay: c.Network.StopDelay,
	}, clk, ids.New(clk), log, telemetry.NewRegistry())
}

// Run serves the named services in the process until ctx ends or one of them fails.
func Run(ctx context.Context, p *boot.Process, c Config, names []string) error {
	if err := errors.Join(c.Validate(), failpoint.Start(names...)); err != nil {
		return err
	}
	return boot.Run(ctx, p, table(c.shareStores()), names)
}

// Names lists all services, in the order in which they start.
func Names() []string {
	var names []string
	for _, entry := range table(Config{}) {
		names = append(names, entry.Name)
	}
	return names
}

// Schemas lists what `pawl migrate` applies: one schema an owner.
func Schemas() []pg.Schema {
	return []pg.Schema{orchestrator.Schema(), llmgateway.Schema(), intake.Schema()}
}

// table says how each service is built, and which others it calls.
func table(c Config) []boot.Entry {
	return []boot.Entry{
		{Name: Orchestrator, Needs: []string{LLMGateway}, Build: build(orchestrator.Build, c.Orchestrator)},
		{
			Name: LLMGateway, Needs: []string{Orchestrator, Intake}, Grace: c.LLMGateway.Grace,
			Build: build(llmgateway.Build, c.LLMGateway),
		},
		{
			Name: StepRunner, Needs: []string{Orchestrator, LLMGateway}, Grace: c.StepRunner.DrainTime(),
			Build: build(steprunner.Build, c.StepRunner),
		},
		{Name: Intake, Needs: []string{Orchestrator, LLMGateway}, Build: build(intake.Build, c.Intake)},
	}
}

// build fixes the configuration of a service's Build.
func build[C any, S boot.Service](
	fn func(context.Context, *boot.Process, C) (S, error), cfg C,
) func(context.Context, *boot.Process) (boot.Service, error) {
	return func(ctx context.Context, p *boot.Process) (boot.Service, error) {
		service, err := fn(ctx, p, cfg)
		if err != nil {
			return nil, err
		}
		return service, nil
	}
}
