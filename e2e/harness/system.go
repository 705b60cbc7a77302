package harness

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/cmd/pawl/dev"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/testkit"
)

// Services lists the services that are processes of their own.
func Services() []string {
	return []string{serve.Orchestrator, serve.LLMGateway, serve.StepRunner, serve.Intake}
}

// Config says how a System differs from the usual one.
type Config struct {
	// Provider is where models are; nil for the simulated one of the gateway itself.
	Provider *Provider
	// Concurrency is how many requests are sent to Provider at once; 0 is the usual limit.
	Concurrency int
	// Models is the content of the models file, in place of the one that follows from Provider.
	Models string
	// Env is more environment.
	Env []string
	// Expected are the messages of errors that the test gives cause for; any other logged error fails it.
	Expected []string
	// Redis are the keys to use; nil for keys of a server that other tests use too.
	Redis *testkit.Keys
	// Failpoints, if not nil, make the system run a build that has failpoints, and arm them.
	Failpoints *Failpoints
}

// System is the whole of Pawl, each service a process of its own that is started anew when it ends, on a database and keys
// of the test's own.
type System struct {
	t       testing.TB
	env     []string
	args    []string
	ports   dev.Ports
	tags    []string
	process *testkit.Process
	record  *dev.Record
	// expected are the messages of errors that may be logged.
	expected []string
	DataDir  string
	DB       *pgxpool.Pool
	Redis    *testkit.Keys
}

// Start runs `pawl dev --separate` and returns when it answers.
func Start(t testing.TB, cfg Config) *System {
	t.Helper()
	database := testkit.Postgres(t, serve.Schemas()...)
	base, err := dev.FreePortBase(t.Context())
	require.NoError(t, err)
	s := &System{t: t, ports: dev.PortsFrom(base), DataDir: t.TempDir(), DB: database.Pool, Redis: cfg.Redis, expected: cfg.Expected}
	if s.Redis == nil {
		s.Redis = testkit.Redis(t)
	}
	s.env = append([]string{
		"PAWL_DATABASE_URL=" + database.URL, "PAWL_REDIS_URL=" + s.Redis.URL, "PAWL_REDIS_PREFIX=" + s.Redis.Prefix,
	}, append(unlimited(), cfg.Env...)...)
	s.args = []string{"dev", "--separate", "--data-dir", s.DataDir, "--port-base", strconv.Itoa(base)}
	switch {
	case cfg.Models != "":
		s.args = append(s.args, "--models-file", WriteFile(t, "models.yaml", cfg.Models))
	case cfg.Provider != nil:
		s.args = append(s.args, "--models-file", cfg.Provider.modelsFile(cfg.Concurrency))
	}
	s.env = append(s.env, "PAWL_E2E_KEY=secret-of-the-test")
	if cfg.Failpoints != nil {
		s.env, s.tags = append(s.env, cfg.Failpoints.env()...), []string{testkit.FailpointsTag}
	}
	s.Up()
	return s
}

// unlimited lets a test submit as fast as it can, unless it says otherwise.
func unlimited() []string {
	return []string{"PAWL_INTAKE_SUBMIT_RATE=10000000", "PAWL_INTAKE_SUBMIT_BURST=1000000"}
}

// Up starts a system that has ended, on the same stores; Start does it the first time.
func (s *System) Up() {
	s.t.Helper()
	process := s.launch(s.args...)
	s.t.Cleanup(func() { requireNoErrors(s.t, process.Output(), s.expected...) })
	s.process, s.record = process, AwaitRecord(s.t, process, s.DataDir)
}

// launch runs a command of the program that the system runs, on its stores.
func (s *System) launch(args ...string) *testkit.Process {
	s.t.Helper()
	return testkit.Start(s.t, testkit.ProcessConfig{Path: Binary(s.t, s.tags...), Args: args, Env: s.env, Dir: Root()})
}

// Terminate tells the system to end in order.
func (s *System) Terminate() { s.process.Signal(syscall.SIGTERM) }

// AwaitEnded waits until all of a terminated system has ended, and fails the test if anything is left behind or went wrong.
// The services are those of a record from before.
func (s *System) AwaitEnded(before dev.Record) {
	s.t.Helper()
	require.NoError(s.t, s.process.Wait(Patience))
	for name, service := range before.Services {
		require.False(s.t, Running(service.PID), "%s (process %d) was left behind", name, service.PID)
	}
}

