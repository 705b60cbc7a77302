package sdks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/e2e/sdks"
)

// providerKey is what harness.Start gives Pawl for the provider. Programs that ask Pawl do not know it.
const providerKey = "secret-of-the-test"

// Programs that know nothing of Pawl but its address and a key ask its endpoint, under a route's name and under a model's.
func TestEndpoint(t *testing.T) {
	t.Parallel()
	p := harness.StartProvider(t, "--api-keys", providerKey)
	record := harness.Start(t, harness.Config{Provider: p}).Record()
	base, own := record.OpenAI, record.APIKey
	for _, name := range []string{"default", model} {
		t.Run(name, func(t *testing.T) {
			sdks.CheckOpenAIGo(t, base, own, name)
			t.Run("tools", sdks.Target{BaseURL: base, Key: own, Model: name}.OpenAITools)
		})
	}
	t.Run("Node.js", func(t *testing.T) { sdks.CheckOpenAINode(t, base, own, model) })

	before := p.Report()
	t.Run("of its own", func(t *testing.T) { sdks.CheckEndpointGo(t, base, own, model) })
	t.Run("of its own in Node.js", func(t *testing.T) { sdks.CheckEndpointNode(t, base, own, model) })
	require.Len(t, p.Since(before), 2, "each library bought one answer: one was replayed, and what was refused was not sent")
}
