package harness

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/cmd/pawl/dev"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/intake"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/testkit"
)

// What a service reaches beside other services, as Edge.To names it.
const (
	ToPostgres = "postgres"
	ToRedis    = "redis"
	ToProvider = "provider"
)

// listeners say on which ports a process listens, whichever services it has.
func listeners(p dev.Ports) []string {
	return []string{
		"--intake-rest", loopback(p.REST), "--grpc-listen", loopback(p.GRPC), "--admin-listen", loopback(p.Admin),
		"--orchestrator-listen", loopback(p.Orchestrator), "--llm-gateway-listen", loopback(p.LLMGateway),
		"--step-runner-listen", loopback(p.StepRunner), "--llm-gateway-endpoint", loopback(p.OpenAI),
	}
}

// Edge is a way from a process of a fleet to what it calls.
type Edge struct {
	// From is the process: intake-1, orchestrator-2, …
	From string
	// To is another process, or ToPostgres, ToRedis or ToProvider.
	To string
	// Address is where that listens, as host:port.
	Address string
}

// FleetConfig says how a Fleet differs from the usual one.
type FleetConfig struct {
	// Provider is where models are.
	Provider *Provider
	// Postgres is the server to use; nil for a private one.
	Postgres Database
	// Failpoints are those of all processes, which are built with them then; nil for the usual build.
	Failpoints *Failpoints
	// Replicas is how many processes a service has; by default one intake and two of everything else.
	Replicas map[string]int
	// Env is more environment for all processes, EnvOf for the one of a name.
	Env   []string
	EnvOf func(process string) []string
	// Fatal says which processes may die of a fatal error, such as one of memory; nil for none.
	Fatal func(process string) bool
	// Wrap is a command line before that of a process, such as prlimit's; nil for none.
	Wrap func(process string) []string
	// Route returns the address at which a process is to reach what it calls, such as that of a proxy; nil for the way
	// without detours.
	Route func(Edge) string
}

// Server is a store of a fleet, which the test may stop, kill and pause as it likes.
type Server interface {
	URL() string
	// Start runs it again after Stop or Kill, at the same address.
	Start(ctx context.Context) error
	Stop()
	Kill()
	Pause()
	Resume()
}

// Database is the server of PostgreSQL.
type Database interface {
	Server
	// Crash kills it so that it can tell nobody; Start then recovers.
	Crash(ctx context.Context) error
	// SetReadOnly makes it refuse to write, or ends that.
	SetReadOnly(ctx context.Context, on bool) error
	// Exhaust takes all connections, until release.
	Exhaust(ctx context.Context) (release func(), err error)
	// Ended waits until it has ended by itself, and says how, or until ctx ends.
	Ended(ctx context.Context) error
}

// Fleet is the whole of Pawl as a cluster runs it: every replica a process of its own that is started anew when it ends, at
// explicit addresses, on stores of the test's own.
type Fleet struct {
	t testing.TB
	// API is the system as its clients see it, through the first intake, and its stores.
	API *System
	// Postgres and Redis are the stores' servers.
	Postgres    Database
	Redis       Server
	Provider    *Provider
	replicas    []*Replica
	databaseURL string
	config      FleetConfig
}

// Replica is a process of a fleet.
type Replica struct {
	*testkit.Supervised
	// Name is its service with a number from 1.
	Name, Service string
	// Admin tells health and metrics; REST is intake's API. Both are URLs.
	Admin, REST string
	// address is where it serves other services; empty if none calls it.
	address string
	ports   dev.Ports
}

// StartFleet runs a fleet and returns when all of it is ready.
func StartFleet(t testing.TB, cfg FleetConfig) *Fleet {
	t.Helper()
	if cfg.Postgres == nil {
		cfg.Postgres = testkit.PrivatePostgres(t)
	}
	redis := testkit.PrivateRedis(t)
	database := testkit.DatabaseAt(t, cfg.Postgres.URL(), serve.Schemas()...)
	f := &Fleet{
		t: t, Postgres: cfg.Postgres, Redis: redis, Provider: cfg.Provider, databaseURL: database.URL, config: cfg,
	}
	key, err := intake.EnsureKey(t.Context(), database.Pool, "default", store.RoleAdmin, "")
	require.NoError(t, err)
	f.lay()
	keys := testkit.KeysAt(t, redis.URL())
	keys.Prefix = "pawl"
	f.API = Attach(t, dev.Record{REST: f.Of(serve.Intake)[0].REST, APIKey: key, DatabaseURL: database.URL, RedisURL: redis.URL(), RedisPrefix: keys.Prefix})
	f.API.DB, f.API.Redis = database.Pool, keys
	for _, r := range f.replicas {
		f.launch(r)
	}
	f.AwaitReady()
	return f
}

