package scenario

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/llmgateway/provider/simulated"
)

const budgetFan = `
name: budget_fan
version: v1
steps:
  - name: ask
    for_each: ${input.items}
    concurrency: 30
    llm: {prompt: "Question ${input.case} ${item}", max_output_tokens: 100}
`

// budgetOf limits what a run may cost, in US dollars.
func budgetOf(amount string) func(map[string]any) {
	return func(body map[string]any) { body["budget_usd"] = amount }
}

// TestI09_BudgetOfAFanOut runs thirty shards at once under a budget for a few of them, at a provider that charges ten times
// what was asked for: what is in flight is paid for, and nothing else is sent.
func TestI09_BudgetOfAFanOut(t *testing.T) {
	const (
		tokens = 1000   // of an answer, where 100 were asked for
		charge = 0.0021 // 200 tokens in and 1 000 out, at the prices of the harness
		budget = 0.002
	)
	p := harness.StartProvider(t)
	s := harness.Start(t, harness.Config{Provider: p})
	registerSource(t, s, budgetFan)
	release := p.Inject(simulated.Fault{Kind: "latency", Argument: "2s"}) // all that may begin does, before the first ends
	defer release()
	reply := said("fine", with("usage", map[string]any{"prompt_tokens": 200, "completion_tokens": tokens}))
	p.Inject(simulated.Fault{Kind: "reply", Contains: "[budget]", Reply: &reply})

	run, err := s.Submit("budget_fan", "i09 fan", map[string]any{"case": "[budget]", "items": fanned(30)}, budgetOf(fmt.Sprint(budget)))
	require.NoError(t, err)
	state := s.AwaitEnd(run)
	require.Equal(t, "failed", state.Status)
	require.Equal(t, "budget_exceeded", state.Reason, state.Error)
	p.AwaitInFlight(0)
	report := p.Report()
	requireCostIsTheLogs(t, s, run)

	// Each request has reserved its worst case, which is 100 tokens out and some in: so many fit at once, and no more begin.
	worst := s.Count("SELECT ceil(2000 / (100 * 2.0))::int")
	require.Positive(t, report.Received)
	require.LessOrEqual(t, report.Received, worst, "requests whose worst cases fit into the budget")
	require.Equal(t, report.Received, report.MaxInFlight, "a request has begun when the first had overdrawn the budget")
	state, err = s.Run(run)
	require.NoError(t, err)
	spent, err := state.CostSoFar.Float64()
	require.NoError(t, err)
	require.LessOrEqual(t, spent, float64(report.MaxInFlight)*charge+1e-9, "no more than the calls in flight have cost")
	requireNothingLeft(t, s)
}

// requireCostIsTheLogs waits until the run's cost is the sum of its requests' to the last digit.
func requireCostIsTheLogs(t *testing.T, s *harness.System, run string) {
	t.Helper()
	harness.Eventually(t, func() error {
		state, err := s.Run(run)
		want := s.Text("SELECT trim_scale(coalesce(sum(cost), 0))::text FROM llm.llm_try WHERE run_id = $1 AND state <> 'in_flight'", run)
		if err == nil && state.CostSoFar.String() != want {
			err = fmt.Errorf("the run has cost %s, and its requests %s", state.CostSoFar, want)
		}
		return err
	})
}

// TestI09_LateAnswerIsBookedAndServesTheRetry lets an answer come while its runner sleeps and the run ends by its deadline:
// it is booked, the run stays ended, and the retry takes it instead of paying again.
func TestI09_LateAnswerIsBookedAndServesTheRetry(t *testing.T) {
	s, p := crashable(t)
	registerSource(t, s, waitingAsk)
	release := p.Inject(simulated.Fault{Kind: "hold", Contains: "[late]"})
	run, err := s.Submit("waiting_ask", "i09 late", map[string]any{"case": "[late]"}, deadlineIn(5e9))
	require.NoError(t, err)
	p.AwaitInFlight(1)
	s.Pause(serve.StepRunner)
	release()
	harness.Eventually(t, func() error {
		if len(inFlight(s, run)) > 0 {
			return fmt.Errorf("the answer is not stored")
		}
		return nil
	})
	requireDeadline(t, s, run)
	s.Signal(serve.StepRunner, syscall.SIGCONT)
	requireCostIsTheLogs(t, s, run)
	state, err := s.Run(run)
	require.NoError(t, err)
	require.Equal(t, "failed", state.Status)
	cost, err := state.CostSoFar.Float64()
	require.NoError(t, err)
	require.Positive(t, cost)

	again := s.Do(http.MethodPost, "/v1/runs/"+run+":retry", "", map[string]any{"reason": "there is time now"})
	require.Equal(t, http.StatusOK, again.Status, "%s", again.Body)
	ended := s.AwaitEnd(run)
	require.Equal(t, "done", ended.Status, "%s: %s", ended.Reason, ended.Error)
	require.Equal(t, 1, p.Report().Received, "requests that the provider got")
	require.Equal(t, state.CostSoFar, ended.CostSoFar, "nothing was paid twice")
	calls := s.Calls(run)
	require.Len(t, calls, 1)
	require.Positive(t, calls[0].Replays)
}
