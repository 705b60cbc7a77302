package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/testkit"
)

// roleVariable makes the test binary one of the programs below.
const roleVariable = "PAWL_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role, argument, _ := strings.Cut(os.Getenv(roleVariable), " "); role {
	case "serve":
		serve(argument)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("started")
		select {}
	default:
		testkit.Main(m)
	}
}

// serve answers 200 at the address until it is told to end.
func serve(address string) {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ReadHeaderTimeout: time.Second}
	fmt.Println(server.Serve(listener))
	os.Exit(3)
}

func start(tb testing.TB, role string) *testkit.Process {
	tb.Helper()
	return testkit.Start(tb, testkit.ProcessConfig{Path: os.Args[0], Env: []string{roleVariable + "=" + role}})
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func schema(table string) pg.Schema {
	return pg.Schema{Name: "kit", Files: fstest.MapFS{
		"00001_x.sql": {Data: []byte("-- +goose Up\nCREATE TABLE kit." + table + " (id int);")},
	}}
}

func TestEveryTestHasADatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	first, second := testkit.Postgres(t, schema("x")), testkit.Postgres(t, schema("x"))
	_, err := first.Pool.Exec(t.Context(), "INSERT INTO kit.x VALUES (1)")
	require.NoError(t, err)
	var n int
	require.NoError(t, second.Pool.QueryRow(t.Context(), "SELECT count(*) FROM kit.x").Scan(&n))
	require.Zero(t, n)
	other := testkit.Postgres(t, schema("y"))
	require.NoError(t, other.Pool.QueryRow(t.Context(), "SELECT count(*) FROM kit.y").Scan(&n))
}

func TestDatabasesAreGoneAfterTheirTest(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("inner", func(t *testing.T) {
		db := testkit.Postgres(t)
		require.NoError(t, db.Pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&name))
	})
	var there bool
	query := "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)"
	require.NoError(t, testkit.Postgres(t).Pool.QueryRow(t.Context(), query, name).Scan(&there))
	require.False(t, there)
}

func TestEveryTestHasKeysOfItsOwn(t *testing.T) {
	t.Parallel()
	first, second := testkit.Redis(t), testkit.Redis(t)
	require.Equal(t, first.URL, second.URL)
	require.NotEqual(t, first.Prefix, second.Prefix)
	require.NoError(t, first.Client.Ping(t.Context()).Err())
}

func TestProcessIsAwaitedPausedAndEnded(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	p := start(t, "serve "+address)
	p.AwaitOK("http://" + address)
	p.Pause()
	quick := http.Client{Timeout: 100 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	_, err := quick.Get("http://" + address) // it has a timeout
	require.Error(t, err)
	p.Resume()
	p.AwaitOK("http://" + address)
	ended, ok := errors.AsType[*exec.ExitError](p.Stop())
	require.True(t, ok)
	require.Equal(t, 3, ended.ExitCode())
	require.Contains(t, p.Output(), "use of closed network connection")
	p.Kill()
}

func TestSupervisedProgramIsStartedAnewUntilItIsDown(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	s := testkit.Supervise(t, testkit.ProcessConfig{Path: os.Args[0], Env: []string{roleVariable + "=serve " + address}})
	quick := http.Client{Timeout: 100 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func() error {
		response, err := quick.Get("http://" + address) // it has a timeout
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	await := func(starts int) {
		t.Helper()
		testkit.Eventually(t, 10*time.Second, func() error {
			if n := s.Starts(); n != starts {
				return fmt.Errorf("it was started %d times", n)
			}
			return ask()
		})
	}
	await(1)
	first := s.PID()
	for starts, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		s.Signal(end)
		await(starts + 2)
	}
	require.NotEqual(t, first, s.PID())
	s.Pause()
	require.Error(t, ask())
	s.Resume()
	await(3)
	s.Down()
	s.Down()
	require.Error(t, ask())
	s.Up()
	s.Up()
	await(4)
}

func TestFailuresOfTheHarnessFailTheTest(t *testing.T) {
	t.Parallel()
	failed := func(fn func(tb testing.TB)) string {
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			fn(r)
		}()
		<-done
		require.True(t, r.failed.Load(), "the test was not failed")
		return r.said
	}
	require.Contains(t, failed(func(tb testing.TB) {
		tb.Helper()
		testkit.Eventually(tb, time.Millisecond, func() error { return errors.New("never") })
	}), "never")
	require.Contains(t, failed(func(tb testing.TB) {
		tb.Helper()
		start(tb, "serve nonsense").AwaitOK("http://127.0.0.1:1")
	}), "ended before it was ready")
	require.Contains(t, failed(func(tb testing.TB) {
		tb.Helper()
		p := start(tb, "stubborn")
		testkit.Eventually(tb, 10*time.Second, func() error {
			if p.Output() == "" {
				return errors.New("not started")
			}
			return nil
		})
		p.Signal(syscall.SIGTERM)
		_ = p.Wait(10 * time.Millisecond)
	}), "did not end within 10ms")
}

// recorder is a test whose failure is looked at.
type recorder struct {
	testing.TB
	failed atomic.Bool
	said   string
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.said = fmt.Sprintf(format, args...)
	r.failed.Store(true)
	runtime.Goexit()
}

func TestProgramsAreBuiltOnce(t *testing.T) {
	t.Parallel()
	first := testkit.Build(t, "pawl.internal/services/testkit/cmd/teststores")
	require.Equal(t, first, testkit.Build(t, "pawl.internal/services/testkit/cmd/teststores"))

	script := `test -n "$PAWL_TEST_POSTGRES_URL" && test -n "$PAWL_TEST_REDIS_URL" && echo "found both"; exit 7`
	p := testkit.Start(t, testkit.ProcessConfig{Path: first, Args: []string{"--", "sh", "-c", script}})
	ended, ok := errors.AsType[*exec.ExitError](p.Wait(time.Minute))
	require.True(t, ok)
	require.Equal(t, 7, ended.ExitCode(), "teststores does not pass the exit code on")
	require.Contains(t, p.Output(), "found both")

	p = testkit.Start(t, testkit.ProcessConfig{Path: first})
	require.EqualError(t, p.Wait(time.Minute), "exit status 2")
	require.Contains(t, p.Output(), "usage")
}
