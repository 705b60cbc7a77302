package llmgateway_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/llmgateway"
	"pawl.internal/services/llmgateway/recost"
)

// recost applies the models file, changed, to all that was sent yesterday, today and tomorrow.
func (b *bench) recost(change func(string) string, o recost.Options) []recost.Line {
	b.t.Helper()
	models, err := os.ReadFile(b.models())
	require.NoError(b.t, err)
	path := filepath.Join(b.t.TempDir(), "corrected.yaml")
	require.NoError(b.t, os.WriteFile(path, []byte(change(string(models))), 0o600))
	now := time.Now().UTC()
	o.From, o.To = now.AddDate(0, 0, -1), now.AddDate(0, 0, 1)
	lines, err := llmgateway.Recost(b.t.Context(), b.database.Pool, path, now, b.ids.V4(), o)
	require.NoError(b.t, err)
	return lines
}

// A price was wrong: what it should have been is shown first, and then booked everywhere, once.
func TestCorrectedPricesAreBookedEverywhere(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	run := b.ids.V7()
	g.answer(t, b.question(run, "a"))
	g.answer(t, b.question(run, "b"))
	large := b.question(b.ids.V7(), "c")
	large.Route = "large"
	g.answer(t, large)
	before := money.Pico(one[int64](b, "SELECT (sum(cost) * 1e12)::bigint FROM llm.llm_try"))
	untouched := one[string](b, "SELECT string_agg(cost::text || price_id || booked, ',' ORDER BY run_id, call_key) FROM llm.llm_try")
	double := func(models string) string {
		return strings.Replace(models, `input: "0.50", cached_input: "0.05", output: "2.00"`, `input: "1.00", cached_input: "0.10", output: "4.00"`, 1)
	}

	lines := b.recost(double, recost.Options{})
	require.Len(t, lines, 2)
	require.Equal(t, "large", lines[0].Model)
	require.Zero(t, lines[0].Changed)
	small := lines[1]
	require.Equal(t, recost.Line{
		Provider: "main", Model: "small", Requests: 2, Changed: 2, Before: small.Before, After: 2 * small.Before,
	}, small)
	require.Equal(t, untouched, one[string](b, "SELECT string_agg(cost::text || price_id || booked, ',' ORDER BY run_id, call_key) FROM llm.llm_try"),
		"nothing changes unless it is applied")
	require.Empty(t, b.recost(double, recost.Options{Model: "other"}))

	lines = b.recost(double, recost.Options{Apply: true, Model: "main/small"})
	require.Len(t, lines, 1)
	require.Equal(t, int64(2), lines[0].Corrected)
	after := before + small.Before
	require.Equal(t, after.String(), g.spend(t, "acme")[0].GetCostUsd())
	require.Equal(t, int64(small.After), one[int64](b, "SELECT (spent * 1e12)::bigint FROM llm.run_spend WHERE run_id = $1", run))
	require.Equal(t, int64(4), one[int64](b, "SELECT version FROM llm.run_spend WHERE run_id = $1", run), "its figure is a new one")
	require.Equal(t, 2, one[int](b, `SELECT count(*)::int FROM llm.llm_try y JOIN llm.model_price p ON p.id = y.price_id
		WHERE p.model = 'small' AND p.output = 4 AND (y.cost_split->>'output')::numeric = y.output_tokens * 4 / 1e6 AND y.booked = y.cost`))
	require.Equal(t, small.Before.String()+" "+small.After.String(),
		one[string](b, "SELECT trim_scale(before)::text || ' ' || trim_scale(after)::text FROM llm.recost"))
	b.balanced()
	require.Equal(t, 1, one[int](b, "SELECT count(*)::int FROM llm.spend_owed WHERE run_id = $1 AND version = 4", run),
		"the orchestrator is owed the new figure")

	require.Zero(t, b.recost(double, recost.Options{Apply: true})[1].Changed, "the second time there is nothing to correct")
	require.Equal(t, 1, one[int](b, "SELECT count(*)::int FROM llm.recost"))
}
