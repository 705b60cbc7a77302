// Package llmgateway is the service that makes every model call: it holds the permits that all replicas share, knows routes
// and prices, and stores every answer before anybody reads it, so that no question is paid for twice.
//
// A question is a flight (flight.go) that belongs to no caller. It is answered from the store, from the request that another
// replica has in flight, or by asking a target (call.go): wait for a permit, record the request and reserve its worst case
// in one durable commit, check the own lease, send, store what came back and what it cost, and only then answer
// (request.go). A row without an answer therefore means "may have been sent"; no row means "surely not sent".
//
// The gateway knows nothing of pipelines. It never repeats a request at the same target by itself: retries with backoff
// belong to the state machine.
package llmgateway

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/llmgateway/breaker"
	"pawl.internal/services/llmgateway/budget"
	"pawl.internal/services/llmgateway/catalog"
	"pawl.internal/services/llmgateway/permit"
	"pawl.internal/services/llmgateway/store"
	"pawl.internal/services/llmgateway/tokens"
)

const (
	// tidyEvery is how often the partitions of the next days are made, and replicas that are gone are forgotten.
	tidyEvery = time.Hour
	// abortTime is what aborted calls have, at the end of a drain that took too long, to store that their fate is unknown.
	abortTime = 2 * time.Second
)

// Service is the LLM gateway.
type Service struct {
	systemv1.UnimplementedGatewayServiceServer

	clock    clock.Clock
	log      *slog.Logger
	metrics  *metrics
	store    *store.Store
	permits  *permit.Pool
	models   *shelf
	breakers *breaker.Set
	// source is the models file; nil without one.
	source       *catalog.Source
	lease        *lease
	budgets      *budget.Ledger
	tokens       tokens.Counter
	flights      *flights
	economy      economyLane
	orchestrator systemv1.OrchestratorServiceClient
	// logRequests is what the call log keeps of requests.
	logRequests string
	ping        func(context.Context) error
	endpoint    endpoint
	// ended ends when nothing can be stored any more.
	ended context.Context //nolint:containedctx // it bounds flights, which belong to no call
	stop  context.CancelFunc
}

// Register adds the service's methods to a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) { systemv1.RegisterGatewayServiceServer(r, s) }

// Generate answers a question, or joins those who wait for its answer.
func (s *Service) Generate(
	req *systemv1.GenerateRequest, stream grpc.ServerStreamingServer[systemv1.GenerateResponse],
) error {
	a, err := newAsk(req)
	if err != nil {
		return err
	}
	f, leads, err := s.board(stream.Context(), a, false)
	if err != nil {
		return err
	}
	return f.follow(stream, leads)
}

// board returns the flight that answers the question, and sees to it that it flies. Leads is true for the caller that began
// it. Live asks for the answer in pieces, as the model says them.
func (s *Service) board(ctx context.Context, a *ask, live bool) (f *flight, leads bool, err error) {
	f, leads, err = s.flights.join(ctx, a)
	if err != nil {
		return nil, false, err
	}
	if live {
		f.speech.want()
	}
	if leads {
		go s.fly(f) //nolint:contextcheck // a flight outlives its callers: it has a context of its own, ends by itself, and Drain waits for it
	}
	return f, leads, nil
}

// GetRoute says where a question to the name would go.
func (s *Service) GetRoute(_ context.Context, req *systemv1.GetRouteRequest) (*systemv1.GetRouteResponse, error) {
	route, ok := s.models.current().catalog.Route(req.GetName())
	if !ok {
		return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_MODEL_UNKNOWN, "there is no route or model %q", req.GetName()).
			WithMeta("model", req.GetName())
	}
	resp := &systemv1.GetRouteResponse{}
	for _, t := range route.Targets {
		resp.Targets = append(resp.Targets, t.Name())
	}
	return resp, nil
}

// Run does the gateway's own work until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	var all errgroup.Group
	for _, loop := range []func(context.Context) error{
		s.store.Run, s.permits.Run, s.lease.run, s.budgets.Run, s.judge, s.watch, s.tell, s.sweep, s.tidy, s.economy.Run,
		s.breakers.Run, s.reload, s.endpoint.serve,
	} {
		all.Go(func() error { return loop(ctx) })
	}
	err := all.Wait()
	s.stop()
	return err
}

// tidy keeps house until ctx ends. Build has made the first partitions, before there were rows for them.
func (s *Service) tidy(ctx context.Context) error {
	for {
		if err := s.clock.Sleep(ctx, tidyEvery); err != nil {
			return err
		}
		s.makePartitions(ctx)
		if err := s.store.ForgetReplicas(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "replicas that are gone cannot be forgotten", "error", err)
		}
		if err := s.store.FoldSpend(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "spend of replicas that are gone cannot be folded", "error", err)
		}
		if err := s.store.ForgetScopes(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "idempotency keys that are over cannot be forgotten", "error", err)
		}
	}
}

// makePartitions logs what goes wrong and leaves it to the next time.
func (s *Service) makePartitions(ctx context.Context) {
	if err := s.store.MakePartitions(ctx, s.clock.Now()); err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "partitions cannot be made; rows go to the default ones", "error", err)
	}
}

// Ready returns why the gateway cannot serve: the store is away, or its lease could not be renewed.
func (s *Service) Ready(ctx context.Context) error {
	if !s.lease.fresh() {
		return fault.Unavailable(nil, "the gateway's lease is not confirmed")
	}
	return s.ping(ctx)
}

// Drain takes no new questions, ends those that are not sent, and waits for the answers of the others. Those that have none
// when ctx ends are aborted: their fate is unknown then, and stored so.
func (s *Service) Drain(ctx context.Context) {
	s.flights.close()
	defer s.endpoint.drain(ctx, s.log)()
	for _, f := range s.flights.where(func(f *flight) bool { return !f.isSent() }) {
		f.end(errStopping)
	}
	if s.flights.awaitNone(ctx) {
		return
	}
	for _, f := range s.flights.where(func(*flight) bool { return true }) {
		f.end(errStopping)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
	defer cancel()
	if !s.flights.awaitNone(last) {
		s.log.WarnContext(ctx, "calls were left behind", "count", len(s.flights.runs()))
	}
}
