package scenario

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// patient asks once more when the fate of its first question is unknown.
const patient = `
name: patient
version: v1
steps:
  - name: ask
    llm: {prompt: "Question ${input.case}"}
    llm_timeout: 2s
    on_ambiguous: retry
    retry: {max_attempts: 2, initial: 1s}
`

// TestASilentTargetIsFollowedByAnother: a model that says nothing within llm_timeout is not asked again, but the one that the
// route has for such cases is. Both requests are booked.
func TestASilentTargetIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	p := harness.StartProvider(t)
	s := harness.Start(t, harness.Config{Provider: p, Models: fmt.Sprintf(`
providers:
  - {name: main, kind: openai, base_url: %s/v1, api_key_env: PAWL_E2E_KEY}
routes:
  default:
    - {provider: main, model: sim-small}
    - {provider: main, model: sim-large, match: [timeout]}
prices:
  - {provider: main, model: "*", from: 2026-01-01, input: "0.50", output: "2.00"}
`, p.URL)})
	registerSource(t, s, patient)
	p.Inject(simulated.Fault{Kind: "hang", Model: "sim-small"})
	id, err := s.Submit("patient", "silent", map[string]any{"case": "silent"})
	require.NoError(t, err)
	run := s.AwaitEnd(id)
	require.Equal(t, "done", run.Status, "%s: %s", run.Reason, run.Error)

	calls := s.Calls(id)
	require.Len(t, calls, 1)
	tries := calls[0].Sent()
	require.Len(t, tries, 2)
	require.Equal(t, "sim-small", tries[0].Model)
	require.Equal(t, "provider_timeout", tries[0].Reason)
	require.Equal(t, "sim-large", tries[1].Model)
	require.Empty(t, tries[1].Reason)
	require.Equal(t, 2, s.Count(`SELECT count(*) FROM llm.llm_try WHERE cost > 0`), "both are booked")
	require.Equal(t, s.Text(`SELECT sum(cost)::text FROM llm.llm_try`), s.Text(`SELECT cost_usd::text FROM core.pipeline_run`))
	require.Equal(t, 2, p.Report().Received)
}
