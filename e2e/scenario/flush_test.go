package scenario

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/llmgateway/provider/simulated"
	"pawl.internal/services/testkit"
)

// TestI03_NothingIsLostWithRedis empties Redis while every step of ten runs is on its way through it, twice.
func TestI03_NothingIsLostWithRedis(t *testing.T) {
	p := harness.StartProvider(t)
	keys := testkit.KeysAt(t, testkit.PrivateRedis(t).URL())
	s := harness.Start(t, harness.Config{Provider: p, Env: shortLeases(), Redis: keys})
	all := contracts(t)
	release := p.Inject(simulated.Fault{Kind: "hold", Contains: fieldsPrompt})
	wait := extractAll(t, s, all, "i03")
	harness.Eventually(t, func() error {
		if p.Report().InFlight == 0 {
			return errors.New("no call of the second step is in flight")
		}
		return nil
	})
	require.NoError(t, keys.Client.FlushAll(t.Context()).Err())
	runs := wait()
	require.NoError(t, keys.Client.FlushAll(t.Context()).Err())
	release()
	require.NoError(t, keys.Client.FlushAll(t.Context()).Err())
	for i, id := range runs {
		requireExtracted(t, s, all[i], id)
	}
	requireAskedOnce(t, s, p, 0, runs...)
}
