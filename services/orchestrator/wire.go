package orchestrator

import (
	"context"
	"math/rand/v2"
	"time"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/boot"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/store"
)

// Name is what other services dial.
const Name = "orchestrator"

// closeTime bounds the closing of connections.
const closeTime = 5 * time.Second

// Schema is the orchestrator's part of the database, for `pawl migrate`.
func Schema() pg.Schema { return store.Schema() }

// Build opens what the orchestrator needs.
func Build(ctx context.Context, p *boot.Process, cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Service{
		config: cfg, clock: p.Clock, ids: p.IDs, log: p.Log, metrics: newMetrics(p.Metrics), runners: newRunners(p.Clock),
	}
	if err := s.openPublisher(ctx, p); err != nil {
		return nil, err
	}
	if err := s.openRelay(p); err != nil {
		return nil, err
	}
	if err := s.openStore(ctx, p); err != nil {
		return nil, err
	}
	s.makeLoops(p)
	return s, nil
}

// openRelay connects to the gateway.
func (s *Service) openRelay(p *boot.Process) error {
	connection, err := p.Dial("llm-gateway")
	if err != nil {
		return err
	}
	s.relay = &relay{
		gateway: systemv1.NewGatewayServiceClient(connection), clock: s.clock, log: s.log, wake: make(chan struct{}, 1),
	}
	return nil
}

// makeLoops makes what keeps the system going without being asked.
func (s *Service) makeLoops(p *boot.Process) {
	s.relay.store = s.store
	s.judge = &judge{clock: s.clock, lease: s.config.Lease, show: s.store.ShowReplica, self: s.ids.V4()}
	p.OnStop("orchestrator replica", closeTime, func(ctx context.Context) error {
		return s.store.RemoveReplica(ctx, s.judge.self)
	})
	s.sweeper = newSweeper(s.store, s.judge, s.clock, s.log, s.metrics)
	s.janitor = newJanitor(s.sweeper, s.publisher.steps, s.config.Lease)
	s.batchLoop = newBatchLoop(s.store, s.clock, s.log)
	s.dispatcher = newDispatcher(s.store, s.clock, s.log, s.metrics)
}

// announce tells what a committed group leads to.
func (s *Service) announce(n store.Notices) {
	s.publisher.add(n)
	s.relay.notice(n)
	s.sweeper.notice(n)
}

func (s *Service) openPublisher(ctx context.Context, p *boot.Process) error {
	client, err := p.Redis(ctx, s.config.Redis)
	if err != nil {
		return err
	}
	s.publisher = newPublisher(client, s.config.Redis.Prefix, s.clock, s.log, s.metrics)
	return nil
}

func (s *Service) openStore(ctx context.Context, p *boot.Process) error {
	large := s.config.Database
	large.Settings = pg.ByKey()
	pool, err := p.Postgres(ctx, large, "")
	if err != nil {
		return err
	}
	small := large
	small.MaxConns = s.config.ControlConns
	control, err := p.Postgres(ctx, small, "control")
	if err != nil {
		return err
	}
	if err := pg.CheckVersion(ctx, pool, store.Schema()); err != nil {
		return err
	}
	codec, err := store.NewCodec()
	if err != nil {
		return err
	}
	compile, err := NewCompile()
	if err != nil {
		return err
	}
	s.store = store.New(store.Deps{
		Pool: pool, Control: control, Clock: s.clock, IDs: s.ids, Compile: compile, Codec: codec,
		Window: store.NewWindow(), Publish: s.announce, Random: store.NewRandom(rand.Uint64()), //nolint:gosec // jitter
	}, store.Config{Lanes: s.config.CommitLanes, Lease: s.config.Lease})
	s.makePartitions(ctx)
	p.Check("postgres", func(ctx context.Context) error { return pg.Ping(ctx, control) })
	return nil
}
