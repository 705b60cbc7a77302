package budget_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/llmgateway/budget"
	"pawl.internal/services/llmgateway/store"
)

// source is a database that several ledgers read.
type source struct {
	mu     sync.Mutex
	down   bool                                 // guarded by mu
	states map[store.BudgetID]store.BudgetState // guarded by mu
	reads  int                                  // guarded by mu
	// during is called in the middle of a reading.
	during func()
}

func (s *source) ReadBudgets(_ context.Context, _ uuid.UUID, batches []uuid.UUID) (map[store.BudgetID]store.BudgetState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads++; s.down {
		return nil, errors.New("away")
	}
	states := map[store.BudgetID]store.BudgetState{}
	for _, b := range batches {
		states[store.BudgetOfBatch(b)] = s.states[store.BudgetOfBatch(b)]
	}
	for id, state := range s.states {
		if id.Kind == store.TenantMonth {
			states[id] = state
		}
	}
	if s.during != nil {
		s.during()
	}
	return states, nil
}

func (s *source) put(id store.BudgetID, amount *money.Pico, spent money.Pico) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states[id] = store.BudgetState{Amount: amount, Spent: spent, Period: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}
}

type passed struct {
	kind    store.BudgetKind
	percent int
}

type bench struct {
	*budget.Ledger
	source *source
	passed []passed
}

func setup() *bench {
	b := &bench{source: &source{states: map[store.BudgetID]store.BudgetState{}}}
	b.Ledger = budget.New(budget.Deps{
		Source: b.source, Clock: clock.System(), Log: slog.New(slog.DiscardHandler),
		Passed: func(kind store.BudgetKind, percent int) { b.passed = append(b.passed, passed{kind, percent}) },
	})
	return b
}

func dollars(n int64) money.Pico { return money.Pico(n) * money.Dollar }

func limit(n int64) *money.Pico {
	p := dollars(n)
	return &p
}

func TestRequestsAreAdmittedWhileThereIsRoom(t *testing.T) {
	t.Parallel()
	b := setup()
	b.source.put(store.TenantBudget("acme"), limit(10), dollars(4))
	ask := budget.Ask{Tenant: "acme", Worst: dollars(3)}
	first, exceeded, err := b.Reserve(t.Context(), ask)
	require.NoError(t, err)
	require.Nil(t, exceeded)
	second, exceeded, err := b.Reserve(t.Context(), ask)
	require.NoError(t, err)
	require.Nil(t, exceeded, "10 of 10 fit")
	_, exceeded, err = b.Reserve(t.Context(), ask)
	require.NoError(t, err)
	require.Equal(t, &budget.Exceeded{
		ID: store.TenantBudget("acme"), Period: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
		Amount: dollars(10), Used: dollars(10), Worst: dollars(3),
	}, exceeded)

	first.Settle(dollars(1)) // cheaper than feared
	first.Settle(dollars(9)) // a hold ends once
	second.Release()
	third, exceeded, err := b.Reserve(t.Context(), ask)
	require.NoError(t, err)
	require.Nil(t, exceeded, "4 + 1 + 3 fit into 10")
	third.Release()

	_, exceeded, err = b.Reserve(t.Context(), budget.Ask{Tenant: "other", Worst: dollars(1000)})
	require.NoError(t, err)
	require.Nil(t, exceeded, "who has no budget is not limited")
	require.False(t, b.Holds(budget.Ask{Tenant: "other"}))
	require.True(t, b.Holds(ask))
}

// What was settled counts until a reading has it that began after: not twice, and never not at all.
func TestWhatIsSettledMovesIntoTheNextReading(t *testing.T) {
	t.Parallel()
	b := setup()
	id := store.TenantBudget("acme")
	b.source.put(id, limit(10), 0)
	hold, _, err := b.Reserve(t.Context(), budget.Ask{Tenant: "acme", Worst: dollars(5)})
	require.NoError(t, err)
	used := func() money.Pico {
		_, exceeded, err := b.Reserve(t.Context(), budget.Ask{Tenant: "acme", Worst: dollars(100)})
		require.NoError(t, err)
		return exceeded.Used
	}
	require.Equal(t, dollars(5), used())
	b.source.during = func() { hold.Settle(dollars(2)) } // too late for this reading
	require.NoError(t, b.Refresh(t.Context()))
	b.source.during = nil
	require.Equal(t, dollars(2), used())

	b.source.put(id, limit(10), dollars(2))
	require.NoError(t, b.Refresh(t.Context()))
	require.Equal(t, dollars(2), used(), "the reading has it now")

	b.source.down = true
	require.Error(t, b.Refresh(t.Context()))
	require.Equal(t, dollars(2), used(), "the last figures hold")
}

