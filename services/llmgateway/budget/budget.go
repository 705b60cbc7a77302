// Package budget refuses requests that do not fit into what is left of a tenant's month or of a batch.
//
// A run's budget is held exactly, under its purse's lock. These hold for many runs, and a row that all of them lock would be
// hot: so every replica reads once a second what was spent, and what the others have in flight, and adds what it has in
// flight itself and has spent since. Two replicas can therefore exceed a budget together by what the others have begun within
// the last second, and no more; a replica alone never does.
package budget

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/llmgateway/store"
)

const (
	// refreshEvery is how often the sums are read.
	refreshEvery = time.Second
	// forgetAfter is how long a batch is kept in mind that asks nothing.
	forgetAfter = time.Minute
)

// Source reads how far budgets are used.
type Source interface {
	ReadBudgets(ctx context.Context, holder uuid.UUID, batches []uuid.UUID) (map[store.BudgetID]store.BudgetState, error)
}

// Deps are what a Ledger needs.
type Deps struct {
	Source Source
	// Holder is this replica.
	Holder uuid.UUID
	Clock  clock.Clock
	Log    *slog.Logger
	// Passed is told of each budget of which so many percent are used, once for each period.
	Passed func(kind store.BudgetKind, percent int)
}

// Ledger knows what is left of every budget. It is safe for concurrent use.
type Ledger struct {
	deps Deps
	// refreshing is held by the one who reads.
	refreshing sync.Mutex

	mu      sync.Mutex
	loaded  bool                                 // guarded by mu
	states  map[store.BudgetID]store.BudgetState // guarded by mu; as they were read last
	own     map[store.BudgetID]*own              // guarded by mu
	batches map[uuid.UUID]*batch                 // guarded by mu
	told    map[store.BudgetID]told              // guarded by mu
}

// own is what this replica knows of a budget beyond what was read.
type own struct {
	// held is in flight. Settled was spent since the reading began that is the newest; before was spent before it.
	held, settled, before money.Pico
	// holds is how many requests are in flight.
	holds int
}

func (o *own) sum() money.Pico { return o.held + o.settled + o.before }

type batch struct {
	lastAsked time.Time
	// amount is the budget that its runs were given; nil for none.
	amount *money.Pico
}

type told struct {
	period  time.Time
	percent int
}

// New returns a Ledger that knows nothing until it has been refreshed.
func New(d Deps) *Ledger {
	return &Ledger{
		deps: d, states: map[store.BudgetID]store.BudgetState{}, own: map[store.BudgetID]*own{}, batches: map[uuid.UUID]*batch{},
		told: map[store.BudgetID]told{},
	}
}

// Run refreshes the sums until ctx ends.
func (l *Ledger) Run(ctx context.Context) error {
	return clock.Every(ctx, l.deps.Clock, refreshEvery, func(ctx context.Context) {
		if err := l.Refresh(ctx); err != nil && ctx.Err() == nil {
			l.deps.Log.WarnContext(ctx, "budgets cannot be read; the last figures hold", "error", err)
		}
	})
}

// Refresh reads how far budgets are used.
func (l *Ledger) Refresh(ctx context.Context) error {
	l.refreshing.Lock()
	defer l.refreshing.Unlock()
	batches := l.begin()
	states, err := l.deps.Source.ReadBudgets(ctx, l.deps.Holder, batches)
	if err != nil {
		return err
	}
	l.take(ctx, states)
	return nil
}

// begin moves what was settled behind: the reading that follows contains it.
func (l *Ledger) begin() []uuid.UUID {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.own {
		o.before, o.settled = o.before+o.settled, 0
	}
	now := l.deps.Clock.Now()
	var ids []uuid.UUID
	for id, b := range l.batches {
		if now.Sub(b.lastAsked) > forgetAfter && l.own[store.BudgetOfBatch(id)] == nil {
			delete(l.batches, id)
			delete(l.told, store.BudgetOfBatch(id))
			continue
		}
		ids = append(ids, id)
	}
	return ids
}

