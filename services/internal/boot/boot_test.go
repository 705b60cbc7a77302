package boot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/boot"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/internal/redisconn"
	"pawl.internal/services/internal/telemetry"
	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const someRun = "01890000-0000-7000-8000-000000000001"

// diary notes what happened, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

// service is one that answers GetRun and notes its life.
type service struct {
	systemv1.UnimplementedOrchestratorServiceServer
	name   string
	diary  *diary
	ready  func(context.Context) error
	run    func(context.Context) error
	getRun func(context.Context) error
}

func (s *service) Register(r grpc.ServiceRegistrar) { systemv1.RegisterOrchestratorServiceServer(r, s) }

func (s *service) Run(ctx context.Context) error {
	defer s.diary.note("%s ended", s.name)
	if s.run != nil {
		return s.run(ctx)
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *service) Ready(ctx context.Context) error {
	if s.ready != nil {
		return s.ready(ctx)
	}
	return nil
}

func (s *service) Drain(context.Context) { s.diary.note("%s drains", s.name) }

func (s *service) GetRun(ctx context.Context, _ *systemv1.GetRunRequest) (*systemv1.GetRunResponse, error) {
	if s.getRun != nil {
		if err := s.getRun(ctx); err != nil {
			return nil, err
		}
	}
	return &systemv1.GetRunResponse{Kind: s.name}, nil
}

// bundle is a process with the services "back" and "front", of which front needs back.
type bundle struct {
	*boot.Process
	back, front *service
	diary       *diary
	table       []boot.Entry
}

func setup(t *testing.T, cfg boot.Config) *bundle {
	t.Helper()
	clk := clock.System()
	b := &bundle{
		Process: boot.New(cfg, clk, ids.New(clk), slog.New(slog.DiscardHandler), telemetry.NewRegistry()),
		diary:   &diary{},
	}
	b.back, b.front = &service{name: "back", diary: b.diary}, &service{name: "front", diary: b.diary}
	build := func(s *service) func(context.Context, *boot.Process) (boot.Service, error) {
		return func(_ context.Context, p *boot.Process) (boot.Service, error) {
			p.OnStop(s.name+" pool", time.Second, func(context.Context) error {
				b.diary.note("%s pool closed", s.name)
				return nil
			})
			return s, nil
		}
	}
	b.table = []boot.Entry{
		{Name: "back", Build: build(b.back)},
		{Name: "front", Needs: []string{"back"}, Build: build(b.front), Grace: 500 * time.Millisecond},
	}
	return b
}

// start runs the process and returns what stops it and gives its error.
func (b *bundle) start(t *testing.T, names ...string) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- boot.Run(ctx, b.Process, b.table, names) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ran
	})
	t.Cleanup(func() { _ = stop() })
	testkit.Eventually(t, 10*time.Second, func() error {
		if status, _ := b.ask(t, "/readyz"); status != http.StatusOK {
			return errors.New("not ready")
		}
		return nil
	})
	return stop
}

type report struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks"`
}

// ask gets a page of the admin handler.
func (b *bundle) ask(t *testing.T, path string) (int, report) {
	t.Helper()
	recorder := httptest.NewRecorder()
	b.AdminHandler().ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	var body report
	require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &body))
	return recorder.Code, body
}

