package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway/store/db"
)

// BudgetID names a budget beyond a run's.
type BudgetID struct {
	Kind BudgetKind
	// ID is the tenant, or the batch's UUID.
	ID string
}

// TenantBudget names the budget of a tenant's months.
func TenantBudget(tenant string) BudgetID { return BudgetID{TenantMonth, tenant} }

// BudgetOfBatch names the budget of a batch.
func BudgetOfBatch(batch uuid.UUID) BudgetID { return BudgetID{BatchBudget, batch.String()} }

// BudgetState is how far a budget is used.
type BudgetState struct {
	// Amount is the budget; nil without a limit.
	Amount *money.Pico
	// Period is the first day of the month that it is used for; 1970-01-01 for a batch's.
	Period time.Time
	// Spent is what was spent of it, and Reserved the worst cases of what other gateways have in flight.
	Spent, Reserved money.Pico
}

// SetBudget sets a budget; nil removes it.
func (s *Store) SetBudget(ctx context.Context, id BudgetID, amount *money.Pico) error {
	query := db.New(s.pool)
	var err error
	if amount == nil {
		err = query.DropBudget(ctx, string(id.Kind), id.ID)
	} else {
		err = query.PutBudget(ctx, db.PutBudgetParams{Kind: string(id.Kind), ID: id.ID, Amount: *amount})
	}
	if err != nil {
		return fmt.Errorf("set budget: %w", pg.Fault(err))
	}
	return nil
}

// ReadBudget returns how far one budget is used, and when it was set; the time is zero if it is not.
func (s *Store) ReadBudget(ctx context.Context, id BudgetID) (BudgetState, time.Time, error) {
	set, err := db.New(s.control).FindBudget(ctx, string(id.Kind), id.ID)
	if err != nil {
		return BudgetState{}, time.Time{}, fmt.Errorf("read budget: %w", pg.Fault(err))
	}
	states := map[BudgetID]BudgetState{id: {}}
	if err := s.fillStates(ctx, uuid.Nil, states); err != nil {
		return BudgetState{}, time.Time{}, err
	}
	state := states[id]
	if len(set) == 0 {
		return state, time.Time{}, nil
	}
	state.Amount = &set[0].Amount
	return state, set[0].SetAt, nil
}

// ReadBudgets returns how far every tenant's budget is used, and those of the batches. Holder is the gateway that asks: what
// it has in flight itself is left out.
func (s *Store) ReadBudgets(ctx context.Context, holder uuid.UUID, batches []uuid.UUID) (map[BudgetID]BudgetState, error) {
	states := map[BudgetID]BudgetState{}
	names := make([]string, len(batches))
	for i, b := range batches {
		names[i] = b.String()
		states[BudgetOfBatch(b)] = BudgetState{}
	}
	rows, err := db.New(s.control).ListBudgets(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("list budgets: %w", pg.Fault(err))
	}
	for _, r := range rows {
		states[BudgetID{BudgetKind(r.Kind), r.ID}] = BudgetState{Amount: &r.Amount}
	}
	return states, s.fillStates(ctx, holder, states)
}

// fillStates fills in what was spent and reserved. What is reserved is read first: a request that is settled meanwhile counts
// twice then, for a moment, and not nowhere.
func (s *Store) fillStates(ctx context.Context, holder uuid.UUID, states map[BudgetID]BudgetState) error {
	if len(states) == 0 {
		return nil
	}
	query := db.New(s.control)
	reserved, err := query.SumReserved(ctx, holder, LaneHolder)
	if err != nil {
		return fmt.Errorf("sum what is reserved: %w", pg.Fault(err))
	}
	add := func(id BudgetID, amount money.Pico) {
		if state, ok := states[id]; ok {
			state.Reserved += amount
			states[id] = state
		}
	}
	for _, r := range reserved {
		add(TenantBudget(r.Tenant), r.Reserved)
		if r.BatchID != nil {
			add(BudgetOfBatch(*r.BatchID), r.Reserved)
		}
	}
	var params db.SumBudgetsParams
	var ids []BudgetID
	for id := range states {
		params.Ns = append(params.Ns, int32(len(ids)))
		params.Kinds, params.Ids = append(params.Kinds, string(id.Kind)), append(params.Ids, id.ID)
		ids = append(ids, id)
	}
	rows, err := query.SumBudgets(ctx, params)
	if err != nil {
		return fmt.Errorf("sum budgets: %w", pg.Fault(err))
	}
	for _, r := range rows {
		state := states[ids[r.N]]
		state.Spent, state.Period = r.Spent, r.Period.Time
		states[ids[r.N]] = state
	}
	return nil
}
