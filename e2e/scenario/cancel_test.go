package scenario

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// TestI12_CancelMeansStop cancels a run in the middle of eight calls: they are aborted, nothing else begins, and nothing is
// left that a worker could take.
func TestI12_CancelMeansStop(t *testing.T) {
	p := harness.StartProvider(t)
	s := harness.Start(t, harness.Config{Provider: p})
	all := contracts(t)
	release := p.Inject(simulated.Fault{Kind: "hold", Contains: fieldsPrompt})
	run, err := extract(s, all[2], "i12")
	require.NoError(t, err)
	p.AwaitInFlight(8)

	cancelled := s.Do(http.MethodPost, "/v1/runs/"+run+":cancel", "", map[string]any{"reason": "not needed any more"})
	require.Equal(t, http.StatusOK, cancelled.Status, "%s", cancelled.Body)
	require.Equal(t, "cancelled", s.AwaitEnd(run).Status)
	p.AwaitInFlight(0)
	awaitWaiting(t, s, 0)
	require.Zero(t, s.Count("SELECT count(*) FROM core.step_live WHERE run_id = $1", run))
	sent := p.Report().Received
	require.Equal(t, 9, sent, "the sections and the eight that were aborted")
	requireCostSettles(t, s, run)

	release()
	again := s.Do(http.MethodPost, "/v1/runs/"+run+":cancel", "", map[string]any{})
	require.Equal(t, http.StatusOK, again.Status, "%s", again.Body)
	other, err := extract(s, all[5], "i12 other")
	require.NoError(t, err)
	requireExtracted(t, s, all[5], other)
	requireAskedOnce(t, s, p, sent, other)
}

// requireCostSettles waits until the run's cost is what its requests have cost, those of unknown fate at their worst.
func requireCostSettles(t *testing.T, s *harness.System, run string) {
	t.Helper()
	require.Positive(t, s.Count("SELECT count(*) FROM llm.llm_try WHERE run_id = $1 AND cost_basis = 'worst_case' AND cost > 0", run))
	harness.Eventually(t, func() error {
		state, err := s.Run(run)
		if err == nil && state.CostSoFar.String() != s.Text("SELECT trim_scale(sum(cost))::text FROM llm.llm_try WHERE run_id = $1", run) {
			err = fmt.Errorf("the run has cost %s", state.CostSoFar)
		}
		return err
	})
}