func (b *bundle) call(ctx context.Context, name string) (string, error) {
	conn, err := b.Dial(name)
	if err != nil {
		return "", err
	}
	got, err := systemv1.NewOrchestratorServiceClient(conn).
		GetRun(ctx, &systemv1.GetRunRequest{Tenant: "t", RunId: someRun})
	return got.GetKind(), err
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func TestServicesOfOneProcessMeetInMemory(t *testing.T) {
	t.Parallel()
	b := setup(t, boot.Config{})
	stop := b.start(t, "front", "back")
	for _, name := range []string{"back", "front"} {
		got, err := b.call(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, name, got)
	}
	first, err := b.Dial("back")
	require.NoError(t, err)
	second, err := b.Dial("back")
	require.NoError(t, err)
	require.Same(t, first, second)
	require.NoError(t, stop())
}

func TestProcessesMeetOverTCP(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	server := setup(t, boot.Config{Listen: map[string]string{"back": address}})
	stopServer := server.start(t, "back")
	client := setup(t, boot.Config{Peers: map[string]string{"back": address}})
	stopClient := client.start(t, "front")
	got, err := client.call(t.Context(), "back")
	require.NoError(t, err)
	require.Equal(t, "back", got)
	require.NoError(t, stopClient())
	require.NoError(t, stopServer())
}

func TestStoppingHasAnOrder(t *testing.T) {
	t.Parallel()
	b := setup(t, boot.Config{StopDelay: time.Millisecond})
	stop := b.start(t, "front", "back")
	require.NoError(t, stop())
	require.Equal(t, []string{
		"front drains", "front ended", "back drains", "back ended", "front pool closed", "back pool closed",
	}, b.diary.read())
	status, body := b.ask(t, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, map[string]string{"back": "stopping", "front": "stopping"}, body.Checks)
}

func TestRunningCallsAreAnsweredWhileStopping(t *testing.T) {
	t.Parallel()
	b := setup(t, boot.Config{})
	begun, release := make(chan struct{}), make(chan struct{})
	b.back.getRun = func(context.Context) error {
		close(begun)
		<-release
		return nil
	}
	stop := b.start(t, "front", "back")
	answered := make(chan error, 1)
	go func() {
		_, err := b.call(t.Context(), "back")
		answered <- err
	}()
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	testkit.Eventually(t, 5*time.Second, func() error {
		if !slices.Contains(b.diary.read(), "back drains") {
			return errors.New("back does not drain")
		}
		return nil
	})
	require.NotContains(t, b.diary.read(), "back ended", "what calls depend on ended before they did")
	close(release)
	require.NoError(t, <-answered)
	require.NoError(t, <-stopped)
}

func TestCallsThatDoNotEndAreCutOff(t *testing.T) {
	t.Parallel()
	b := setup(t, boot.Config{})
	begun := make(chan struct{})
	b.front.getRun = func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}
	stop := b.start(t, "front", "back")
	answered := make(chan error, 1)
	go func() {
		_, err := b.call(t.Context(), "front")
		answered <- err
	}()
	<-begun
	require.ErrorContains(t, stop(), "front: calls were cut off after 500ms")
	require.Equal(t, codes.Unavailable, fault.CodeOf(<-answered))
	require.Contains(t, b.diary.read(), "back pool closed")
}

func TestFailureOfOneServiceStopsTheProcessInOrder(t *testing.T) {
	t.Parallel()
	for _, result := range []error{errors.New("broken"), nil} {
		b := setup(t, boot.Config{})
		b.back.run = func(context.Context) error { return result }
		err := boot.Run(t.Context(), b.Process, b.table, []string{"front", "back"})
		require.ErrorContains(t, err, "back ended by itself")
		if result != nil {
			require.ErrorIs(t, err, result)
		}
		require.Subset(t, b.diary.read(), []string{"front drains", "front pool closed", "back pool closed"})
	}
}

func TestFailureToBuildStopsWhatRunsAlready(t *testing.T) {
	t.Parallel()
	b := setup(t, boot.Config{})
	broken := errors.New("no database")
	b.table[1].Build = func(context.Context, *boot.Process) (boot.Service, error) { return nil, broken }
	err := boot.Run(t.Context(), b.Process, b.table, []string{"front", "back"})
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "front: no database")
	require.Equal(t, []string{"back drains", "back ended", "back pool closed"}, b.diary.read())
}

func TestProcessIsNotReadyBeforeAllIsServed(t *testing.T) {
	t.Parallel()
	b := setup(t, boot.Config{})
	build := b.table[1].Build
	b.table[1].Build = func(ctx context.Context, p *boot.Process) (boot.Service, error) {
		status, body := b.ask(t, "/readyz")
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Equal(t, map[string]string{"process": "starting", "back": "ok"}, body.Checks)
		return build(ctx, p)
	}
	stop := b.start(t, "front", "back")
	require.NoError(t, stop())
}

func TestMistakesInWhatToServe(t *testing.T) {
	t.Parallel()
	b := setup(t, boot.Config{})
	run := func(names ...string) error { return boot.Run(t.Context(), b.Process, b.table, names) }
	require.ErrorContains(t, run("middle"), `there is no service "middle": choose from back, front`)
	require.ErrorContains(t, run(), "no service is named: choose from back, front")
	require.ErrorContains(t, run("front"), "front needs back: no address of back is known: give --back-address")
	_, err := b.Dial("elsewhere")
	require.ErrorContains(t, err, "no address of elsewhere is known")

	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	b = setup(t, boot.Config{Listen: map[string]string{"back": taken.Addr().String()}})
	require.ErrorContains(t, run("back"), "back cannot listen")
	b = setup(t, boot.Config{Admin: taken.Addr().String()})
	require.ErrorContains(t, run("back"), "admin cannot listen")
}

