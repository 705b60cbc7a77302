package harness

import (
	"fmt"
	"net/http"
	"strconv"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/cmd/pawl/dev"
	"pawl.internal/services/testkit"
)

// The services that are processes of their own.
const (
	Orchestrator = "orchestrator"
	LLMGateway   = "llm-gateway"
	StepRunner   = "step-runner"
	Intake       = "intake"
)

// Services lists all of them.
func Services() []string { return []string{Orchestrator, LLMGateway, StepRunner, Intake} }

// System is the whole of Pawl, each service a process of its own that is started anew when it ends, on a database and keys
// of the test's own.
type System struct {
	t       testing.TB
	dataDir string
	DB      *pgxpool.Pool
	record  *dev.Record
}

// Start runs `pawl dev --separate` with more flags and environment, and returns when it answers.
func Start(t testing.TB, env []string, flags ...string) *System {
	t.Helper()
	database, keys := testkit.Postgres(t), testkit.Redis(t)
	base, err := dev.FreePortBase()
	require.NoError(t, err)
	s := &System{t: t, dataDir: t.TempDir(), DB: database.Pool}
	env = append([]string{
		"PAWL_DATABASE_URL=" + database.URL, "PAWL_REDIS_URL=" + keys.URL, "PAWL_REDIS_PREFIX=" + keys.Prefix,
		"PAWL_E2E_KEY=secret-of-the-test",
	}, env...)
	system := start(t, "pawl dev", env, append([]string{
		"dev", "--separate", "--data-dir", s.dataDir, "--port-base", strconv.Itoa(base),
	}, flags...)...)
	Eventually(t, func() error {
		select {
		case <-system.ended:
			t.Fatalf("pawl dev ended:\n%s", system.output.tail())
		default:
		}
		s.record, err = dev.ReadRecord(s.dataDir)
		return err
	})
	return s
}

// Record says how the system is reached now.
func (s *System) Record() dev.Record {
	s.t.Helper()
	record, err := dev.ReadRecord(s.dataDir)
	require.NoError(s.t, err)
	return *record
}

// Do sends a request to the REST API, with a key if it is not empty.
func (s *System) Do(method, path, idempotencyKey string, body any) Response {
	s.t.Helper()
	response, err := s.Try(method, path, idempotencyKey, body)
	require.NoError(s.t, err)
	return response
}

// Try is Do for callers that expect the server to be away at times.
func (s *System) Try(method, path, idempotencyKey string, body any) (Response, error) {
	return s.TryAt(s.record.REST, method, path, idempotencyKey, body)
}

// TryAt is Try at another replica of intake.
func (s *System) TryAt(rest, method, path, idempotencyKey string, body any) (Response, error) {
	header := http.Header{"Authorization": {"Bearer " + s.record.APIKey}}
	if idempotencyKey != "" {
		header.Set("Idempotency-Key", idempotencyKey)
	}
	return exchange(s.t.Context(), method, rest+path, header, body)
}

// Submit repeats a creating request under one key until it is accepted, as clients do, and returns its answer.
func (s *System) Submit(path, idempotencyKey string, body any) map[string]any {
	s.t.Helper()
	var accepted Response
	Eventually(s.t, func() (err error) {
		accepted, err = s.Try(http.MethodPost, path, idempotencyKey, body)
		if err == nil && accepted.Status >= http.StatusInternalServerError {
			err = fmt.Errorf("status %d: %s", accepted.Status, accepted.Body)
		}
		return err
	})
	require.Less(s.t, accepted.Status, 300, "%s", accepted.Body)
	return accepted.JSON(s.t)
}

// Run returns the run as the REST API shows it.
func (s *System) Run(id string) (map[string]any, error) {
	response, err := s.Try(http.MethodGet, "/v1/runs/"+id, "", nil)
	if err != nil {
		return nil, err
	}
	if response.Status != http.StatusOK {
		return nil, fmt.Errorf("status %d: %s", response.Status, response.Body)
	}
	return response.JSON(s.t), nil
}

// AwaitRun waits until the run satisfies what is wanted, and returns it.
func (s *System) AwaitRun(id string, wanted func(run map[string]any) bool) map[string]any {
	s.t.Helper()
	var run map[string]any
	Eventually(s.t, func() (err error) {
		if run, err = s.Run(id); err == nil && !wanted(run) {
			err = fmt.Errorf("the run is %v", run)
		}
		return err
	})
	return run
}

// AwaitEnd waits until the run has ended, and returns it.
func (s *System) AwaitEnd(id string) map[string]any {
	s.t.Helper()
	return s.AwaitRun(id, func(run map[string]any) bool {
		status := run["status"]
		return status == "done" || status == "failed" || status == "cancelled"
	})
}

// Kill ends a service as a crash does; it is started anew by itself.
func (s *System) Kill(service string) { s.Signal(service, syscall.SIGKILL) }

// Signal sends a signal to a service.
func (s *System) Signal(service string, signal syscall.Signal) {
	s.t.Helper()
	pid := s.Record().Services[service].PID
	require.Positive(s.t, pid, "no process of %s is on record", service)
	require.NoError(s.t, syscall.Kill(pid, signal), "%s (process %d)", service, pid)
}

// AwaitReady waits until the service answers in a process other than before.
func (s *System) AwaitReady(service string, before dev.Record) {
	s.t.Helper()
	Eventually(s.t, func() error {
		now := s.Record().Services[service]
		if now.PID == before.Services[service].PID {
			return fmt.Errorf("%s was not started anew", service)
		}
		response, err := exchange(s.t.Context(), http.MethodGet, now.Admin+"/readyz", nil, nil)
		if err != nil {
			return err
		}
		return response.decode(nil)
	})
}

// Count is the single number that a query gives.
func (s *System) Count(query string, args ...any) int {
	s.t.Helper()
	var n int
	require.NoError(s.t, s.DB.QueryRow(s.t.Context(), query, args...).Scan(&n))
	return n
}
