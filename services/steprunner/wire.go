package steprunner

import (
	"context"
	"fmt"
	"os"

	"github.com/google/uuid"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/boot"
	"pawl.internal/services/internal/pipeline"
	"pawl.internal/services/internal/stream"
	"pawl.internal/services/steprunner/step"
	"pawl.internal/services/steprunner/step/llm"
	"pawl.internal/services/steprunner/step/transform"
	"pawl.internal/services/steprunner/step/validate"
)

// Name is the service's, as the command line knows it; nobody dials it.
const Name = "step-runner"

// Build makes a runner of the process. It calls the services "orchestrator" and "llm-gateway".
func Build(ctx context.Context, p *boot.Process, cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	orchestrator, err := p.Dial("orchestrator")
	if err != nil {
		return nil, err
	}
	gateway, err := p.Dial("llm-gateway")
	if err != nil {
		return nil, err
	}
	compiler, err := pipeline.NewCompiler()
	if err != nil {
		return nil, err
	}
	client, err := p.Redis(ctx, cfg.Redis)
	if err != nil {
		return nil, err
	}
	b := builder{
		Process: p, cfg: cfg, runner: p.IDs.V4(), metrics: newMetrics(p.Metrics), holds: newHolds(),
		orchestrator: systemv1.NewOrchestratorServiceClient(orchestrator),
	}
	b.lease = b.newLease()
	b.claimer = newClaimer(b.orchestrator, b.runner, cfg, b.metrics, p.Log)
	b.completer = newCompleter(b.orchestrator, b.runner, cfg, p.Clock, b.metrics, p.Log)
	b.attempts = b.newAttempts(compiler, systemv1.NewGatewayServiceClient(gateway))
	return b.service(func(class pawlv1.RunClass) *stream.Stream {
		return stream.Steps(client, cfg.Redis.Prefix, className(class))
	}), nil
}

// builder holds the parts of a runner while it is put together.
type builder struct {
	*boot.Process

	cfg          Config
	runner       uuid.UUID
	metrics      *metrics
	orchestrator systemv1.OrchestratorServiceClient
	holds        *holds
	lease        *lease
	claimer      *claimer
	completer    *completer
	attempts     *attempts
}

func (b *builder) newLease() *lease {
	host, _ := os.Hostname() // only for people
	l := &lease{
		orchestrator: b.orchestrator, clock: b.Clock, log: b.Log, metrics: b.metrics, holds: b.holds, runner: b.runner,
		description: fmt.Sprintf("%s, process %d", host, os.Getpid()), confirmed: make(chan struct{}),
	}
	for class, size := range b.cfg.slots() {
		l.lanes = append(l.lanes, &systemv1.LaneSlots{Class: class, Slots: int32(size)})
	}
	return l
}

func (b *builder) newAttempts(compiler *pipeline.Compiler, gateway systemv1.GatewayServiceClient) *attempts {
	a := &attempts{
		orchestrator: b.orchestrator, runner: b.runner, cfg: b.cfg, clock: b.Clock, log: b.Log, metrics: b.metrics,
		holds: b.holds, completer: b.completer,
		executor: &executor{
			pipelines: newPipelines(b.orchestrator, compiler, b.Clock, b.cfg.PipelineCache),
			kinds: map[pipeline.Kind]step.Kind{
				pipeline.LLM:       llm.New(gateway, b.Clock),
				pipeline.Transform: transform.Kind{},
				pipeline.Validate:  validate.Kind{},
			},
			lease: b.lease, clock: b.Clock, log: b.Log, metrics: b.metrics,
		},
	}
	b.holds.onStop = func(h *hold) { go a.outlast(h) }
	return a
}

func (b *builder) service(streamOf func(pawlv1.RunClass) *stream.Stream) *Service {
	s := &Service{
		log: b.Log, lease: b.lease, claimer: b.claimer, completer: b.completer, attempts: b.attempts, grace: b.cfg.Grace,
		draining: newSignal(), leaving: newSignal(), silence: newSignal(),
		idle: make(chan struct{}), silent: make(chan struct{}),
	}
	for class, size := range b.cfg.slots() {
		b.metrics.slots.WithLabelValues(className(class)).Set(float64(size))
		s.lanes = append(s.lanes, &lane{
			class: class, slots: newSlots(size), inbox: newInbox(streamOf(class), b.runner.String(), b.Clock),
			lease: b.lease, claimer: b.claimer, attempts: b.attempts, ids: b.IDs, clock: b.Clock, log: b.Log,
		})
	}
	return s
}
