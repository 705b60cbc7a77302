package boot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"pawl.internal/services/internal/rpc"
)

// defaultGrace is how long a service may take to drain, when its entry does not say.
const defaultGrace = 20 * time.Second

// longestStream is how long a stream, such as the upload of a batch, may go on after its connection has reached its age.
const longestStream = time.Hour

// livenessName is the health service that is SERVING as long as the process answers, whatever its dependencies do.
const livenessName = "liveness"

var errNoReason = errors.New("no error was given")

// Service is one of the system's services. If it is also an rpc.Authenticator, its calls pass that.
type Service interface {
	// Register adds the service's methods to its gRPC server.
	Register(r grpc.ServiceRegistrar)
	// Run does the service's own work until ctx ends. That happens after Drain, and after the last call was answered: so
	// what calls depend on belongs here. An error before that stops the process.
	Run(ctx context.Context) error
	// Ready returns why the service cannot serve at the moment, or nil. It is asked every second or two: be cheap.
	Ready(ctx context.Context) error
	// Drain takes no new work any more, and finishes or hands back what is under way, at the latest when ctx ends. Calls
	// are still answered meanwhile.
	Drain(ctx context.Context)
}

// unit is a service that runs, with its server.
type unit struct {
	name    string
	grace   time.Duration
	service Service
	server  *grpc.Server
	health  *grpchealth.Server
	cancel  context.CancelFunc
	ran     chan struct{} // closed when Run has returned
}

// startUnit builds the service and begins to serve it; failures that come later go to fail.
func startUnit(ctx context.Context, p *Process, e Entry, o rpc.ServerOptions, fail func(error)) (*unit, error) {
	service, err := e.Build(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Name, err)
	}
	u := &unit{name: e.Name, grace: e.Grace, service: service, health: grpchealth.NewServer(), ran: make(chan struct{})}
	if u.grace == 0 {
		u.grace = defaultGrace
	}
	o.Service, o.Log, o.Grace = e.Name, p.Log, max(u.grace, longestStream)
	o.Authenticator, _ = service.(rpc.Authenticator)
	u.server = rpc.NewServer(o) //nolint:contextcheck,nolintlint // calls have the contexts of their callers
	u.register(p.config.Reflection)
	listeners, err := p.network.listeners(ctx, e.Name)
	if err != nil {
		return nil, err
	}
	u.start(ctx, listeners, fail)
	return u, nil
}

func (u *unit) register(withReflection bool) {
	u.service.Register(u.server)
	grpc_health_v1.RegisterHealthServer(u.server, u.health)
	u.setServing(false)
	u.health.SetServingStatus(livenessName, grpc_health_v1.HealthCheckResponse_SERVING)
	if withReflection {
		reflection.Register(u.server)
	}
}

func (u *unit) start(ctx context.Context, listeners []net.Listener, fail func(error)) {
	for _, l := range listeners {
		go func() {
			if err := u.server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				fail(fmt.Errorf("%s: serve: %w", u.name, err))
			}
		}()
	}
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	u.cancel = cancel
	go func() {
		defer close(u.ran)
		if err := u.service.Run(runCtx); runCtx.Err() == nil {
			fail(fmt.Errorf("%s ended by itself: %w", u.name, cmp.Or(err, errNoReason)))
		}
	}()
}

// setServing says in gRPC's health protocol whether the unit takes calls.
func (u *unit) setServing(serving bool) {
	status := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if serving {
		status = grpc_health_v1.HealthCheckResponse_SERVING
	}
	u.health.SetServingStatus("", status)
	for name := range u.server.GetServiceInfo() {
		u.health.SetServingStatus(name, status)
	}
}

// stop drains the service, lets its calls end, and then ends Run. It returns within twice the grace period, and an error
// when something had to be cut short.
func (u *unit) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, u.grace)
	defer cancel()
	u.service.Drain(ctx)
	calls := u.stopServer(ctx)
	u.cancel()
	last, cancelLast := context.WithTimeout(context.WithoutCancel(ctx), u.grace)
	defer cancelLast()
	select {
	case <-u.ran:
		return calls
	case <-last.Done():
		return errors.Join(calls, fmt.Errorf("%s: its work did not end within %v", u.name, u.grace))
	}
}

// stopServer lets calls end until ctx ends, and then cuts them off.
func (u *unit) stopServer(ctx context.Context) error {
	graceful := make(chan struct{})
	go func() {
		defer close(graceful)
		u.server.GracefulStop()
	}()
	select {
	case <-graceful:
		return nil
	case <-ctx.Done():
		u.server.Stop()
		<-graceful
		return fmt.Errorf("%s: calls were cut off after %v", u.name, u.grace)
	}
}
