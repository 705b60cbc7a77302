package scenario

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// TestI12_CancelSurvivesDeaths lets the services die that carry a cancel out, while they do: the order is owed to the gateway
// until it has confirmed it, and no call begins any more.
func TestI12_CancelSurvivesDeaths(t *testing.T) {
	s, p := crashable(t)
	registerSource(t, s, cancelledFan)
	start := func(t *testing.T, s *harness.System, p *harness.Provider, name string) (run string, sent int) {
		t.Helper()
		before := p.Report().Received
		p.Inject(simulated.Fault{Kind: "hold", Contains: name})
		run, err := s.Submit("cancelled_fan", "i12 "+name, map[string]any{"case": name, "items": fanned(50)})
		require.NoError(t, err)
		p.AwaitInFlight(20)
		return run, before + 20
	}
	requireOver := func(t *testing.T, s *harness.System, p *harness.Provider, run string, sent int) {
		t.Helper()
		require.Equal(t, "cancelled", s.AwaitEnd(run).Status)
		p.AwaitInFlight(0)
		quiet(t, s)
		require.Equal(t, sent, p.Report().Received, "requests after the cancel")
		require.Equal(t, 1, s.Count("SELECT count(*) FROM llm.run_spend WHERE run_id = $1 AND closed_at IS NOT NULL", run))
		require.Zero(t, s.Count("SELECT count(*) FROM llm.llm_try WHERE run_id = $1 AND state = 'in_flight'", run))
		requireNothingLeft(t, s)
		requireCostSettles(t, s, run)
	}
	for _, service := range []string{serve.Orchestrator, serve.LLMGateway, serve.StepRunner} {
		t.Run(service+" dies before it is asked", func(t *testing.T) {
			s, p := s.For(t), p.For(t)
			run, sent := start(t, s, p, "["+service+" before]")
			s.Signal(service, syscall.SIGKILL)
			cancel(t, s, run)
			requireOver(t, s, p, run, sent)
		})
		t.Run(service+" dies after the answer", func(t *testing.T) {
			s, p := s.For(t), p.For(t)
			run, sent := start(t, s, p, "["+service+" after]")
			cancel(t, s, run)
			s.Kill(service)
			requireOver(t, s, p, run, sent)
		})
	}
	t.Run("the gateway hears nothing, and both die", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		run, sent := start(t, s, p, "[deaf]")
		s.Pause(serve.LLMGateway) // it holds twenty calls and hears no order
		cancel(t, s, run)
		require.Equal(t, "cancelled", s.AwaitEnd(run).Status)
		s.Kill(serve.Orchestrator)
		s.Kill(serve.LLMGateway)
		requireOver(t, s, p, run, sent)
	})
}

// TestI12_LateOutcomesChangeNothing cancels runs whose calls have ended in every way that there is, before their runner could
// tell of it: they stay cancelled, nothing is sent again, and what was answered is kept and booked.
func TestI12_LateOutcomesChangeNothing(t *testing.T) {
	p := harness.StartProvider(t)
	s := harness.Start(t, harness.Config{
		Provider: p, Env: shortLeases(), Expected: []string{"provider refuses our key or address"},
	})
	registerSource(t, s, cancelledAsk)
	kinds := []string{
		"", "400", "401", "402", "403", "404", "408", "429", "500", "503", "529", "quota", "context_length", "cut", "cut_body",
		"unfinished", "not_json", "empty", "truncated", "content_filter", "refusal", "error_in_200",
	}
	p.Inject(simulated.Fault{Kind: "latency", Argument: "2s"})
	runs := make([]string, len(kinds))
	for i, kind := range kinds {
		name := "[late " + kind + "]"
		if kind != "" {
			p.Inject(simulated.Fault{Kind: kind, Contains: name})
		}
		var err error
		runs[i], err = s.Submit("cancelled_ask", "i12 "+name, map[string]any{"case": name})
		require.NoError(t, err)
	}
	awaitReceived(t, p, len(kinds))
	s.Pause(serve.StepRunner)
	p.AwaitInFlight(0)
	harness.Eventually(t, func() error {
		if n := s.Count("SELECT count(*) FROM llm.llm_try WHERE state = 'in_flight'"); n > 0 {
			return fmt.Errorf("%d answers are not stored", n)
		}
		return nil
	})
	for _, run := range runs {
		cancel(t, s, run)
	}
	s.Signal(serve.StepRunner, syscall.SIGCONT)
	quiet(t, s)
	require.Equal(t, len(kinds), p.Report().Received, "requests after the cancels")
	for i, run := range runs {
		state, err := s.Run(run)
		require.NoError(t, err)
		require.Equal(t, "cancelled", state.Status, kinds[i])
		require.Equal(t, s.Text("SELECT trim_scale(sum(cost))::text FROM llm.llm_try WHERE run_id = $1", run), state.CostSoFar.String())
		require.Zero(t, s.Count(`SELECT count(*) FROM core.run_event WHERE run_id = $1 AND kind <> 'cancel_requested'
			AND seq > (SELECT min(seq) FROM core.run_event WHERE run_id = $1 AND kind = 'cancel_requested')`, run), kinds[i])
	}
	answered := s.Count("SELECT count(*) FROM llm.llm_try WHERE run_id = $1 AND state = 'answered' AND cost > 0 AND answer IS NOT NULL", runs[0])
	require.Equal(t, 1, answered, "a late answer is kept and booked")
	requireNothingLeft(t, s)
}
