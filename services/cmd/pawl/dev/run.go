package dev

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/internal/clock"
)

const (
	// readyTime bounds the wait for the services to be ready, and readyPoll is the time between two looks.
	readyTime = 60 * time.Second
	readyPoll = 50 * time.Millisecond
)

// serve runs the services until ctx ends: all in this process, or each in its own.
func (s *system) serve(ctx context.Context) error {
	if s.cfg.Separate {
		return s.serveSeparately(ctx)
	}
	cfg := s.cfg.Serve
	cfg.Network.GRPCListen, cfg.Network.AdminListen = loopback(s.ports.GRPC), loopback(s.ports.Admin)
	cfg.Network.OrchestratorListen, cfg.Network.LLMGatewayListen = loopback(s.ports.Orchestrator), loopback(s.ports.LLMGateway)
	cfg.Network.StepRunnerListen = loopback(s.ports.StepRunner)
	cfg.Intake.REST, cfg.LLMGateway.Endpoint = loopback(s.ports.REST), loopback(s.ports.OpenAI)
	return serve.Run(ctx, serve.NewProcess(cfg, s.log), cfg, serve.Names())
}

// process is a service of its own: where it tells its health, and its flags beside those that all have.
type process struct {
	service string
	admin   int
	flags   []string
}

func (s *system) processes() []process {
	return []process{
		{serve.Orchestrator, s.ports.OrchestratorAdmin, []string{"--orchestrator-listen=" + loopback(s.ports.Orchestrator)}},
		{serve.LLMGateway, s.ports.LLMGatewayAdmin, []string{
			"--llm-gateway-listen=" + loopback(s.ports.LLMGateway), "--llm-gateway-endpoint=" + loopback(s.ports.OpenAI),
			"--llm-gateway-grace=" + s.cfg.Serve.LLMGateway.Grace.String(), "--intake-address=dns:///" + loopback(s.ports.GRPC),
		}},
		{serve.StepRunner, s.ports.StepRunnerAdmin, []string{"--step-runner-listen=" + loopback(s.ports.StepRunner)}},
		{serve.Intake, s.ports.Admin, []string{
			"--grpc-listen=" + loopback(s.ports.GRPC), "--intake-rest=" + loopback(s.ports.REST),
		}},
	}
}

// serveSeparately keeps each service running in a process of its own until ctx ends. Then it stops them one after the
// other, the last started first, so that each can still hand its work back to the next.
func (s *system) serveSeparately(ctx context.Context) error {
	group, broken := errgroup.WithContext(ctx)
	var stops []func()
	for _, p := range s.processes() {
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		done := make(chan struct{})
		stops = append(stops, func() { cancel(); <-done })
		group.Go(func() error {
			defer close(done)
			s.child(p).run(own)
			return nil
		})
	}
	<-broken.Done()
	for _, stop := range slices.Backward(stops) {
		stop()
	}
	return group.Wait()
}

func (s *system) child(p process) *child {
	return &child{
		service: p.service, args: append([]string{"serve", p.service}, s.flags(p)...), env: s.environment(),
		output: s.output, clock: clock.System(),
		started: func(pid, restarts int) error {
			return s.record.update(func(r *Record) {
				r.Services[p.service] = ServiceRecord{PID: pid, Admin: "http://" + loopback(p.admin), Restarts: restarts}
			})
		},
	}
}

// flags say where a process listens, and where it finds the others.
func (s *system) flags(p process) []string {
	common := []string{
		"--admin-listen=" + loopback(p.admin),
		"--orchestrator-address=dns:///" + loopback(s.ports.Orchestrator),
		"--llm-gateway-address=dns:///" + loopback(s.ports.LLMGateway),
	}
	return append(common, p.flags...)
}

// environment is what a process is told beside its flags: what this program was told, and the stores, whose secrets must
// not show in a list of processes.
func (s *system) environment() []string {
	return append(slices.Clone(s.cfg.Told),
		"PAWL_DATABASE_URL="+s.cfg.Serve.Database.URL.Reveal(), "PAWL_REDIS_URL="+s.cfg.Serve.Redis.URL.Reveal())
}

// open waits until all services are ready, registers the pipelines that ship, and writes the record.
func (s *system) open(ctx context.Context) (Record, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	admins := []int{s.ports.Admin}
	if s.cfg.Separate {
		admins = nil
		for _, p := range s.processes() {
			admins = append(admins, p.admin)
		}
	}
	for _, port := range admins {
		if err := awaitReady(ctx, "http://"+loopback(port)+"/readyz"); err != nil {
			return Record{}, err
		}
	}
	if err := s.registerPipelines(ctx, s.record.get()); err != nil {
		return Record{}, err
	}
	return s.record.publish()
}

// awaitReady asks until the answer is 200 or ctx ends.
func awaitReady(ctx context.Context, url string) error {
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("answered %s", response.Status)
		}
		if clock.System().Sleep(ctx, readyPoll) != nil {
			return fmt.Errorf("the services did not become ready: %s: %w", url, err)
		}
	}
}