// lay names the replicas and gives them their ports.
func (f *Fleet) lay() {
	f.t.Helper()
	taken := map[int]bool{}
	for _, service := range Services() {
		count, told := f.config.Replicas[service]
		if !told {
			count = 2
			if service == serve.Intake {
				count = 1
			}
		}
		for n := range count {
			r := &Replica{Name: fmt.Sprintf("%s-%d", service, n+1), Service: service, ports: dev.PortsFrom(f.freeBase(taken))}
			r.REST, r.Admin = "http://"+loopback(r.ports.REST), "http://"+loopback(r.ports.Admin)
			r.address = map[string]string{
				serve.Orchestrator: loopback(r.ports.Orchestrator), serve.LLMGateway: loopback(r.ports.LLMGateway), serve.Intake: loopback(r.ports.GRPC),
			}[service]
			f.replicas = append(f.replicas, r)
		}
	}
}

// freeBase finds ports that do not overlap with those that are taken and not in use yet.
func (f *Fleet) freeBase(taken map[int]bool) int {
	f.t.Helper()
	for {
		base, err := dev.FreePortBase(f.t.Context())
		require.NoError(f.t, err)
		if !taken[base] && !taken[base+dev.PortCount-1] {
			for port := range dev.PortCount {
				taken[base+port] = true
			}
			return base
		}
	}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// launch starts a replica for the first time.
func (f *Fleet) launch(r *Replica) {
	f.t.Helper()
	env := append([]string{
		"PAWL_DATABASE_URL=" + f.routedURL(r, ToPostgres, f.databaseURL),
		"PAWL_REDIS_URL=" + f.routedURL(r, ToRedis, f.Redis.URL()), "PAWL_E2E_KEY=secret-of-the-test",
	}, append(unlimited(), f.config.Env...)...)
	if f.config.EnvOf != nil {
		env = append(env, f.config.EnvOf(r.Name)...)
	}
	var tags []string
	if f.config.Failpoints != nil {
		tags = append(tags, testkit.FailpointsTag)
		env = append(env, f.config.Failpoints.env()...)
	}
	command := append([]string{Binary(f.t, tags...)}, f.arguments(r)...)
	if f.config.Wrap != nil {
		command = append(f.config.Wrap(r.Name), command...)
	}
	r.Supervised = testkit.Supervise(f.t, testkit.ProcessConfig{Path: command[0], Args: command[1:], Env: env, Dir: Root()})
	if f.config.Fatal == nil || !f.config.Fatal(r.Name) {
		f.t.Cleanup(func() { requireNoErrors(f.t, r.Output()) })
	}
}

func (f *Fleet) arguments(r *Replica) []string {
	args := append([]string{"serve", r.Service, "--log-format", "json"}, listeners(r.ports)...)
	args = append(args,
		"--orchestrator-address", f.target(r, serve.Orchestrator), "--llm-gateway-address", f.target(r, serve.LLMGateway),
		"--intake-address", f.Of(serve.Intake)[0].address) // only for the keys of the gateways' endpoints
	if r.Service == serve.LLMGateway && f.Provider != nil {
		provider := f.routedURL(r, ToProvider, f.Provider.URL)
		args = append(args, "--llm-gateway-models-file", f.Provider.modelsFileAt(provider, usualConcurrency))
	}
	return args
}

// target lists the addresses of a service's replicas, as a replica is to reach them.
func (f *Fleet) target(from *Replica, service string) string {
	var addresses []string
	for _, to := range f.Of(service) {
		addresses = append(addresses, f.route(Edge{From: from.Name, To: to.Name, Address: to.address}))
	}
	return "ipv4:///" + strings.Join(addresses, ",")
}

func (f *Fleet) route(e Edge) string {
	if f.config.Route == nil {
		return e.Address
	}
	return f.config.Route(e)
}

// routedURL is a URL whose host is the one at which the replica is to reach it.
func (f *Fleet) routedURL(from *Replica, to, address string) string {
	f.t.Helper()
	u, err := url.Parse(address)
	require.NoError(f.t, err)
	u.Host = f.route(Edge{From: from.Name, To: to, Address: u.Host})
	return u.String()
}

// All lists the replicas in the order in which they were started.
func (f *Fleet) All() []*Replica { return f.replicas }

// Of lists the replicas of a service.
func (f *Fleet) Of(service string) (found []*Replica) {
	for _, r := range f.replicas {
		if r.Service == service {
			found = append(found, r)
		}
	}
	return found
}

// For is the same fleet for a subtest.
func (f *Fleet) For(t testing.TB) *Fleet {
	same := *f
	same.t, same.API = t, f.API.For(t)
	if f.Provider != nil {
		same.Provider = f.Provider.For(t)
	}
	return &same
}

// AwaitReady waits until every replica says that it can serve.
func (f *Fleet) AwaitReady() {
	f.t.Helper()
	for _, r := range f.replicas {
		Eventually(f.t, func() error {
			if err := r.Ready(f.t.Context()); err != nil {
				return fmt.Errorf("%s: %w", r.Name, err)
			}
			return nil
		})
	}
}

// Ready says why the replica cannot serve; nil if it can.
func (r *Replica) Ready(ctx context.Context) error { return Ready(ctx, r.Admin) }
