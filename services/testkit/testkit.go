// Package testkit gives tests real stores and real processes.
//
// Every test gets a database of its own, copied from a migrated template, and keys of its own in Redis, so tests run in
// parallel. The servers are those that PAWL_TEST_POSTGRES_URL and PAWL_TEST_REDIS_URL name (`make test` sets them, through
// teststores), or else private ones of the test binary. A store that cannot be had fails the test; nothing is skipped.
//
// A package that uses testkit says so in its TestMain:
//
//	func TestMain(m *testing.M) { testkit.Main(m) }
package testkit

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/golden"
)

// The variables that name the servers to use.
const (
	PostgresURLVariable = "PAWL_TEST_POSTGRES_URL"
	RedisURLVariable    = "PAWL_TEST_REDIS_URL"
)

// setupTime bounds what testkit itself does for one test.
const setupTime = 2 * time.Minute

// pollTime is the time between two tries of Eventually.
const pollTime = 10 * time.Millisecond

// Main runs the tests of a package, stops the private servers, and fails when a goroutine is left behind.
func Main(m *testing.M, leaks ...goleak.Option) { os.Exit(Run(m, leaks...)) }

// Run is Main for those who have something to do before the test binary ends with the code.
func Run(m *testing.M, leaks ...goleak.Option) (code int) {
	own.managed = true
	code = m.Run()
	own.clean()
	if code == 0 {
		if err := goleak.Find(append(leaks, redisDials())...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// redisDials leaves out a loop of go-redis's: a pool whose server is away looks once a second whether it has been closed.
func redisDials() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
}

// own is what the tests of this binary share, which has no other owner than Main.
//
//nolint:gochecknoglobals // see above
var own shared

type shared struct {
	managed bool // Main will clean up
	stores  Stores

	mu       sync.Mutex
	programs map[program]string // guarded by mu; the paths
	folders  []string           // guarded by mu; to remove at the end
}

func (s *shared) clean() {
	s.stores.Stop()
	for _, folder := range s.folders {
		_ = os.RemoveAll(folder) // a leftover in the temporary folder harms nobody
	}
}

// given returns the server that the variable names, or else the binary's own.
func given(ctx context.Context, variable string, start func(*Stores, context.Context) (string, error)) (string, error) {
	if url := os.Getenv(variable); url != "" {
		return url, nil
	}
	if !own.managed {
		return "", fmt.Errorf("neither is %s set, nor has the package a TestMain that calls testkit.Main", variable)
	}
	return start(&own.stores, ctx)
}

// Eventually tries until it gets nil, and fails the test with the last error when the time is over.
func Eventually(tb testing.TB, timeout time.Duration, try func() error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), timeout)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return
		}
		if clock.System().Sleep(ctx, pollTime) != nil {
			tb.Fatalf("still not so after %v: %v", timeout, err)
		}
	}
}

// Updating reports whether the tests run with -update: they write pages of the documentation anew.
func Updating() bool { return golden.Updating() }
