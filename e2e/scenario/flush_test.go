package scenario

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/llmgateway/provider/simulated"
	"pawl.internal/services/testkit"
)

// TestI03_NothingIsLostWithRedis empties Redis while it holds the steps of ten runs, and then takes it away for a while.
func TestI03_NothingIsLostWithRedis(t *testing.T) {
	const slots = 4 // few, so that Redis has something to forget
	p := harness.StartProvider(t)
	redis := testkit.PrivateRedis(t)
	keys := testkit.KeysAt(t, redis.URL())
	env := append(shortLeases(), fmt.Sprintf("PAWL_STEP_RUNNER_INTERACTIVE_SLOTS=%d", slots))
	s := harness.Start(t, harness.Config{Provider: p, Env: env, Redis: keys})
	all := contracts(t)

	t.Run("flushed", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		release := p.Inject(simulated.Fault{Kind: "hold"})
		wait := extractAll(t, s, all, "i03 flushed")
		p.AwaitInFlight(slots)
		runs := wait()
		awaitWaiting(t, s, int64(len(all))) // some are held, the others nobody has got yet
		flush := func() { require.NoError(t, keys.Client.FlushAll(t.Context()).Err()) }
		flush()
		require.Equal(t, len(all)-slots, s.Count("SELECT count(*) FROM core.step_live WHERE status = 'queued'"))
		release()
		awaitReceived(t, p, len(all)+5) // the first steps of those that were lost have come back, and more besides
		flush()
		for i, id := range runs {
			requireExtracted(t, s, all[i], id)
		}
		requireAskedOnce(t, s, p, 0, runs...)
	})

	t.Run("away", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		before := p.Report()
		release := p.Inject(simulated.Fault{Kind: "hold", Contains: fieldsPrompt})
		first, err := extract(s, all[3], "i03 before")
		require.NoError(t, err)
		p.AwaitInFlight(slots)
		require.NoError(t, keys.Client.FlushAll(t.Context()).Err()) // its disk forgets too
		redis.Kill()
		awaitHealth(t, s, "/healthz", http.StatusServiceUnavailable)
		awaitHealth(t, s, "/readyz", http.StatusOK)
		second, err := extract(s, all[4], "i03 meanwhile")
		require.NoError(t, err)
		release()
		s.AwaitLog("publishing failed")
		require.NoError(t, redis.Start(t.Context()))
		requireExtracted(t, s, all[3], first)
		requireExtracted(t, s, all[4], second)
		requireAskedOnce(t, s, p, before.Received, first, second)
		awaitHealth(t, s, "/healthz", http.StatusOK)
	})
}

// awaitHealth waits until the page of intake has the status.
func awaitHealth(t *testing.T, s *harness.System, path string, want int) {
	t.Helper()
	harness.Eventually(t, func() error {
		page, err := s.Try(s.Record().REST, http.MethodGet, path, nil, nil)
		if err == nil && page.Status != want {
			err = fmt.Errorf("%s: %d %s", path, page.Status, page.Body)
		}
		return err
	})
}
