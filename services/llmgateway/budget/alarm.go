package budget

import (
	"context"
	"time"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/llmgateway/store"
)

// tell says, once for each period, that a budget is used to four fifths, and that it is used up.
func (l *Ledger) tell(ctx context.Context, id store.BudgetID) {
	state := l.states[id]
	amount := state.Amount
	if b := l.batchOf(id); amount == nil && b != nil {
		amount = b.amount
	}
	if amount == nil {
		delete(l.told, id)
		return
	}
	used, known := l.used(id), l.told[id]
	percent := percentOf(used, *amount)
	if known.period.Equal(state.Period) && percent <= known.percent {
		return
	}
	l.told[id] = told{state.Period, percent}
	if percent == 0 {
		return
	}
	l.deps.Passed(id.Kind, percent)
	l.deps.Log.WarnContext(ctx, "a budget is used up or nearly so", "kind", id.Kind, "id", id.ID, "percent", percent,
		"used_usd", used, "budget_usd", *amount, "period", state.Period.Format(time.DateOnly))
}

func (l *Ledger) batchOf(id store.BudgetID) *batch {
	for batchID, b := range l.batches {
		if store.BudgetOfBatch(batchID) == id {
			return b
		}
	}
	return nil
}

// percentOf is the highest mark that is reached: 100, 80 or 0.
func percentOf(used, amount money.Pico) int {
	switch {
	case used <= 0:
		return 0
	case used >= amount:
		return 100
	case used >= amount-amount/5:
		return 80
	default:
		return 0
	}
}
