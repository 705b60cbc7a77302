// Package failpoints kills, and stops, the processes of a running system at every point between two durable actions, and
// counts what that costs: nothing is lost, nothing that was finished is done again, and every question reaches a provider
// once. The points stand in services/internal/failpoint, and what came of each in docs/failpoints.md.
//
// `go test -short` goes through a few of them, `go test` through all.
package failpoints

import (
	"testing"

	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
