package llmgateway_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/llmgateway"
	"pawl.internal/services/testkit"
)

// spend is what was spent today, by dimensions.
func (g *gateway) spend(t *testing.T, tenant string, by ...pawlv1.SpendDimension) []*pawlv1.SpendRow {
	t.Helper()
	day := time.Now().UTC().Truncate(24 * time.Hour)
	resp, err := g.GetSpend(t.Context(), &systemv1.GetSpendRequest{
		Tenant: tenant, From: timestamppb.New(day.AddDate(0, 0, -1)), To: timestamppb.New(day.AddDate(0, 0, 2)), GroupBy: by,
	})
	require.NoError(t, err)
	return resp.GetRows()
}

func (g *gateway) setBudget(t *testing.T, tenant, amount string) {
	t.Helper()
	_, err := g.SetBudget(t.Context(), &systemv1.SetBudgetRequest{Tenant: tenant, MonthPicoUsd: proto.Int64(usd(t, amount))})
	require.NoError(t, err)
}

func TestSpendIsToldApart(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	for i, route := range []string{"default", "large", "default"} {
		q := b.question(b.ids.V7(), fmt.Sprint("question ", i))
		q.Route, q.Origin = route, "review:"+fmt.Sprint(i%2+1)
		g.answer(t, q)
	}
	other := b.question(b.ids.V7(), "another's")
	other.Tenant = "other"
	g.answer(t, other)

	all := g.spend(t, "", pawlv1.SpendDimension_SPEND_DIMENSION_TENANT)
	require.Len(t, all, 2)
	mine := g.spend(t, "acme", pawlv1.SpendDimension_SPEND_DIMENSION_MODEL, pawlv1.SpendDimension_SPEND_DIMENSION_PIPELINE)
	require.Len(t, mine, 2)
	names := map[string]int64{}
	for _, r := range mine {
		names[r.GetModel()+" "+r.GetPipeline()] = r.GetRequests()
		require.Empty(t, r.GetTenant())
		require.Positive(t, r.GetOutputTokens())
	}
	require.Equal(t, map[string]int64{"small review:1": 2, "large review:2": 1}, names)
	require.Equal(t, one[string](b, "SELECT trim_scale(sum(cost))::text FROM llm.llm_try"), g.spend(t, "")[0].GetCostUsd())
}

// Two replicas and one tenant's month, while many ask at once: once each knows what the other has in flight, nothing goes
// beyond the budget.
func TestATenantsMonthHoldsOverReplicas(t *testing.T) {
	b := newBench(t)
	replicas := []*gateway{b.gateway(nil), b.gateway(nil)}
	replicas[0].setBudget(t, "acme", "1.00")
	letGo := b.main.hold(t)
	ask := func(g *gateway, heard chan<- story) {
		q := b.question(b.ids.V7(), "a")
		q.Params.MaxOutputTokens = proto.Int32(149_990) // $0.29998, and a little for the prompt
		s, _ := g.ask(t.Context(), q)
		heard <- s
	}
	var all sync.WaitGroup
	heard := make(chan story, 22)
	// The first replica takes what fits, the second learns of it.
	for range 2 {
		all.Go(func() { ask(replicas[0], heard) })
	}
	b.main.awaitInFlight(t, 2)
	reserved := one[string](b, "SELECT trim_scale(sum(reserved))::text FROM llm.llm_try")
	for _, g := range replicas {
		budget, err := g.GetBudget(t.Context(), &systemv1.GetBudgetRequest{Tenant: "acme"})
		require.NoError(t, err)
		require.Equal(t, reserved, budget.GetBudget().GetReservedUsd(), "the budget is the same wherever one asks")
	}
	_, err := replicas[1].SetBudget(t.Context(), &systemv1.SetBudgetRequest{Tenant: "acme", MonthPicoUsd: proto.Int64(usd(t, "1.00"))})
	require.NoError(t, err) // and it has read the sums now
	for range 10 {
		all.Go(func() { ask(replicas[1], heard) })
	}
	testkit.Eventually(t, patience, func() error {
		if len(heard) != 9 {
			return fmt.Errorf("%d callers have heard, not 9", len(heard))
		}
		return nil
	})
	b.main.awaitInFlight(t, 3)
	letGo()
	all.Wait()
	close(heard)
	answered := 0
	for s := range heard {
		if s.answer != nil {
			answered++
			continue
		}
		require.Equal(t, systemv1.Outcome_FAILURE_CLASS_BUDGET, s.failure.GetClass())
		require.Equal(t, "budget_exceeded", s.failure.GetReason())
		require.Contains(t, s.failure.GetMessage(), "the tenant's budget for ")
		require.Contains(t, s.failure.GetMessage(), "of $1 are spent or reserved")
	}
	require.Equal(t, 3, answered)
	require.Equal(t, 3, b.main.received(), "the others were refused before they were sent")
	b.balanced()

	budget, err := replicas[0].GetBudget(t.Context(), &systemv1.GetBudgetRequest{Tenant: "acme"})
	require.NoError(t, err)
	require.Equal(t, "1", budget.GetBudget().GetMonthUsd())
	require.Equal(t, one[string](b, "SELECT trim_scale(sum(cost))::text FROM llm.llm_try"), budget.GetBudget().GetSpentUsd())
	require.Equal(t, "0", budget.GetBudget().GetReservedUsd())
	require.Equal(t, 1, budget.GetBudget().GetResetsAt().AsTime().Day())
}

