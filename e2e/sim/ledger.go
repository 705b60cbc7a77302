package sim

import (
	"slices"
	"time"

	"pawl.internal/services/orchestrator/machine"
)

// ledger is the schema llm of PostgreSQL (llmgateway/store): calls with their requests, purses, leases of gateways.
type ledger struct {
	s      *Sim
	purses map[int]*purse
	calls  map[callKey]*callRow
	order  []*callRow
	// replicas are the leases of gateways, by holder.
	replicas []*replicaRow
	// cancelled are the rows of llm.cancelled_step.
	cancelled map[cancelledStep]time.Duration
	// owed are the rows of llm.spend_owed: versions that the orchestrator is to be told, and since when.
	owed map[int]owedSpend
}

// callKey stands for the digest: run, step, shard, generation and number of the ask. The request follows from these.
type callKey struct{ run, step, shard, generation, ask int }

type cancelledStep struct{ run, step, generation int }

type owedSpend struct {
	version int64
	since   time.Duration
}

type replicaRow struct {
	holder machine.ID
	until  time.Duration
}

// purse is a row of llm.run_spend. A budget of 0 is none.
type purse struct {
	budget, reserved, spent, version int64
	epoch                            int
	closed                           bool
	closedAt                         time.Duration
}

type callRow struct {
	key     callKey
	tries   []*try
	winning int
	cost    int64
}

type tryState string

const (
	tryInFlight  tryState = "in_flight"
	tryAnswered  tryState = "answered"
	tryFailed    tryState = "failed"
	tryAmbiguous tryState = "ambiguous"
	tryCancelled tryState = "cancelled"
	tryNotSent   tryState = "not_sent"
)

type try struct {
	no             int
	target         int
	holder         machine.ID
	state          tryState
	reserved, cost int64
	// good says that the answer can be used.
	good    bool
	epoch   int
	begunAt time.Duration
}

func newLedger(s *Sim) *ledger {
	return &ledger{
		s: s, purses: map[int]*purse{}, calls: map[callKey]*callRow{}, cancelled: map[cancelledStep]time.Duration{},
		owed: map[int]owedSpend{},
	}
}

// purse returns the run's, making it if there is none.
func (l *ledger) purse(run int, budget int64, epoch int) *purse {
	if l.purses[run] == nil {
		l.purses[run] = &purse{budget: budget, epoch: epoch}
	}
	return l.purses[run]
}

// advance opens the purse anew for a later epoch.
func (p *purse) advance(epoch int, budget int64) {
	if epoch > p.epoch {
		p.epoch, p.budget, p.closed = epoch, budget, false
	}
}

func (p *purse) affords(amount int64) bool {
	return p.budget == 0 || p.spent+p.reserved+amount <= p.budget
}

// callState is derived from the requests.
func (c *callRow) state() tryState {
	if c.winning != 0 {
		return tryAnswered
	}
	last := tryFailed
	for _, t := range c.tries {
		switch t.state {
		case tryInFlight:
			return tryInFlight
		case tryAmbiguous, tryCancelled:
			last = t.state
		default:
			last = tryFailed
		}
	}
	return last
}

// taken reports whether the call needs no request of the holder's.
func (c *callRow) taken(holder machine.ID) bool {
	return c.winning != 0 || slices.ContainsFunc(c.tries, func(t *try) bool {
		return t.state == tryInFlight && t.holder != holder
	})
}

func (c *callRow) ambiguous() (n int) {
	for _, t := range c.tries {
		if t.state == tryAmbiguous {
			n++
		}
	}
	return n
}

// countAmbiguous counts the requests of unknown fate over all questions of a generation of a step or shard.
func (l *ledger) countAmbiguous(key callKey) (n int) {
	for _, c := range l.order {
		same := c.key
		same.ask = key.ask
		if same == key {
			n += c.ambiguous()
		}
	}
	return n
}

type verdict int

const (
	admitted verdict = iota + 1
	taken
	unclear
	overBudget
	closedPurse
)

// beginTry takes a call's key for one request, reserves its worst case, and records it as in flight.
type beginTry struct {
	key         callKey
	holder      machine.ID
	target      int
	worst       int64
	budget      int64
	epoch       int
	ambiguousOK int

	verdict verdict
	tryNo   int
}

func (l *ledger) begin(b *beginTry) {
	p := l.purse(b.key.run, b.budget, b.epoch)
	p.advance(b.epoch, b.budget)
	c := l.calls[b.key]
	switch {
	case l.s.guard(GuardPurseClosed) && (b.epoch < p.epoch || p.closed):
		b.verdict = closedPurse
	case l.s.guard(GuardCallKey) && c != nil && c.taken(b.holder):
		b.verdict = taken
	case l.s.guard(GuardAmbiguousCount) && c != nil && c.ambiguous() > b.ambiguousOK:
		b.verdict = unclear
	case l.s.guard(GuardBudget) && !p.affords(b.worst):
		b.verdict = overBudget
	default:
		l.admit(b, p, c)
	}
}

