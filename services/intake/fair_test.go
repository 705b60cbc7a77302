package intake_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The value of a pipeline's concurrency key is evaluated here, and goes with the run.
func TestConcurrencyKeyGoesWithTheRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	source := "name: p\nversion: v1\nconcurrency: {key: \"${input.customer}\"}\nsteps:\n  - {name: s, transform: 1}\n"
	stored := b.call(t, b.acme, "POST", "/v1/pipelines", source, "Content-Type: application/yaml")
	require.Equal(t, 201, stored.status, stored.body)
	submit := func(input, key string) answer {
		return b.call(t, b.acme, "POST", "/v1/runs", `{"pipeline":"p","input":`+input+`}`, "Idempotency-Key: "+key)
	}
	require.Equal(t, 202, submit(`{"customer":"ann"}`, "a").status)
	require.Equal(t, 202, submit(`{"customer":null}`, "b").status)
	refused := submit(`{}`, "c")
	require.Equal(t, "INPUT_INVALID", refused.problem(t).Reason, refused.body)
	require.Contains(t, refused.body, "concurrency.key")
	require.Len(t, b.orchestrator.created, 2)
	require.Equal(t, "ann", b.orchestrator.created[0].GetConcurrencyKey())
	require.Empty(t, b.orchestrator.created[1].GetConcurrencyKey())
}

func TestPromoteRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.call(t, b.acme, "POST", "/v1/runs", `{"pipeline":"document_extract","input":{"text":"x"},"class":"batch"}`, "Idempotency-Key: r")
	require.Equal(t, 202, run.status, run.body)
	path := "/v1/runs/" + run.member(t, "run_id") + ":promote"
	promoted := b.call(t, b.acme, "POST", path, `{"reason":"waiting"}`, `If-Match: "7"`)
	require.Equal(t, 200, promoted.status, promoted.body)
	require.Equal(t, 404, b.call(t, b.rival, "POST", path, `{}`).status, "another tenant's")
	actor := "key:" + strings.Split(b.acme, "_")[1]
	require.Equal(t, []string{"promote " + actor + " waiting to RUN_CLASS_INTERACTIVE as 7"}, b.orchestrator.actions)
}
