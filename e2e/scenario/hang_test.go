package scenario

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// hanging bounds its step in all ways, and computing burns what its input makes it burn.
const (
	hanging = `
name: hanging
version: v1
steps:
  - name: ask
    llm: {prompt: "Question ${input.case}"}
    llm_timeout: 2s
    soft_timeout: 4s
    hard_timeout: 6s
    retry: {max_attempts: 1}
    on_ambiguous: fail
`
	computing = `
name: computing
version: v1
steps:
  - name: burn
    transform: {n: "${input.items.map(a, input.items.map(b, input.items.map(c, a * b * c)))}"}
    soft_timeout: 4s
    hard_timeout: 6s
    retry: {max_attempts: 1}
`
	matching = `
name: matching
version: v1
steps:
  - name: burn
    validate:
      value: ${input}
      schema:
        $defs:
          a: {anyOf: [{$ref: "#/$defs/b"}, {$ref: "#/$defs/b"}, {$ref: "#/$defs/b"}]}
          b: {anyOf: [{$ref: "#/$defs/c"}, {$ref: "#/$defs/c"}, {$ref: "#/$defs/c"}]}
          c: {type: object, additionalProperties: {$ref: "#/$defs/a"}, required: [nothing]}
        $ref: "#/$defs/a"
    soft_timeout: 4s
    hard_timeout: 6s
    retry: {max_attempts: 1}
`
)

// TestStepsThatHangEnd runs steps that would not end by themselves, on a runner with two slots: each ends with a reason, and
// the slots serve other steps.
func TestStepsThatHangEnd(t *testing.T) {
	const slots = 2
	p := harness.StartProvider(t)
	env := append(shortLeases(), fmt.Sprintf("PAWL_STEP_RUNNER_INTERACTIVE_SLOTS=%d", slots))
	s := harness.Start(t, harness.Config{Provider: p, Env: env})
	for _, source := range []string{hanging, computing, matching} {
		registerSource(t, s, source)
	}
	usual := func(t *testing.T, s *harness.System, name string) {
		t.Helper()
		for i := range slots + 1 {
			id, err := s.Submit("hanging", fmt.Sprintf("hang %s usual %d", name, i), map[string]any{"case": "usual " + name})
			require.NoError(t, err)
			run := s.AwaitEnd(id)
			require.Equal(t, "done", run.Status, "%s: %s", run.Reason, run.Error)
		}
	}
	fill := func(t *testing.T, s *harness.System, pipeline, name string, input any) []string {
		t.Helper()
		runs := make([]string, slots)
		for i := range runs {
			var err error
			runs[i], err = s.Submit(pipeline, fmt.Sprintf("hang %s %d", name, i), input, deadlineIn(time.Minute))
			require.NoError(t, err)
		}
		return runs
	}
	requireFailed := func(t *testing.T, s *harness.System, runs []string, reasons ...string) {
		t.Helper()
		for _, id := range runs {
			run := s.AwaitEnd(id)
			require.Equal(t, "failed", run.Status)
			require.Contains(t, reasons, run.Reason, run.Error)
			require.NotEmpty(t, run.Error)
		}
	}
	t.Run("a provider that never answers", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		p.Inject(simulated.Fault{Kind: "hang", Contains: "[hang]"})
		requireFailed(t, s, fill(t, s, "hanging", "provider", map[string]any{"case": "[hang]"}), "call_ambiguous")
		p.AwaitInFlight(0) // the gateway has closed the connections
		usual(t, s, "provider")
	})
	t.Run("an expression that would compute for ever", func(t *testing.T) {
		s := s.For(t)
		requireFailed(t, s, fill(t, s, "computing", "expression", map[string]any{"items": fanned(1000)}), "invalid_input", "step_timeout")
		usual(t, s, "expression")
	})
	t.Run("a schema that would be tried for ever", func(t *testing.T) {
		s := s.For(t)
		deep := map[string]any{}
		for range 60 {
			deep = map[string]any{"a": deep}
		}
		requireFailed(t, s, fill(t, s, "matching", "schema", deep), "schema_mismatch", "invalid_input", "step_timeout")
		usual(t, s, "schema")
	})
	t.Run("a gateway that does not move", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		release := p.Inject(simulated.Fault{Kind: "hold", Contains: "[still]"})
		runs := fill(t, s, "hanging", "gateway", map[string]any{"case": "[still]"})
		p.AwaitInFlight(slots)
		s.Pause(serve.LLMGateway)
		requireFailed(t, s, runs, "step_timeout")
		requireStepsGoOn(t, s)
		stopped := fill(t, s, "hanging", "cancelled", map[string]any{"case": "[cancelled]"})
		awaitStep(t, s, stopped[0], "running", 1)
		for _, run := range stopped {
			requireCancelled(t, s, run, time.Second+heartbeat)
		}
		requireStepsGoOn(t, s)
		s.Signal(serve.LLMGateway, syscall.SIGCONT)
		release()
		p.AwaitInFlight(0)
		usual(t, s, "gateway")
	})
	requireNothingLeft(t, s)
}

// requireStepsGoOn fails unless steps that need no model still run.
func requireStepsGoOn(t *testing.T, s *harness.System) {
	t.Helper()
	id, err := s.Submit("computing", fmt.Sprint("goes on ", time.Now().UnixNano()), map[string]any{"items": fanned(2)})
	require.NoError(t, err)
	run := s.AwaitEnd(id)
	require.Equal(t, "done", run.Status, "%s: %s", run.Reason, run.Error)
}

const deadly = `
name: deadly
version: v1
steps:
  - name: ask
    llm: {prompt: "Question ${input.case}"}
    max_lost: 2
`

// TestStepThatKillsItsWorkersEnds kills the runner whenever it works on one step: after max_lost deaths the step ends as
// worker_lost, and kills no more. Its neighbour, which loses the same runners, has been allowed more deaths and finishes.
func TestStepThatKillsItsWorkersEnds(t *testing.T) {
	s, p := crashable(t)
	registerSource(t, s, deadly)
	registerSource(t, s, waitingAsk)
	release := p.Inject(simulated.Fault{Kind: "hold"})
	run, err := s.Submit("deadly", "deadly", map[string]any{"case": "[deadly]"})
	require.NoError(t, err)
	neighbour, err := s.Submit("waiting_ask", "deadly neighbour", map[string]any{"case": "[neighbour]"})
	require.NoError(t, err)
	p.AwaitInFlight(2)
	for death := 1; death <= 2; death++ {
		harness.Eventually(t, func() error {
			if n := s.Count("SELECT count(*) FROM core.step_live WHERE run_id = $1 AND status = 'running' AND attempt = $2", run, death); n == 0 {
				return fmt.Errorf("attempt %d has not begun", death)
			}
			return nil
		})
		s.Kill(serve.StepRunner)
	}
	state := s.AwaitEnd(run)
	require.Equal(t, "failed", state.Status)
	require.Equal(t, "worker_lost", state.Reason, state.Error)
	require.NotEmpty(t, state.Error)
	require.Equal(t, 2, stepNamed(t, s.Steps(run), "ask").Attempt)
	release()
	require.Equal(t, "done", s.AwaitEnd(neighbour).Status)
	require.Equal(t, 2, p.Report().Received, "each question was asked once")
	requireNothingLeft(t, s)
}