func TestHealthSaysWhoIsAway(t *testing.T) {
	t.Parallel()
	b := setup(t, boot.Config{Admin: freeAddress(t), Profiles: true, Reflection: true})
	var mu sync.Mutex
	var away error
	state := func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		return away
	}
	b.front.ready = state
	b.Check("redis", state)
	stop := b.start(t, "front", "back")
	status, body := b.ask(t, "/healthz")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, report{Status: "ok", Checks: map[string]string{"redis": "ok"}}, body)
	b.expectHealth(t, "front", "", grpc_health_v1.HealthCheckResponse_SERVING)

	mu.Lock()
	away = fault.Unavailable(errors.New("secret address"), "redis is not available")
	mu.Unlock()
	status, body = b.ask(t, "/healthz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, report{Status: "unavailable", Checks: map[string]string{"redis": "redis is not available"}}, body)
	status, body = b.ask(t, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, map[string]string{"front": "redis is not available", "back": "ok"}, body.Checks)
	status, _ = b.ask(t, "/livez")
	require.Equal(t, http.StatusOK, status)
	name := systemv1.OrchestratorService_ServiceDesc.ServiceName
	b.expectHealth(t, "front", name, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	b.expectHealth(t, "front", "liveness", grpc_health_v1.HealthCheckResponse_SERVING)
	b.expectHealth(t, "back", name, grpc_health_v1.HealthCheckResponse_SERVING)
	require.NoError(t, stop())
}

// Services may reach stores of their own by the same name: one that is away must not hide behind one that answers, and those
// that hang are waited for together.
func TestHealthOfDependenciesOfOneName(t *testing.T) {
	t.Parallel()
	b := setup(t, boot.Config{})
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return fault.Unavailable(ctx.Err(), "it hangs")
	}
	b.Check("redis", hang)
	b.Check("redis", func(context.Context) error { return nil })
	b.Check("postgres", hang)
	began := time.Now()
	status, body := b.ask(t, "/healthz")
	require.Less(t, time.Since(began), 4*time.Second, "each has 2 s, one after the other they take 4")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, map[string]string{"redis": "it hangs", "postgres": "it hangs"}, body.Checks)
}

func TestStoresOfAService(t *testing.T) {
	t.Parallel()
	b := setup(t, boot.Config{})
	database, keys := testkit.Postgres(t), testkit.Redis(t)
	var control *pgxpool.Pool
	b.table[0].Build = func(ctx context.Context, p *boot.Process) (boot.Service, error) {
		_, redisErr := p.Redis(ctx, redisconn.Config{URL: config.NewSecret(keys.URL)})
		var err error
		control, err = p.Postgres(ctx, pg.Config{
			URL: config.NewSecret(database.URL), StatementTimeout: time.Minute, ConnectTimeout: time.Minute,
		}, "control")
		return b.back, errors.Join(redisErr, err)
	}
	stop := b.start(t, "back")
	var name string
	require.NoError(t, control.QueryRow(t.Context(), "SHOW application_name").Scan(&name))
	require.Equal(t, "pawl-back-control", name)
	status, body := b.ask(t, "/healthz")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, map[string]string{"redis": "ok"}, body.Checks)
	require.NoError(t, stop())
	require.ErrorContains(t, control.Ping(t.Context()), "closed pool")
}

// expectHealth waits until a service says so by gRPC's health protocol.
func (b *bundle) expectHealth(
	t *testing.T, service, name string, want grpc_health_v1.HealthCheckResponse_ServingStatus,
) {
	t.Helper()
	conn, err := b.Dial(service)
	require.NoError(t, err)
	testkit.Eventually(t, 10*time.Second, func() error {
		got, err := grpc_health_v1.NewHealthClient(conn).
			Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
		if err == nil && got.GetStatus() != want {
			err = fmt.Errorf("%s says %s", service, got.GetStatus())
		}
		return err
	})
}

func TestAdminPagesAreServed(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	b := setup(t, boot.Config{Admin: address, Profiles: true})
	stop := b.start(t, "back")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]string{
		"/metrics": "go_goroutines", "/debug/pprof/": "goroutine", "/livez": "ok", "/readyz": "back",
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		require.NoError(t, err)
		response, err := client.Do(request)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode, path)
		require.Contains(t, string(body), want)
	}
	require.NoError(t, stop())
}

func TestWhatDoesNotStopIsLeftBehind(t *testing.T) {
	t.Parallel()
	b := setup(t, boot.Config{})
	hang := make(chan struct{})
	b.OnStop("tape", 10*time.Millisecond, func(context.Context) error {
		<-hang
		return nil
	})
	stop := b.start(t, "back")
	require.EqualError(t, stop(), "stop tape: context deadline exceeded")
	close(hang)
	require.Contains(t, b.diary.read(), "back pool closed")
}
