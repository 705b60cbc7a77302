package sdks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/e2e/sdks"
	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	key   = "key-of-the-libraries"
	model = "sim-small"
)

// start runs the simulated provider as a process of its own, which knows one key.
func start(t *testing.T) *harness.Provider {
	t.Helper()
	return harness.StartProvider(t, "--api-keys", key)
}

func TestOpenAINode(t *testing.T) {
	p := start(t)
	sdks.CheckOpenAINode(t, p.URL+"/v1", key, model)
	sdks.CheckOpenAINodeFaults(t, p.URL+"/v1", key, model)
	require.Positive(t, p.Report().ByFormat["openai"]["answered"])
}

func TestAnthropicNode(t *testing.T) {
	p := start(t)
	sdks.CheckAnthropicNode(t, p.URL, key, model)
	sdks.CheckAnthropicNodeFaults(t, p.URL, key, model)
	require.Positive(t, p.Report().ByFormat["anthropic"]["answered"])
}
