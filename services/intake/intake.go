// Package intake is the public API: runs, documents, jobs and pipelines over gRPC and REST.
//
// It knows who calls (API keys, tenants, roles) and how much they may submit, checks what is asked before anybody else sees it (schema, input against
// the pipeline, idempotency key), and asks the orchestrator and the LLM gateway over gRPC for everything else. It owns no
// run: its only tables are those of schema access. Every replica is alike, and everything it remembers (keys, pipelines,
// models) is a short-lived copy.
package intake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/intake/rate"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/internal/pipeline"
)

// flushEvery is how often the last use of keys is stored.
const flushEvery = time.Minute

// Service is intake. Build makes it.
type Service struct {
	pawlv1.UnimplementedRunServiceServer
	pawlv1.UnimplementedDocumentServiceServer
	pawlv1.UnimplementedJobServiceServer
	pawlv1.UnimplementedBatchServiceServer
	pawlv1.UnimplementedPipelineServiceServer
	pawlv1.UnimplementedStatsServiceServer
	pawlv1.UnimplementedTenantServiceServer
	pawlv1.UnimplementedScheduleServiceServer

	config       Config
	clock        clock.Clock
	ids          *ids.Source
	log          *slog.Logger
	metrics      *metrics
	store        *store.Store
	orchestrator systemv1.OrchestratorServiceClient
	gateway      systemv1.GatewayServiceClient
	compiler     *pipeline.Compiler
	validator    protovalidate.Validator
	spools       *spools
	keys         *keyring
	catalog      *catalog
	models       *models
	pages        pageTokens
	wakes        *wakes
	policies     *policies
	rates        *rate.Limiter
	admission    *admission

	listener net.Listener
	http     *http.Server
	stopping chan struct{} // closed by Drain
	stop     sync.Once
}

// Register adds the services of the public API, and what other services ask about keys.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	pawlv1.RegisterRunServiceServer(r, s)
	pawlv1.RegisterDocumentServiceServer(r, s)
	pawlv1.RegisterJobServiceServer(r, s)
	pawlv1.RegisterBatchServiceServer(r, s)
	pawlv1.RegisterPipelineServiceServer(r, s)
	pawlv1.RegisterStatsServiceServer(r, s)
	pawlv1.RegisterTenantServiceServer(r, s)
	pawlv1.RegisterScheduleServiceServer(r, s)
	systemv1.RegisterAccessServiceServer(r, access{keys: s.keys})
}

// RESTAddress is where the REST API listens.
func (s *Service) RESTAddress() string { return s.listener.Addr().String() }

// Run serves the REST API and follows the events of runs until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { s.wakes.run(ctx) })
	background.Go(func() { s.keepKeys(ctx) })
	background.Go(func() { s.keepSchedules(ctx) })
	background.Go(func() { s.policies.run(ctx) })
	background.Go(func() { s.rates.Run(ctx) })
	background.Go(func() { s.admission.backlog.run(ctx) })
	defer background.Wait()
	defer cancel()
	err := s.http.Serve(s.listener)
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the REST API: %w", err)
	}
	<-ctx.Done()
	return nil
}

// keepKeys stores the last use of keys now and then, and once more at the end.
func (s *Service) keepKeys(ctx context.Context) {
	flush := func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, lookupTime)
		defer cancel()
		if err := s.keys.flush(ctx); err != nil {
			s.log.WarnContext(ctx, "last use of API keys cannot be stored", "error", err)
		}
	}
	_ = clock.Every(ctx, s.clock, flushEvery, flush) // only ends with ctx
	flush(context.WithoutCancel(ctx))
}

// Ready reports whether PostgreSQL answers: without it nobody can be identified. Redis is not needed to accept work.
func (s *Service) Ready(ctx context.Context) error { return s.store.Ping(ctx) }

// Drain ends the watches, whose clients then watch at another replica, and answers the REST calls that are under way.
func (s *Service) Drain(ctx context.Context) {
	s.stop.Do(func() { close(s.stopping) })
	if err := s.http.Shutdown(ctx); err != nil {
		s.log.WarnContext(ctx, "REST calls were cut off", "error", err)
		_ = s.http.Close() // what could not end in time is cut off
	}
}
