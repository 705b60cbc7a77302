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
	return harness.StartProvider(t, "--api-keys", key, "--batch-step", "50ms", "--batch-item", "10ms")
}

func TestOpenAIGo(t *testing.T) {
	t.Parallel()
	p := start(t)
	base := p.URL + "/v1"
	sdks.CheckOpenAIGo(t, base, key, model)
	t.Run("tools", sdks.Target{BaseURL: base, Key: key, Model: model}.OpenAITools)
	t.Run("faults", func(t *testing.T) { sdks.CheckOpenAIGoFaults(t, base, key, model) })
	t.Run("batch", func(t *testing.T) { sdks.CheckOpenAIGoBatch(t, base, key, model) })
	require.Len(t, p.Report().ByFormat, 1)
	require.Positive(t, p.Report().ByFormat["openai"]["answered"])
}

func TestAnthropicGo(t *testing.T) {
	t.Parallel()
	p := start(t)
	sdks.CheckAnthropicGo(t, p.URL, key, model)
	t.Run("faults", func(t *testing.T) { sdks.CheckAnthropicGoFaults(t, p.URL, key, model) })
	t.Run("batch", func(t *testing.T) { sdks.CheckAnthropicGoBatch(t, p.URL, key, model) })
	require.Len(t, p.Report().ByFormat, 1)
	require.Positive(t, p.Report().ByFormat["anthropic"]["answered"])
}

func TestOpenAINode(t *testing.T) {
	t.Parallel()
	p := start(t)
	sdks.CheckOpenAINode(t, p.URL+"/v1", key, model)
	sdks.CheckOpenAINodeFaults(t, p.URL+"/v1", key, model)
}

func TestAnthropicNode(t *testing.T) {
	t.Parallel()
	p := start(t)
	sdks.CheckAnthropicNode(t, p.URL, key, model)
	sdks.CheckAnthropicNodeFaults(t, p.URL, key, model)
}
