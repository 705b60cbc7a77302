package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/store/db"
)

// group is one transaction: the rows that its changes concern, as they were read under the purses' locks, and as they are
// to be written.
type group struct {
	pipe  *pg.Pipe
	query *db.Queries

	// now is PostgreSQL's clock, read after the locks were taken.
	now time.Time
	// least and most are the bounds of the runs' ids.
	least, most uuid.UUID
	purses      map[uuid.UUID]*purse
	calls       map[Key]*call

	newCalls []*call
	newTries []*try
	settled  []settlement
	// corrected are calls whose stored answer was found good after all.
	corrected []Key
	recosted  []recosted
	bookings  *bookings
}

// purse is a row of run_spend.
type purse struct {
	runID           uuid.UUID
	tenant          string
	batch           uuid.UUID
	budget          *money.Pico
	reserved, spent money.Pico
	version         int64
	epoch           int32
	closedAt        time.Time
	// outside: it is not a run's, so nobody is told what was spent.
	outside bool
	changed bool
	// owed is true when spent has changed.
	owed bool
}

// call is a row of llm_call_log with its requests.
type call struct {
	key      Key
	question *Question
	// class and origin are the question's.
	class, origin string
	state         CallState
	tries         []*try
	winning       int32
	cost          money.Pico
	replays       int32
	finishedAt    time.Time
	isNew         bool
	changed       bool
}

// try is a row of llm_try, as far as decisions need it.
type try struct {
	no             int32
	holder         uuid.UUID
	state          TryState
	reserved, cost money.Pico
	// begun is the change that made it, if that is of this group.
	begun *Begin

	provider, model string
	// booked is its part of spend_day; nil before it has one. Basis, usage and settledAt are as they were stored with it.
	booked    *money.Pico
	basis     Basis
	usage     price.Usage
	settledAt time.Time
}

// settlement is what is written of a settled request.
type settlement struct {
	key     Key
	try     *try
	outcome Outcome
}

// commitGroup carries out a group of changes in one transaction.
func (s *Store) commitGroup(ctx context.Context, lane int, changes []Change) error {
	var g *group
	err := pg.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		pipe := pg.NewPipe(tx)
		g = &group{
			pipe: pipe, query: db.New(pipe), purses: map[uuid.UUID]*purse{}, calls: map[Key]*call{}, bookings: newBookings(s.holder, lane),
		}
		if err := g.load(ctx, changes); err != nil {
			return err
		}
		for _, c := range changes {
			c.apply(g)
		}
		err := g.write(ctx)
		failpoint.Hit("gateway.group.commit")
		return err
	})
	if err != nil {
		return err
	}
	failpoint.Hit("gateway.group.committed")
	for _, p := range g.purses {
		if p.owed {
			s.owed.add(p.runID, p.spend())
		}
	}
	return nil
}

// load makes the purses that are missing, locks all of them in the order of their ids, and then, in a new statement, reads
// the rows as they are under the locks.
func (g *group) load(ctx context.Context, changes []Change) error {
	if err := g.makePurses(ctx, changes); err != nil {
		return err
	}
	runs, keys := concerned(changes)
	g.least, g.most = pg.Bounds(runs...)
	if err := g.query.LockPurses(ctx, db.LockPursesParams{RunIds: runs, LeastID: g.least, MostID: g.most}); err != nil {
		return err
	}
	var keyRuns []uuid.UUID
	var digests [][]byte
	for _, k := range keys {
		keyRuns, digests = append(keyRuns, k.RunID), append(digests, k.Digest[:])
	}
	rows, err := g.query.ReadGroup(ctx, db.ReadGroupParams{RunIds: keyRuns, CallKeys: digests, LeastID: g.least, MostID: g.most})
	if err != nil {
		return fmt.Errorf("read group: %w", err)
	}
	for _, r := range rows {
		g.take(r)
	}
	return nil
}

// take takes over one row of what was read.
func (g *group) take(r db.ReadGroupRow) {
	g.now = r.Now
	if g.purses[r.RunID] == nil {
		g.purses[r.RunID] = &purse{
			runID: r.RunID, tenant: r.Tenant, batch: orNobody(r.BatchID), budget: r.Budget, reserved: r.Reserved, spent: r.Spent, version: r.Version, epoch: r.Epoch,
			closedAt: orZero(r.ClosedAt), outside: r.Outside,
		}
	}
	if r.CallState == "" {
		return
	}
	key := Key{RunID: r.RunID, Digest: [32]byte(r.CallKey)}
	c := g.calls[key]
	if c == nil {
		c = &call{
			key: key, state: CallState(r.CallState), winning: r.WinningTry, cost: r.CallCost, replays: r.Replays,
			finishedAt: orZero(r.FinishedAt), class: r.Class, origin: r.Origin,
		}
		g.calls[key] = c
	}
	c.tries = append(c.tries, storedTry(r))
}

func storedTry(r db.ReadGroupRow) *try {
	return &try{
		no: r.TryNo, holder: r.Holder, state: TryState(r.TryState), reserved: r.TryReserved, cost: r.TryCost,
		provider: r.Provider, model: r.Model, booked: r.Booked, basis: Basis(r.CostBasis), settledAt: orZero(r.SettledAt),
		usage: price.Usage{
			Input: r.InputTokens, CachedInput: r.CachedInputTokens, CacheWrite: r.CacheWriteTokens, CacheWrite1h: r.CacheWrite1hTokens,
			Output: r.OutputTokens, Reasoning: r.ReasoningTokens,
		},
	}
}