// Attach is a system that was started otherwise; only its API is reached.
func Attach(t testing.TB, record dev.Record) *System {
	return &System{t: t, record: &record, DataDir: record.DataDir}
}

// requireNoErrors fails when a service has logged that somebody must act: a test that gives cause for that says so.
func requireNoErrors(t testing.TB, output string, expected ...string) {
	t.Helper()
	for line := range strings.Lines(output) {
		if slices.ContainsFunc(expected, func(message string) bool { return strings.Contains(line, `"msg":"`+message) }) {
			continue
		}
		require.NotContains(t, line, `"level":"ERROR"`)
		require.NotRegexp(t, "^(panic|fatal error): |WARNING: DATA RACE", line)
	}
}

// For is the same system for a subtest.
func (s *System) For(t testing.TB) *System {
	same := *s
	same.t = t
	return &same
}

// AwaitRecord waits until the system of a data folder answers, and returns how it is reached.
func AwaitRecord(t testing.TB, process *testkit.Process, dataDir string) (record *dev.Record) {
	t.Helper()
	process.Await(func() (err error) {
		record, err = dev.ReadRecord(dataDir)
		return err
	})
	return record
}

// Serve runs one more replica of a service beside those of the system, and returns when it is ready. A replica of intake
// has its REST API at the URL.
func (s *System) Serve(service string) (url string) {
	s.t.Helper()
	base, err := dev.FreePortBase(s.t.Context())
	require.NoError(s.t, err)
	ports := dev.PortsFrom(base)
	args := append([]string{"serve", service}, listeners(ports)...)
	process := s.launch(append(args,
		"--orchestrator-address", loopback(s.ports.Orchestrator), "--llm-gateway-address", loopback(s.ports.LLMGateway),
		"--intake-address", loopback(s.ports.GRPC))...)
	process.AwaitOK("http://" + loopback(ports.Admin) + "/readyz")
	return "http://" + loopback(ports.REST)
}

// Record says how the system is reached now.
func (s *System) Record() dev.Record {
	s.t.Helper()
	record, err := dev.ReadRecord(s.DataDir)
	require.NoError(s.t, err)
	return *record
}

// Kill ends a service as a crash does, and waits until it answers again in a process of its own.
func (s *System) Kill(service string) {
	s.t.Helper()
	before := s.Record().Services[service].PID
	s.Signal(service, syscall.SIGKILL)
	Eventually(s.t, func() error {
		now := s.Record().Services[service]
		if now.PID == before {
			return fmt.Errorf("%s was not started anew", service)
		}
		return Ready(s.t.Context(), now.Admin)
	})
}

// Pause stops a service from doing anything until it is killed.
func (s *System) Pause(service string) {
	s.t.Helper()
	s.Signal(service, syscall.SIGSTOP)
}

// Signal sends a signal to a service.
func (s *System) Signal(service string, signal syscall.Signal) {
	s.t.Helper()
	pid := s.Record().Services[service].PID
	require.Positive(s.t, pid, "no process of %s is on record", service)
	require.NoError(s.t, syscall.Kill(pid, signal), "%s (process %d)", service, pid)
}

// AwaitLog waits until a service has logged the message.
func (s *System) AwaitLog(message string) {
	s.t.Helper()
	s.process.Await(func() error {
		if !strings.Contains(s.process.Output(), message) {
			return fmt.Errorf("nobody has logged %q", message)
		}
		return nil
	})
}

// Output is everything that the system's processes have written so far.
func (s *System) Output() string { return s.process.Output() }

// Count is the single number that a query gives.
func (s *System) Count(query string, args ...any) int {
	s.t.Helper()
	var n int
	require.NoError(s.t, s.DB.QueryRow(s.t.Context(), query, args...).Scan(&n))
	return n
}

// Text is the single text that a query gives.
func (s *System) Text(query string, args ...any) string {
	s.t.Helper()
	var text string
	require.NoError(s.t, s.DB.QueryRow(s.t.Context(), query, args...).Scan(&text))
	return text
}
