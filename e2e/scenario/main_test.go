// Package scenario proves Pawl's promises and its public contract on real processes: services that are killed, stores that
// forget, clients that repeat themselves, and a provider that counts what it is asked. A test that proves a promise is named
// after it (TestI01_…), so that `go test -run TestI` runs them all.
package scenario

import (
	"testing"

	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