func TestABudgetCanBeTakenAway(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	g.setBudget(t, "acme", "0")
	refused := g.failure(t, b.question(b.ids.V7(), "a"))
	require.Equal(t, systemv1.Outcome_FAILURE_CLASS_BUDGET, refused.GetClass())
	_, err := g.SetBudget(t.Context(), &systemv1.SetBudgetRequest{Tenant: "acme"})
	require.NoError(t, err)
	g.answer(t, b.question(b.ids.V7(), "a"))
	budget, err := g.GetBudget(t.Context(), &systemv1.GetBudgetRequest{Tenant: "acme"})
	require.NoError(t, err)
	require.Nil(t, budget.GetBudget().MonthUsd)
}

func TestABatchesBudgetHoldsOverItsRuns(t *testing.T) {
	b := newBench(t)
	g := b.gateway(nil)
	batch := b.ids.V7()
	ask := func() *systemv1.GenerateRequest {
		q := b.question(b.ids.V7(), "a")
		q.Params.MaxOutputTokens = proto.Int32(149_990)
		q.BatchId, q.BatchBudgetPicoUsd = batch[:], proto.Int64(usd(t, "0.50"))
		return q
	}
	letGo := b.main.hold(t)
	done := make(chan story, 1)
	go func() {
		s, _ := g.ask(t.Context(), ask())
		done <- s
	}()
	b.main.awaitInFlight(t, 1)
	refused := g.failure(t, ask())
	require.Equal(t, "budget_exceeded", refused.GetReason())
	require.Contains(t, refused.GetMessage(), "the batch's budget")
	letGo()
	require.NotNil(t, (<-done).answer)
	g.answer(t, ask()) // it has cost much less than feared
	require.Equal(t, one[string](b, "SELECT sum(cost)::text FROM llm.llm_try"),
		one[string](b, "SELECT sum(cost)::text FROM llm.spend_sum WHERE kind = 'batch' AND id = $1", batch.String()))
}

// The price of a model ends while the gateway runs. What has no budget goes on and is shown as unpriced; where a budget
// holds, it is refused, or reserves what the models file says.
func TestAPriceThatEnds(t *testing.T) {
	for _, c := range []struct {
		name, reserve, budget string
		refused               bool
		cost                  string
	}{
		{name: "no budget", cost: "0"},
		{name: "a budget", budget: "1", refused: true},
		{name: "a budget and a reserve", reserve: `unpriced_reserve: "0.25"`, budget: "1", cost: "0.25"},
		{name: "a budget that the reserve does not fit", reserve: `unpriced_reserve: "1.25"`, budget: "1", refused: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			end := time.Now().Add(5 * time.Second).UTC().Format(time.RFC3339)
			b.change = func(models string) string {
				return strings.Replace(models, "model: small, from: 2026-01-01", "model: small, from: 2026-01-01, to: "+end, 1) + c.reserve + "\n"
			}
			g := b.gateway(nil)
			// While the price holds, the cost is known.
			testkit.Eventually(t, patience, func() error {
				q := b.question(b.ids.V7(), "a")
				if c.budget != "" {
					q.BudgetPicoUsd = proto.Int64(usd(t, c.budget))
				}
				s, err := g.ask(t.Context(), q)
				require.NoError(t, err)
				basis := one[string](b, "SELECT cost_basis FROM llm.llm_try ORDER BY sent_at DESC LIMIT 1")
				if s.answer != nil && basis == "counted" {
					return fmt.Errorf("the price still holds")
				}
				if c.refused {
					require.NotNil(t, s.failure)
					require.Equal(t, systemv1.Outcome_FAILURE_CLASS_BUDGET, s.failure.GetClass())
					return nil
				}
				require.NotNil(t, s.answer)
				require.Equal(t, usd(t, c.cost), s.answer.GetCostPicoUsd())
				require.Equal(t, "unpriced", basis)
				return nil
			})
			b.balanced()
			if !c.refused {
				require.Equal(t, int64(1), g.spend(t, "acme")[0].GetUnpriced())
				require.InDelta(t, 1, b.counter(g, "pawl_llm_gateway_unpriced_total"), 0)
				require.Contains(t, b.log.String(), "has no price")
			}
		})
	}
}

// counter is the sum of a counter over its labels.
func (b *bench) counter(g *gateway, name string) (sum float64) {
	b.t.Helper()
	families, err := g.metrics.Gather()
	require.NoError(b.t, err)
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func TestWhoNearsABudgetIsToldByMetricAndLog(t *testing.T) {
	b := newBench(t)
	g := b.gateway(func(*llmgateway.Config) {})
	g.answer(t, b.question(b.ids.V7(), "a"))
	g.setBudget(t, "acme", "0.000000000001")
	require.InDelta(t, 1, b.counter(g, "pawl_llm_gateway_budgets_passed_total"), 0)
	require.Contains(t, b.log.String(), "a budget is used up or nearly so")
}