// concerned lists the runs and keys of the changes, each once; runs in order. A change that concerns no call has the zero
// digest, which no call has.
func concerned(changes []Change) (runs []uuid.UUID, keys []Key) {
	seen := map[Key]bool{}
	for _, c := range changes {
		runs = append(runs, c.key().RunID)
		if key := c.key(); !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	slices.SortFunc(runs, compareIDs)
	return slices.Compact(runs), keys
}

func compareIDs(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

// makePurses inserts the purses that may be missing, in the order of their ids.
func (g *group) makePurses(ctx context.Context, changes []Change) error {
	wanted := map[uuid.UUID]*newPurse{}
	var ids []uuid.UUID
	for _, c := range changes {
		run := c.key().RunID
		if p := c.purse(); p != nil && wanted[run] == nil {
			wanted[run] = p
			ids = append(ids, run)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	slices.SortFunc(ids, compareIDs)
	rows := db.MakePursesParams{RunIds: ids}
	for _, id := range ids {
		rows.Tenants = append(rows.Tenants, wanted[id].tenant)
		rows.Budgets = append(rows.Budgets, orNone(wanted[id].budget))
		rows.Epochs = append(rows.Epochs, wanted[id].epoch)
		rows.BatchIds = append(rows.BatchIds, wanted[id].batch)
		rows.Outside = append(rows.Outside, wanted[id].outside)
	}
	return g.query.MakePurses(ctx, rows)
}

// newCall makes the row of a call that is asked for the first time.
func (g *group) newCall(b *Begin) *call {
	c := &call{key: b.Key, question: &b.Question, isNew: true, class: b.Question.Class, origin: b.Question.Origin}
	g.calls[b.Key] = c
	g.newCalls = append(g.newCalls, c)
	return c
}

// settle books what a request has cost in place of what was reserved or booked for it before.
func (g *group) settle(p *purse, c *call, t *try, o Outcome) {
	if o.State == TryNotSent && o.Reason == "" {
		o.Reason = string(TryNotSent) // so that nobody takes it for a request without an answer
	}
	if o.Basis == WorstCase || o.Basis == Unpriced {
		o.Cost = t.reserved + t.cost // one of them is 0
	}
	g.bookings.book(g.now, p, c, t, o)
	p.settle(t, o.Cost)
	c.cost += o.Cost - t.cost
	t.state, t.reserved, t.cost = o.State, 0, o.Cost
	if o.State == TryAnswered && c.winning == 0 {
		c.winning = t.no
	}
	g.settled = append(g.settled, settlement{key: c.key, try: t, outcome: o})
	g.touch(c)
}

// touch notes that a call has changed, and derives its state anew.
func (g *group) touch(c *call) {
	c.changed = true
	before := c.state
	c.state = stateOf(c.winning, c.tries)
	switch {
	case c.state == CallInFlight:
		c.finishedAt = time.Time{}
	case c.state != before || c.finishedAt.IsZero():
		c.finishedAt = g.now
	}
}

// taken reports whether the call needs no request of the holder's: it is answered, or another holder has one in flight.
func (c *call) taken(holder uuid.UUID) bool {
	return c.winning != 0 || slices.ContainsFunc(c.tries, func(t *try) bool {
		return t.state == TryInFlight && t.holder != holder
	})
}

// inFlight reports whether a request is in flight, whoever holds it.
func (c *call) inFlight() bool {
	return slices.ContainsFunc(c.tries, func(t *try) bool { return t.state == TryInFlight })
}

// ambiguous counts the requests of unknown fate.
func (c *call) ambiguous() int32 {
	var n int32
	for _, t := range c.tries {
		if t.state == TryAmbiguous {
			n++
		}
	}
	return n
}

// advance opens the purse anew for a later epoch. Within an epoch a budget is only ever raised, so of two that come in any
// order the higher one is the newer.
func (p *purse) advance(epoch int32, budget *money.Pico) {
	switch {
	case epoch > p.epoch:
		p.epoch, p.budget, p.closedAt, p.changed = epoch, budget, time.Time{}, true
	case epoch == p.epoch && p.budget != nil && budget != nil && *budget > *p.budget:
		p.budget, p.changed = budget, true
	}
}

// joinBatch notes the run's batch, the first time that it is told.
func (p *purse) joinBatch(batch uuid.UUID) {
	if p.batch == uuid.Nil && batch != uuid.Nil {
		p.batch, p.changed = batch, true
	}
}

// affords reports whether the amount fits into what is left.
func (p *purse) affords(amount money.Pico) bool {
	if p.budget == nil {
		return true
	}
	committed, err := p.spent.Add(p.reserved)
	if err != nil {
		return false
	}
	committed, err = committed.Add(amount)
	return err == nil && committed <= *p.budget
}

func (p *purse) settle(t *try, cost money.Pico) {
	p.reserved -= t.reserved
	p.changed = true
	if cost != t.cost {
		p.spent += cost - t.cost
		p.version++
		p.owed = !p.outside
	}
}

func (p *purse) spend() Spend { return Spend{Amount: p.spent, Version: p.version} }

// noBudget stands for "no limit" in arrays.
const noBudget money.Pico = -1 * money.Dollar

func orNone(budget *money.Pico) money.Pico {
	if budget == nil {
		return noBudget
	}
	return *budget
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func orNobody(id *uuid.UUID) uuid.UUID {
	if id == nil {
		return uuid.Nil
	}
	return *id
}