// take takes over what was read.
func (l *Ledger) take(ctx context.Context, states map[store.BudgetID]store.BudgetState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, o := range l.own {
		if o.before = 0; o.holds == 0 && o.sum() == 0 {
			delete(l.own, id)
		}
	}
	l.states, l.loaded = states, true
	for id := range states {
		l.tell(ctx, id)
	}
}

// Ask is a request that is about to be recorded.
type Ask struct {
	Tenant string
	// Batch is the run's; zero for none. BatchAmount is the budget that the batch was given when it was made; nil for none. One
	// that was set since goes before it.
	Batch       uuid.UUID
	BatchAmount *money.Pico
	// Worst is the most that the request can cost.
	Worst money.Pico
}

// Exceeded says which budget has no room for a request.
type Exceeded struct {
	ID     store.BudgetID
	Period time.Time
	// Amount is the budget, Used what is spent and reserved of it, and Worst what was to be added.
	Amount, Used, Worst money.Pico
}

// Hold is a request's share of its budgets, from before it is recorded until its cost is stored.
type Hold struct {
	ledger *Ledger
	ids    []store.BudgetID
	worst  money.Pico
	once   sync.Once
}

// Reserve holds the worst case of a request against its budgets, or says which of them has no room for it. An error means
// that nobody knows.
func (l *Ledger) Reserve(ctx context.Context, a Ask) (*Hold, *Exceeded, error) {
	if !l.know(a) {
		if err := l.Refresh(ctx); err != nil {
			return nil, nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &Hold{ledger: l, ids: idsOf(a), worst: a.Worst}
	for _, id := range h.ids {
		amount := l.amount(id, a)
		if amount == nil {
			continue
		}
		if used := l.used(id); used > *amount-a.Worst {
			return nil, &Exceeded{ID: id, Period: l.states[id].Period, Amount: *amount, Used: used, Worst: a.Worst}, nil
		}
	}
	for _, id := range h.ids {
		if l.own[id] == nil {
			l.own[id] = &own{}
		}
		l.own[id].held += a.Worst
		l.own[id].holds++
	}
	return h, nil, nil
}

// know notes that the batch asks, and reports whether its sums are read.
func (l *Ledger) know(a Ask) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.Batch == uuid.Nil {
		return l.loaded
	}
	if l.batches[a.Batch] == nil {
		l.batches[a.Batch] = &batch{}
	}
	b := l.batches[a.Batch]
	b.lastAsked, b.amount = l.deps.Clock.Now(), a.BatchAmount
	_, read := l.states[store.BudgetOfBatch(a.Batch)]
	return l.loaded && read
}

// Holds reports whether any budget holds for the request.
func (l *Ledger) Holds(a Ask) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range idsOf(a) {
		if l.amount(id, a) != nil {
			return true
		}
	}
	return false
}

func idsOf(a Ask) []store.BudgetID {
	ids := []store.BudgetID{store.TenantBudget(a.Tenant)}
	if a.Batch != uuid.Nil {
		ids = append(ids, store.BudgetOfBatch(a.Batch))
	}
	return ids
}

func (l *Ledger) amount(id store.BudgetID, a Ask) *money.Pico {
	if amount := l.states[id].Amount; amount != nil || id.Kind != store.BatchBudget {
		return amount
	}
	return a.BatchAmount
}

// used is what is spent and reserved, as far as it is known here.
func (l *Ledger) used(id store.BudgetID) money.Pico {
	used := l.states[id].Spent + l.states[id].Reserved
	if o := l.own[id]; o != nil {
		used += o.sum()
	}
	return used
}

// Settle replaces the worst case by what was booked. It must be called after that is stored. A hold ends once; what is called
// after that does nothing.
func (h *Hold) Settle(cost money.Pico) {
	h.end(cost)
}

// Release gives back what was held for a request that was not recorded, or whose cost nobody knows here any more: the log has
// it then.
func (h *Hold) Release() { h.end(0) }

func (h *Hold) end(cost money.Pico) {
	h.once.Do(func() {
		h.ledger.mu.Lock()
		defer h.ledger.mu.Unlock()
		for _, id := range h.ids {
			o := h.ledger.own[id]
			o.held -= h.worst
			o.holds--
			o.settled += cost
		}
	})
}
