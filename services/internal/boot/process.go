// Package boot is the life of a process: it builds the services that the process runs, joins them over TCP or in memory,
// serves health and metrics, and stops everything in the right order.
//
// Services never call each other's Go methods: also in one process their RPCs pass the real interceptors, deadlines and
// error mapping, only over a connection in memory. boot knows no service; a table says how to build each.
package boot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/ids"
)

// Config says where a process listens and where it finds the services that it does not run itself.
type Config struct {
	// Listen is the TCP address of each service that others reach by network. A service of this process that is not
	// listed can be called only from within.
	Listen map[string]string
	// Peers is the gRPC target of each service that runs elsewhere: "dns:///orchestrator:9091".
	Peers map[string]string
	// Admin is the TCP address of health, metrics and profiles; "" for none.
	Admin string
	// Profiles adds /debug/pprof to Admin.
	Profiles bool
	// Reflection lets gRPC clients ask for the schema.
	Reflection bool
	// StopDelay is the time from "not ready" to the first act of stopping, for load balancers to notice.
	StopDelay time.Duration
}

// Process carries what its services share. The fields are set before anything is built and never change.
type Process struct {
	Clock   clock.Clock
	IDs     *ids.Source
	Log     *slog.Logger
	Metrics *prometheus.Registry

	config  Config
	service string // whose view of the process this is; empty for the process itself
	network *network
	stops   *stopList
	health  *health
}

// New returns a process without services; Run adds them.
func New(cfg Config, clk clock.Clock, source *ids.Source, log *slog.Logger, metrics *prometheus.Registry) *Process {
	return &Process{
		Clock: clk, IDs: source, Log: log, Metrics: metrics,
		config: cfg, network: newNetwork(cfg), stops: &stopList{}, health: &health{},
	}
}

// forService is the process as one of its services sees it.
func (p *Process) forService(name string) *Process {
	own := *p
	own.service = name
	own.Log = p.Log.With("service", name)
	return &own
}

// Dial returns the process's connection to a service: in memory when the service runs here, else over TCP. It is shared,
// connects in the background, and is closed when the process has stopped.
func (p *Process) Dial(service string) (*grpc.ClientConn, error) { return p.network.dial(service) }

// OnStop registers what must be done after all services have stopped: close pools, flush. The last registered is done
// first. When fn takes longer than timeout, stopping goes on without it.
func (p *Process) OnStop(name string, timeout time.Duration, fn func(context.Context) error) {
	p.stops.add(stop{name: name, timeout: timeout, fn: fn})
}

// Check registers a dependency that /healthz reports, such as "postgres". It is asked per request, for a moment. When several
// services have one of that name, it is there if all of them reach it.
func (p *Process) Check(name string, fn func(context.Context) error) { p.health.addCheck(name, fn) }

// stopList is what is left to do at the end of a process.
type stopList struct {
	mu    sync.Mutex
	stops []stop // guarded by mu
}

type stop struct {
	name    string
	timeout time.Duration
	fn      func(context.Context) error
}

func (l *stopList) add(s stop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stops = append(l.stops, s)
}

// run does everything on the list, the last registered first, and returns all errors.
func (l *stopList) run(ctx context.Context) error {
	l.mu.Lock()
	stops := l.stops
	l.stops = nil
	l.mu.Unlock()
	var errs []error
	for i := len(stops) - 1; i >= 0; i-- {
		if err := stops[i].run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", stops[i].name, err))
		}
	}
	return errors.Join(errs...)
}

// run does one thing, and leaves it behind when it is late.
func (s stop) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.fn(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