func (l *ledger) admit(b *beginTry, p *purse, c *callRow) {
	if c == nil {
		c = &callRow{key: b.key}
		l.calls[b.key] = c
		l.order = append(l.order, c)
	}
	for _, t := range c.tries {
		if t.state == tryInFlight && l.s.guard(GuardCallKey) {
			// Of our own: recorded by a commit whose fate we did not learn.
			l.settleTry(p, c, t, settlement{state: tryNotSent})
		}
	}
	t := &try{
		no: len(c.tries) + 1, target: b.target, holder: b.holder, state: tryInFlight, reserved: b.worst, epoch: b.epoch,
		begunAt: l.s.now,
	}
	c.tries = append(c.tries, t)
	p.reserved += b.worst
	b.verdict, b.tryNo = admitted, t.no
	l.s.oracle.purse(b.key.run)
}

// settlement is what came of a request.
type settlement struct {
	state tryState
	cost  int64
	// worstCase books what was reserved, whatever cost says.
	worstCase bool
	good      bool
}

// settleCall stores what came of a request: of a number, or with 0 of whichever the holder has in flight.
type settleCall struct {
	key          callKey
	tryNo        int
	holder       machine.ID
	onlyInFlight bool
	settlement

	cost  int64
	spend spend
}

func (l *ledger) settle(c *settleCall) {
	p, row := l.purses[c.key.run], l.calls[c.key]
	if p == nil || row == nil {
		return
	}
	for _, t := range row.tries {
		mine := c.tryNo == t.no || c.tryNo == 0 && t.holder == c.holder && t.state == tryInFlight
		if mine && (!c.onlyInFlight || t.state == tryInFlight) {
			l.settleTry(p, row, t, c.settlement)
			break
		}
	}
	c.cost, c.spend = row.cost, spend{p.spent, p.version}
}

// settleTry books what a request has cost in place of what was reserved or booked for it before.
func (l *ledger) settleTry(p *purse, c *callRow, t *try, o settlement) {
	if o.worstCase {
		o.cost = t.reserved + t.cost // one of them is 0
	}
	if l.s.guard(GuardReserveReturned) {
		p.reserved -= t.reserved
	}
	if o.cost != t.cost {
		p.spent += o.cost - t.cost
		p.version++
		l.owed[c.key.run] = owedSpend{version: p.version, since: l.s.now}
	}
	c.cost += o.cost - t.cost
	if t.state == tryAmbiguous && o.state == tryAnswered {
		l.s.seen.count(SeenLateAnswer)
	}
	t.state, t.reserved, t.cost, t.good = o.state, 0, o.cost, o.good
	if o.state == tryAnswered && c.winning == 0 {
		c.winning = t.no
	}
	l.s.oracle.settled(c, t)
}

// setGate opens or closes a run's purse.
func (l *ledger) setGate(run int, g gate) {
	p := l.purse(run, g.budget, g.epoch)
	if l.s.guard(GuardSpendEpoch) || g.open {
		p.advance(g.epoch, g.budget)
	}
	current := g.epoch == p.epoch || !l.s.guard(GuardSpendEpoch)
	if current && !g.open && !p.closed {
		p.closed, p.closedAt = true, l.s.now
	}
}

// renew is the statement RenewLease.
func (l *ledger) renew(holder machine.ID) {
	for _, r := range l.replicas {
		if r.holder == holder {
			r.until = l.s.now + lease
			return
		}
	}
	l.replicas = append(l.replicas, &replicaRow{holder, l.s.now + lease})
}

func (l *ledger) endLease(holder machine.ID) {
	l.replicas = slices.DeleteFunc(l.replicas, func(r *replicaRow) bool { return r.holder == holder })
}

// holds says whether the holder has a lease.
func (l *ledger) holds(holder machine.ID) bool {
	return slices.ContainsFunc(l.replicas, func(r *replicaRow) bool { return r.holder == holder && r.until > l.s.now })
}

// others counts the other living gateways.
func (l *ledger) others(holder machine.ID) (n int) {
	for _, r := range l.replicas {
		if r.holder != holder && r.until > l.s.now {
			n++
		}
	}
	return n
}

// orphans is the query FindOrphans.
func (l *ledger) orphans() (found []*settleCall) {
	for _, c := range l.order {
		for _, t := range c.tries {
			dead := slices.ContainsFunc(l.replicas, func(r *replicaRow) bool { return r.holder == t.holder && r.until < l.s.now })
			if t.state == tryInFlight && dead {
				found = append(found, &settleCall{
					key: c.key, tryNo: t.no, onlyInFlight: true, settlement: settlement{state: tryAmbiguous, worstCase: true},
				})
			}
		}
	}
	return found
}
