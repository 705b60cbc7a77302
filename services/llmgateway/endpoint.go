package llmgateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/boot"
	"pawl.internal/services/llmgateway/compat"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/store"
)

const (
	// scopeTime is how long an idempotency key stands for its first request.
	scopeTime = 24 * time.Hour
	// headerTime and idleTime bound what a client may make a connection wait for, bodyTime how long it may send a request.
	headerTime = 5 * time.Second
	bodyTime   = time.Minute
	idleTime   = 2 * time.Minute
	// headerBytes bounds the headers of a request.
	headerBytes = 32 << 10
	// llmTime bounds the answer of a request that states no time: as long as that of a step.
	llmTime = 2 * time.Minute
)

// endpoint serves the OpenAI-compatible endpoint; the zero value serves nothing.
type endpoint struct {
	listener net.Listener
	http     *http.Server
}

// openEndpoint listens for OpenAI's clients, unless the configuration says otherwise.
func (s *Service) openEndpoint(ctx context.Context, p *boot.Process, cfg Config) error {
	if cfg.Endpoint == "" {
		return nil
	}
	intake, err := p.Dial("intake")
	if err != nil {
		return err
	}
	handler := compat.New(compat.Config{
		Gateway: asker{s}, Access: systemv1.NewAccessServiceClient(intake), Admin: p.AdminHandler(),
		Clock: p.Clock, IDs: p.IDs, Log: p.Log, Metrics: p.Metrics,
		MaxBodyBytes: cfg.EndpointMaxBodyBytes, Timeout: cfg.EndpointTimeout, LLMTimeout: llmTime,
	})
	s.endpoint.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Endpoint)
	if err != nil {
		return fmt.Errorf("the OpenAI-compatible endpoint cannot listen: %w", err)
	}
	s.endpoint.http = &http.Server{
		Handler: handler, ErrorLog: slog.NewLogLogger(p.Log.Handler(), slog.LevelWarn),
		ReadHeaderTimeout: headerTime, ReadTimeout: bodyTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
	}
	return nil
}

// EndpointAddress is where the OpenAI-compatible endpoint listens; empty if it is not served.
func (s *Service) EndpointAddress() string {
	if s.endpoint.listener == nil {
		return ""
	}
	return s.endpoint.listener.Addr().String()
}

// serve serves until ctx ends.
func (e *endpoint) serve(ctx context.Context) error {
	if e.http == nil {
		return nil
	}
	defer context.AfterFunc(ctx, func() { _ = e.http.Close() })() // usually it was drained before
	if err := e.http.Serve(e.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the OpenAI-compatible endpoint: %w", err)
	}
	<-ctx.Done()
	return nil
}

// drain takes no new connections, and returns what waits until those that are under way are answered, or ctx ends.
func (e *endpoint) drain(ctx context.Context, log *slog.Logger) (wait func()) {
	if e.http == nil {
		return func() {}
	}
	drained := make(chan error, 1)
	go func() { drained <- e.http.Shutdown(ctx) }()
	return func() {
		if err := <-drained; err != nil {
			log.WarnContext(ctx, "requests to the OpenAI-compatible endpoint were cut off", "error", err)
			_ = e.http.Close() // what could not end in time is cut off
		}
	}
}

// asker is the gateway as its endpoint sees it.
type asker struct{ service *Service }

// Models lists the routes and the models of their targets, each name once.
func (g asker) Models() []compat.Model {
	known := g.service.models.current().catalog
	var list []compat.Model
	add := func(id, owner string) {
		if !slices.ContainsFunc(list, func(m compat.Model) bool { return m.ID == id }) {
			list = append(list, compat.Model{ID: id, Owner: owner})
		}
	}
	for _, name := range known.RouteNames() {
		add(name, "pawl")
	}
	for _, p := range known.Providers {
		for _, name := range known.Models(p.Name) {
			add(name, p.Name)
		}
	}
	return list
}

// Knows reports whether there is such a route or model.
func (g asker) Knows(name string) bool {
	_, ok := g.service.models.current().catalog.Route(name)
	return ok
}

// Scope finds the scope of an idempotency key, or makes it. What it stands for is the question itself: how long its client
// waits, and whether it wants the answer in pieces, may differ.
func (g asker) Scope(ctx context.Context, key compat.Key, q *systemv1.GenerateRequest, fresh uuid.UUID) (uuid.UUID, error) {
	request, err := canonicalRequest(q)
	if err != nil {
		return uuid.UUID{}, err
	}
	digest := sha256.Sum256(append([]byte(q.GetStep().GetStep()+"\n"), request...))
	found, err := g.service.store.TakeScope(ctx, store.Scope{Tenant: key.Tenant, Key: key.Text, ID: fresh, Digest: digest}, scopeTime)
	if err == nil && found.Digest != digest {
		err = compat.ErrKeyReused
	}
	return found.ID, err
}

// Ask begins to answer a question that belongs to no run, or joins those who follow it.
func (g asker) Ask(ctx context.Context, q *systemv1.GenerateRequest, live bool) (compat.Call, error) {
	a, err := newAsk(q)
	if err != nil {
		return nil, err
	}
	a.outside = true
	f, leads, err := g.service.board(ctx, a, live)
	if err != nil {
		return nil, err
	}
	return seat{f, leads}, nil
}

// seat is the place of one caller on a flight.
type seat struct {
	*flight
	leads bool
}

// Said returns what the model has said from the n-th piece on.
func (s seat) Said(n int) (pieces []provider.Delta, model string, more <-chan struct{}) {
	return s.speech.from(n)
}

// Done is closed when the flight has ended.
func (s seat) Done() <-chan struct{} { return s.done }

// Result is how it ended.
func (s seat) Result() (compat.Result, error) {
	o := s.outcome
	if o.err != nil {
		return compat.Result{}, o.err
	}
	told := o.message(s.ask, s.leads)
	result := compat.Result{Answer: told.GetAnswer(), Failure: told.GetFailure()}
	if o.failed != nil && o.failed.atFault {
		o.failed = nil
		result.Answer = o.message(s.ask, s.leads).GetAnswer()
	}
	return result, nil
}

// Replayed reports whether somebody else had asked before, as far as it is known.
func (s seat) Replayed() bool {
	select {
	case <-s.done:
		return !s.leads || s.outcome.replayed
	default:
		return !s.leads
	}
}
