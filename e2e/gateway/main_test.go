// Package gateway proves the limits of LLM gateways on real processes: replicas that share one account, and a provider that
// enforces its own limits and counts what it is sent.
package gateway

import (
	"testing"

	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
