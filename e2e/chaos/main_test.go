// Package chaos breaks a running system in every way that one machine can, while clients submit work, and then counts: every
// accepted run ended, no step was executed twice, no call was paid twice. Every service is a process of its own, the stores
// are private servers, and the provider is simulated and counts what it is asked.
//
// `go test -short` runs a handful of faults, `go test` all of them; `go test -update` writes what came of them to
// docs/chaos.md. PAWL_CHAOS_REDIS_AWAY=1m keeps Redis away for longer than the usual 12 s.
package chaos

import (
	"fmt"
	"os"
	"testing"

	"pawl.internal/e2e/link"
	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) {
	code := testkit.Run(m, link.Leftovers()...)
	fmt.Print(suite.text())
	if code == 0 && testkit.Updating() {
		if err := suite.write(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// full leaves a fault to the full suite.
func full(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("part of the full suite: leave out -short")
	}
}
