package scenario

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// cheap has time.
const cheap = `
name: cheap
version: v1
steps:
  - name: ask
    llm: {prompt: "Question ${input.case}"}
  - name: again
    llm: {prompt: "Once more: ${steps.ask.output}"}
`

// TestBatchesGoThroughTheProvidersBatchAPI: runs of a batch wait for the provider's batches, without a slot and at half the
// price, whoever dies meanwhile. Nothing is asked in the usual way, and nothing twice.
func TestBatchesGoThroughTheProvidersBatchAPI(t *testing.T) {
	t.Parallel()
	const runs = 6
	p := harness.StartProvider(t)
	s := harness.Start(t, harness.Config{
		Provider: p,
		Env: []string{
			"PAWL_LLM_GATEWAY_ECONOMY_GATHER=300ms", "PAWL_LLM_GATEWAY_ECONOMY_LOOK=200ms", "PAWL_LLM_GATEWAY_ECONOMY_LEAST=1m",
			"PAWL_LLM_GATEWAY_ECONOMY_RESERVE=1m", "PAWL_STEP_RUNNER_BATCH_SLOTS=2",
		},
		Models: fmt.Sprintf(`
providers:
  - {name: main, kind: openai, base_url: %s/v1, api_key_env: PAWL_E2E_KEY}
routes:
  default:
    economy: batch_api
    targets: [{provider: main, model: sim-small}]
prices:
  - {provider: main, model: sim-small, from: 2026-01-01, input: "0.50", output: "2.00", batch_factor: "0.5"}
`, p.URL),
	})
	registerSource(t, s, cheap)
	p.SetBatchPace(simulated.BatchPace{Item: simulated.Span(time.Hour)})
	ids := make([]string, runs)
	for i := range ids {
		var err error
		ids[i], err = s.Submit("cheap", fmt.Sprintf("cheap %d", i), map[string]any{"case": fmt.Sprint(i)}, ofBatch)
		require.NoError(t, err)
	}
	harness.Eventually(t, func() error {
		if n := s.Count(`SELECT count(*) FROM llm.economy_item WHERE state = 'sent'`); n != runs {
			return fmt.Errorf("%d questions are with the provider, not %d", n, runs)
		}
		return nil
	})
	require.Zero(t, s.Count(`SELECT count(*) FROM core.step_live WHERE status = 'RUNNING'`), "a slot is held")
	s.Kill(serve.LLMGateway)
	p.SetBatchPace(simulated.BatchPace{})
	for _, id := range ids {
		run := s.AwaitEnd(id)
		require.Equal(t, "done", run.Status, "%s: %s", run.Reason, run.Error)
	}
	require.Equal(t, 2*runs, s.Count(`SELECT count(*) FROM llm.llm_try WHERE state = 'answered' AND tier = 'batch'`))
	require.Equal(t, 2*runs, s.Count(`SELECT count(*) FROM llm.llm_try`))
	require.Equal(t, "0", s.Text(`SELECT sum(cost - (input_tokens * 0.25 + output_tokens * 1.00) / 1000000)::numeric(2,0)::text FROM llm.llm_try`))
	items := 0
	for _, b := range p.Batches() {
		items += len(b.CustomIDs)
	}
	require.Equal(t, 2*runs, items)
	require.Zero(t, p.Report().Received, "nothing is asked in the usual way")
}

// ofBatch makes a run one of the batch lane.
func ofBatch(request map[string]any) { request["class"] = "batch" }
