package llmgateway

import (
	"context"
	"errors"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/llmgateway/budget"
	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/store"
)

// reserve computes the request's worst case and holds it against the budgets beyond its run's. It returns an outcome if the
// request must not be sent.
func (r *request) reserve() (money.Pico, *outcome) {
	worst, failed := r.worstCase()
	if failed != nil {
		return 0, r.overBudget(failed)
	}
	hold, exceeded, err := r.service.budgets.Reserve(context.WithoutCancel(r.flight.ctx), r.flight.ask.budgets(worst))
	switch {
	case err != nil:
		return 0, &outcome{err: err}
	case exceeded != nil:
		return 0, r.overBudget(failedBudget(*exceeded))
	}
	r.hold = hold
	return worst, nil
}

func (r *request) overBudget(f *failed) *outcome {
	return &outcome{failed: f, cost: r.last.cost, spend: r.last.spend, calls: r.calls}
}

// giveBack ends the hold of a request that has come to no cost.
func (r *request) giveBack() {
	if r.hold != nil {
		r.hold.Release()
	}
}

// worstCase is the most that the request can cost. Without a price nobody knows: it is what the models file says that such a
// request is to reserve, or nothing; and where a budget holds and the file says nothing, the request is refused.
func (r *request) worstCase() (money.Pico, *failed) {
	a := r.flight.ask
	worst, err := r.price.Most(r.tier, a.mostInput(), r.maxOutput())
	switch reserve := r.models.catalog.UnpricedReserve; {
	case err == nil:
		return worst, nil
	case !errors.Is(err, price.ErrUnpriced):
		return 0, failedTooDear(r.target.Name())
	case reserve != nil:
		return *reserve, nil
	case a.budget() != nil || r.service.budgets.Holds(a.budgets(0)):
		return 0, failedUnpriced(r.target.Name())
	default:
		return 0, nil
	}
}

// row is the price row that holds if the prompt is as long as it seems.
func (r *request) row() price.Row {
	row, _ := r.price.Row(r.tier, price.UsualTokens(r.flight.ask.bytes))
	return row
}

// cost fills in what the request has cost: what follows from the provider's counts; nothing, if it refused or never had the
// whole request; an estimate, if it answered, also when it failed in the middle of that, and did not count; what was reserved,
// if nobody knows.
func (r *request) cost(o *store.Outcome, x provider.Exchange, reading provider.Reading) {
	switch {
	case o.State == store.TryAmbiguous || o.State == store.TryCancelled:
		o.Basis = store.WorstCase
		return
	case reading.UsageKnown:
		o.Basis = store.Counted
	case o.State == store.TryAnswered || reading.FinishReason == failure.FinishUnreadable || reading.Text != "":
		o.Usage, o.Basis = r.estimate(x, reading), store.Estimated
	default:
		o.Basis = store.Counted
		return
	}
	usage := o.Usage
	if usage.Tier == "" {
		usage.Tier = r.tier
	}
	bill, err := r.price.Cost(usage)
	switch {
	case err == nil:
		o.Cost, o.PriceID, o.Tier, o.Split = bill.Total, bill.RowID, bill.Tier, bill.Split
	case errors.Is(err, price.ErrUnpriced):
		o.Basis = store.Unpriced
		r.service.metrics.unpriced.WithLabelValues(r.target.Provider.Name, modelName(r.target.Model)).Inc()
		r.service.log.Error("what a request has used has no price; its cost is unknown", "provider", r.target.Provider.Name,
			"model", r.target.Model, "run_id", r.flight.ask.key.RunID, "error", err)
	default:
		o.Basis = store.WorstCase
	}
}

// estimate counts the tokens of an answer whose provider did not. Beyond those that were asked for nothing was generated,
// however long the answer is, so that the cost stays within what was reserved.
func (r *request) estimate(x provider.Exchange, reading provider.Reading) price.Usage {
	a, counter := r.flight.ask, &r.service.tokens
	answer := reading.Text
	if answer == "" {
		answer = string(x.Body)
	}
	return price.Usage{Input: min(counter.Count(a.texts()...), a.mostInput()), Output: min(counter.Count(answer), r.maxOutput())}
}

// texts are all that the model is to read; pictures are not among them.
func (a *ask) texts() []string {
	texts := append([]string{string(a.req.GetOutputSchema())}, a.req.GetEmbed()...)
	for _, m := range a.req.GetMessages() {
		texts = append(texts, m.GetContent())
		for _, p := range m.GetParts() {
			texts = append(texts, p.GetText())
		}
		for _, c := range m.GetToolCalls() {
			texts = append(texts, c.GetName(), c.GetArguments())
		}
	}
	for _, t := range a.req.GetTools() {
		texts = append(texts, t.GetName(), t.GetDescription(), string(t.GetParameters()))
	}
	return texts
}

// budgets is what the budgets beyond the run's are asked.
func (a *ask) budgets(worst money.Pico) budget.Ask {
	q := budget.Ask{Tenant: a.req.GetTenant(), Batch: a.batch(), Worst: worst}
	if a.req.BatchBudgetPicoUsd != nil {
		amount := money.Pico(a.req.GetBatchBudgetPicoUsd())
		q.BatchAmount = &amount
	}
	return q
}