func TestABatchIsReadBeforeItsFirstRequest(t *testing.T) {
	t.Parallel()
	b := setup()
	batch := uuid.New()
	b.source.put(store.BudgetOfBatch(batch), nil, dollars(4))
	ask := budget.Ask{Tenant: "acme", Batch: batch, BatchAmount: limit(5), Worst: dollars(2)}
	_, exceeded, err := b.Reserve(t.Context(), ask)
	require.NoError(t, err)
	require.Equal(t, store.BudgetOfBatch(batch), exceeded.ID)
	require.Equal(t, 1, b.source.reads)
	require.True(t, b.Holds(ask))

	b.source.put(store.BudgetOfBatch(batch), limit(50), dollars(4))
	require.NoError(t, b.Refresh(t.Context()))
	_, exceeded, err = b.Reserve(t.Context(), ask)
	require.NoError(t, err)
	require.Nil(t, exceeded, "a budget that was set since goes before the one it was made with")
	require.Equal(t, 2, b.source.reads)

	b.source.down = true
	_, _, err = b.Reserve(t.Context(), budget.Ask{Tenant: "acme", Batch: uuid.New(), Worst: 1})
	require.Error(t, err, "nobody knows what the batch has spent")
}

func TestWhoNearsABudgetIsTold(t *testing.T) {
	t.Parallel()
	b := setup()
	id := store.TenantBudget("acme")
	for _, spent := range []int64{0, 79, 80, 99, 100, 120} {
		b.source.put(id, limit(100), dollars(spent))
		require.NoError(t, b.Refresh(t.Context()))
	}
	require.Equal(t, []passed{{store.TenantMonth, 80}, {store.TenantMonth, 100}}, b.passed)
	b.source.states[id] = store.BudgetState{Amount: limit(100), Spent: dollars(85), Period: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}
	require.NoError(t, b.Refresh(t.Context()))
	require.Len(t, b.passed, 3, "the next month is another one")

	batch := uuid.New()
	b.source.put(store.BudgetOfBatch(batch), nil, dollars(4))
	_, _, err := b.Reserve(t.Context(), budget.Ask{Tenant: "other", Batch: batch, BatchAmount: limit(5), Worst: 1})
	require.NoError(t, err)
	require.Equal(t, passed{store.BatchBudget, 80}, b.passed[3])
}

// A ledger alone never admits more than fits, whatever comes back and whenever the sums are read.
func TestALedgerAloneNeverExceedsABudget(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := setup()
		id, amount := store.TenantBudget("acme"), int64(100)
		b.source.put(id, limit(amount), 0)
		var spent money.Pico
		type flight struct {
			hold  *budget.Hold
			worst money.Pico
		}
		var flights []flight
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				worst := dollars(rapid.Int64Range(0, 40).Draw(t, "worst"))
				hold, exceeded, err := b.Reserve(context.Background(), budget.Ask{Tenant: "acme", Worst: worst})
				require.NoError(t, err)
				if exceeded == nil {
					flights = append(flights, flight{hold, worst})
				}
			case 1:
				if len(flights) == 0 {
					continue
				}
				cost := flights[0].worst / money.Pico(rapid.Int64Range(1, 3).Draw(t, "part"))
				spent += cost
				b.source.put(id, limit(amount), spent) // the commit comes first
				flights[0].hold.Settle(cost)
				flights = flights[1:]
			default:
				require.NoError(t, b.Refresh(context.Background()))
			}
			committed := spent
			for _, f := range flights {
				committed += f.worst
			}
			require.LessOrEqual(t, committed, dollars(amount))
		}
		for _, f := range flights {
			f.hold.Release()
		}
		require.NoError(t, b.Refresh(context.Background()))
		_, exceeded, err := b.Reserve(context.Background(), budget.Ask{Tenant: "acme", Worst: dollars(amount) - spent})
		require.NoError(t, err)
		require.Nil(t, exceeded, "nothing is held any more that is not in flight")
	})
}
