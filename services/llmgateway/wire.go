package llmgateway

import (
	"context"
	"fmt"
	"os"
	"time"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/boot"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway/breaker"
	"pawl.internal/services/llmgateway/budget"
	"pawl.internal/services/llmgateway/economy"
	"pawl.internal/services/llmgateway/permit"
	"pawl.internal/services/llmgateway/store"
)

// Name is what other services dial.
const Name = "llm-gateway"

// closeTime bounds what is left to do when calls have ended.
const closeTime = 5 * time.Second

// Schema is the gateway's part of the database, for `pawl migrate`.
func Schema() pg.Schema { return store.Schema() }

// Build opens what the gateway needs.
func Build(ctx context.Context, p *boot.Process, cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Service{clock: p.Clock, log: p.Log, metrics: newMetrics(p.Metrics), flights: newFlights(), models: newShelf(), logRequests: cfg.LogRequests}
	s.ended, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	for _, part := range []func(context.Context, *boot.Process, Config) error{
		s.openStore, s.openModels, s.openPermits, s.openOrchestrator, s.openEndpoint,
	} {
		if err := part(ctx, p, cfg); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Service) openStore(ctx context.Context, p *boot.Process, cfg Config) error {
	cfg.Database.Settings = pg.ByKey()
	pool, err := p.Postgres(ctx, cfg.Database, "")
	if err != nil {
		return err
	}
	small := cfg.Database
	small.MaxConns = cfg.ControlConns
	control, err := p.Postgres(ctx, small, "control")
	if err != nil {
		return err
	}
	if err := pg.CheckVersion(ctx, pool, store.Schema()); err != nil {
		return err
	}
	s.ping = func(ctx context.Context) error { return pg.Ping(ctx, control) }
	p.Check("postgres", s.ping)
	s.store = store.New(pool, control, cfg.CommitLanes)
	s.makePartitions(ctx)
	return s.takeLease(ctx, p, cfg)
}

// takeLease makes this gateway one of the replicas, until the process has stopped.
func (s *Service) takeLease(ctx context.Context, p *boot.Process, cfg Config) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	s.lease = &lease{
		store: s.store, clock: p.Clock, log: p.Log, holder: p.IDs.V4(), length: cfg.Lease,
		description: fmt.Sprintf("%s, process %d", host, os.Getpid()),
	}
	if err := s.lease.renew(ctx); err != nil {
		return err
	}
	s.store.BookAs(s.lease.holder)
	s.budgets = budget.New(budget.Deps{Source: s.store, Holder: s.lease.holder, Clock: p.Clock, Log: p.Log, Passed: s.metrics.passed})
	p.OnStop("llm-gateway lease", closeTime, func(ctx context.Context) error {
		s.endLease(ctx)
		return nil
	})
	return nil
}

// endLease makes room for others at once. If there are calls whose end is not stored, or the store is away, the lease runs
// out by itself, and others judge what is left.
func (s *Service) endLease(ctx context.Context) {
	if len(s.flights.runs()) > 0 {
		return
	}
	if err := s.store.EndLease(ctx, s.lease.holder); err != nil {
		s.log.WarnContext(ctx, "lease not ended", "error", err)
	}
}

func (s *Service) openModels(ctx context.Context, p *boot.Process, cfg Config) error {
	known, source, err := cfg.catalog(p.Clock.Now())
	if err != nil {
		return fmt.Errorf("models: %w", err)
	}
	s.source = source
	if err := s.activate(ctx, known); err != nil {
		return err
	}
	p.OnStop("llm-gateway providers", closeTime, func(context.Context) error {
		s.models.close()
		return nil
	})
	return nil
}

func (s *Service) openPermits(ctx context.Context, p *boot.Process, cfg Config) error {
	client, err := p.Redis(ctx, cfg.Redis)
	if err != nil {
		return err
	}
	s.permits = permit.New(permit.Deps{
		Redis: client, Prefix: cfg.Redis.Prefix, Replica: s.lease.holder.String(), Clock: p.Clock, Log: p.Log,
		Replicas: s.lease.replicas, Degraded: s.metrics.setDegraded,
	}, permit.Config{TTL: cfg.PermitTTL, Limits: limitsOf(s.models.current().catalog)})
	p.Metrics.MustRegister(permitCollector{s.permits})
	s.breakers = breaker.New(breaker.Deps{
		Redis: client, Prefix: cfg.Redis.Prefix, Replica: s.lease.holder.String(), Clock: p.Clock, Log: p.Log,
		Changed: s.metrics.setBreaker, Gone: s.metrics.dropBreaker,
	})
	s.breakers.Retain(breakersOf(s.models.current().catalog))
	return nil
}

func (s *Service) openOrchestrator(_ context.Context, p *boot.Process, cfg Config) error {
	connection, err := p.Dial("orchestrator")
	if err != nil {
		return err
	}
	s.orchestrator = systemv1.NewOrchestratorServiceClient(connection)
	s.economy = s.newEconomy(economy.Deps{IDs: p.IDs}, cfg)
	return nil
}
