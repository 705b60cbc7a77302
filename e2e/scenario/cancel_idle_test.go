package scenario

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// stoppable is a pipeline whose run can be held in any state.
const stoppable = `
name: stoppable
version: v1
input: {type: object}
steps:
  - name: parts
    for_each: "${input.parts}"
    concurrency: 2
    on_error: review
    retry: {max_attempts: 3, initial: 60s, jitter: 0}
    llm: {prompt: "Part ${item} of ${input.topic}", max_output_tokens: 50}
`

// TestI12_CancelOfRunsThatStandStill cancels runs in which a step waits for its turn or for a person, and runs that have ended.
// None goes on when the call is answered, nothing is left that a worker could take, and nothing more is asked.
func TestI12_CancelOfRunsThatStandStill(t *testing.T) {
	p := harness.StartProvider(t)
	s := harness.Start(t, harness.Config{Provider: p, Env: []string{"PAWL_STEP_RUNNER_INTERACTIVE_SLOTS=4"}})
	registerSource(t, s, stoppable)
	fault := func(f simulated.Fault, topic string) func() {
		f.Contains = "of " + topic
		return p.Inject(f)
	}
	for state, c := range map[string]struct {
		fault simulated.Fault
		step  string // the state of a row that shows that the run is there
		run   string // the run's
	}{
		"a shard has no turn yet": {simulated.Fault{Kind: "hold"}, "pending", "running"},
		"a person is asked":       {simulated.Fault{Kind: "400"}, "needs_review", "needs_review"},
	} {
		t.Run(state, func(t *testing.T) {
			s, p := s.For(t), p.For(t)
			release := fault(c.fault, state)
			run := stoppableRun(t, s, state)
			awaitRow(t, s, run, c.step)
			s.AwaitRun(run, func(r harness.RunState) bool { return r.Status == c.run })
			requireStops(t, s, run)
			p.AwaitInFlight(0)
			sent := len(s.Calls(run))
			release()
			awaitWaiting(t, s, 0)
			require.Len(t, s.Calls(run), sent, "nothing more is asked")
		})
	}
	t.Run("terminal", func(t *testing.T) {
		s := s.For(t)
		run := stoppableRun(t, s, "an end")
		done := s.AwaitEnd(run)
		require.Equal(t, "done", done.Status, "%+v", done)
		again := verb(s, run, "cancel", map[string]any{"reason": "too late"})
		require.Equal(t, http.StatusOK, again.Status, "%s", again.Body)
		require.Equal(t, "done", again.JSON(t)["status"], "what has ended stays as it is")
		require.Zero(t, s.Count("SELECT count(*) FROM core.operator_action WHERE run_id = $1", run))
	})
	t.Run("queued and ready", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		before := p.Report().Received
		s.Pause(serve.StepRunner)
		var runs []string
		states := map[string]int{} // of their only steps
		for i := 0; i < 100 && len(states) < 2; i++ {
			run := stoppableRun(t, s, fmt.Sprintf("line %d", i))
			runs = append(runs, run)
			states[s.Text("SELECT status FROM core.step_live WHERE run_id = $1", run)]++
		}
		require.Positive(t, states["queued"], "%v", states)
		require.Positive(t, states["ready"], "%v", states)
		for _, run := range slices.Backward(runs) { // those that are ready first, before room comes
			requireStops(t, s, run)
		}
		s.Kill(serve.StepRunner)
		awaitWaiting(t, s, 0)
		require.Equal(t, before, p.Report().Received, "none of them ever asked")
	})
}

// stoppableRun submits a run of three parts.
func stoppableRun(t *testing.T, s *harness.System, topic string) string {
	t.Helper()
	id, err := s.Submit("stoppable", "stop "+topic, map[string]any{"topic": topic, "parts": []int{1, 2, 3}})
	require.NoError(t, err)
	return id
}

// awaitRow waits until a step or shard of the run is in the state.
func awaitRow(t *testing.T, s *harness.System, run, state string) {
	t.Helper()
	harness.Eventually(t, func() error {
		if s.Count("SELECT count(*) FROM core.step_live WHERE run_id = $1 AND status = $2 AND shard >= 0", run, state) == 0 {
			return fmt.Errorf("no shard is %s", state)
		}
		return nil
	})
}

// requireStops cancels the run, which must have ended when the call is answered, and leaves nothing to claim.
func requireStops(t *testing.T, s *harness.System, run string) {
	t.Helper()
	cancelled := verb(s, run, "cancel", map[string]any{"reason": "not needed"})
	require.Equal(t, http.StatusOK, cancelled.Status, "%s", cancelled.Body)
	require.Equal(t, "cancelled", cancelled.JSON(t)["status"])
	require.Zero(t, s.Count("SELECT count(*) FROM core.step_live WHERE run_id = $1", run))
	require.Equal(t, 1, s.Count("SELECT count(*) FROM core.operator_action WHERE run_id = $1 AND after->>'status' = 'cancelled'", run))
}
