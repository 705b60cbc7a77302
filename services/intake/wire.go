package intake

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"buf.build/go/protovalidate"
	"github.com/google/uuid"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/intake/rate"
	"pawl.internal/services/intake/rest"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/boot"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/internal/pipeline"
)

// Name is what other services dial.
const Name = "intake"

const (
	// headerTime, readTime and idleTime bound what a REST client may make a connection wait for.
	headerTime = 5 * time.Second
	readTime   = 30 * time.Second
	idleTime   = 2 * time.Minute
	// headerBytes bounds the headers of a request.
	headerBytes = 32 << 10
)

// Schema is the part of the database that intake owns.
func Schema() pg.Schema { return store.Schema() }

// Build opens what intake needs and listens for REST calls; gRPC is served by boot.
func Build(ctx context.Context, p *boot.Process, cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Service{config: cfg, clock: p.Clock, ids: p.IDs, log: p.Log, metrics: newMetrics(p.Metrics), stopping: make(chan struct{})}
	for _, open := range []func(context.Context, *boot.Process) error{s.openStore, s.openRedis, s.dialServices, s.listen} {
		if err := open(ctx, p); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Service) openStore(ctx context.Context, p *boot.Process) error {
	pool, err := p.Postgres(ctx, s.config.Database, "")
	if err != nil {
		return err
	}
	if err := pg.CheckVersion(ctx, pool, Schema()); err != nil {
		return err
	}
	s.store = store.New(pool)
	s.keys = newKeyring(s.store, p.Clock)
	if err := s.store.EnsureSystem(ctx); err != nil {
		return err
	}
	p.Check("postgres", s.store.Ping)
	return s.openPages(ctx)
}

func (s *Service) openPages(ctx context.Context) error {
	var candidate [32]byte
	_, _ = rand.Read(candidate[:]) // never fails: it ends the program rather than return an error
	key, err := s.store.SigningKey(ctx, pagePurpose, candidate)
	s.pages = pageTokens{key: key, clock: s.clock}
	return err
}

func (s *Service) openRedis(ctx context.Context, p *boot.Process) error {
	client, err := p.Redis(ctx, s.config.Redis)
	if err != nil {
		return err
	}
	s.wakes = newWakes(client, s.config.Redis.Prefix, p.Clock, p.Log)
	s.rates = rate.New(rate.Deps{
		Redis: client, Prefix: s.config.Redis.Prefix, Replica: p.IDs.V4().String(), Patience: ratePatience, Clock: p.Clock, Log: p.Log,
		Degraded: func(yes bool) { s.metrics.degraded.Set(flag(yes)) },
	})
	return nil
}

func (s *Service) dialServices(_ context.Context, p *boot.Process) error {
	orchestrator, err := p.Dial("orchestrator")
	if err != nil {
		return err
	}
	gateway, err := p.Dial("llm-gateway")
	if err != nil {
		return err
	}
	s.orchestrator = systemv1.NewOrchestratorServiceClient(orchestrator)
	s.gateway = systemv1.NewGatewayServiceClient(gateway)
	if s.compiler, err = pipeline.NewCompiler(); err != nil {
		return err
	}
	if s.validator, err = protovalidate.New(); err != nil {
		return err
	}
	s.spools = &spools{dir: s.config.SpoolDir, limit: s.config.MaxSpoolBytes}
	s.catalog = newCatalog(s.orchestrator, s.compiler, p.Clock)
	s.models = newModels(s.gateway, p.Clock)
	s.policies = newPolicies(s.store, s.orchestrator, p.Clock, p.Log)
	s.admission = &admission{
		config: s.config.Admission, rates: s.rates, backlog: newBacklog(s.orchestrator, p.Clock, p.Log, s.metrics), metrics: s.metrics,
	}
	return nil
}

func (s *Service) listen(ctx context.Context, p *boot.Process) error {
	own, err := p.Dial(Name)
	if err != nil {
		return err
	}
	handler, err := rest.New(ctx, rest.Config{
		Connection: own, Admin: p.AdminHandler(), Clock: p.Clock, IDs: p.IDs, Log: p.Log, Metrics: p.Metrics,
		MaxBodyBytes: s.config.MaxBodyBytes, MaxDocumentBytes: s.config.MaxDocumentBytes,
		MaxBatchBytes: s.config.MaxBatchBytes, Timeout: s.config.RequestTimeout,
	})
	if err != nil {
		return err
	}
	s.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.config.REST)
	if err != nil {
		return fmt.Errorf("the REST API cannot listen: %w", err)
	}
	s.http = &http.Server{
		Handler: handler, ErrorLog: slog.NewLogLogger(p.Log.Handler(), slog.LevelWarn),
		ReadHeaderTimeout: headerTime, ReadTimeout: readTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
	}
	return nil
}

// uuidBytes is an id as other services want it: 16 bytes.
func uuidBytes(id string) ([]byte, error) {
	parsed, err := uuid.Parse(id)
	if err != nil { // the request's schema lets only UUIDs through
		return nil, fault.Internal(err)
	}
	return parsed[:], nil
}
