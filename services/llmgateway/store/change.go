package store

import (
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/llmgateway/price"
)

// Key names a call: its run, and the digest of everything that makes it the same question.
type Key struct {
	RunID  uuid.UUID
	Digest [32]byte
}

// Spend is what a run has spent, and that figure's version.
type Spend struct {
	Amount  money.Pico
	Version int64
}

// Change is something that is to happen to a run's calls. Changes are submitted to a Store, which carries them out in
// groups; a change carries its own result.
type Change interface {
	// key is the run, and the call if one is concerned; else the digest is zero.
	key() Key
	// purse is what the run's purse is made with if there is none; nil for changes that need one to be there.
	purse() *newPurse
	// size is about how many bytes it writes.
	size() int
	// apply carries it out in memory. It may be called again, on other rows.
	apply(g *group)
}

type newPurse struct {
	tenant string
	budget *money.Pico
	epoch  int32
	batch  uuid.UUID
	// outside: it is not a run's.
	outside bool
}

// lane sorts changes of one run into one lane: they lock the same row.
func lane(c Change) uint64 {
	id := c.key().RunID
	return binary.BigEndian.Uint64(id[8:])
}

// Question is what is stored of a call when it is first asked.
type Question struct {
	Tenant, Step           string
	Shard, Generation, Ask int32
	// Class is "interactive" or "batch".
	Class         string
	PromptVersion string
	// Origin is who asks, for the statistics: a pipeline as name:version, or an endpoint.
	Origin string
	// Request is what is kept of it, as JSON.
	Request []byte
}

// Sending is what is stored of a request before it is sent.
type Sending struct {
	Provider, Model, Format, KeyID string
	MaxOutputTokens, PriceID       int64
	// PriceID is the row that is likely to be billed by; 0 when no price is known.
	// WorstCase is reserved in the run's purse.
	WorstCase  money.Pico
	Holder     uuid.UUID
	PermitWait time.Duration
}

// Verdict is the answer to a Begin.
type Verdict int

// The verdicts. Only after Admitted may anything be sent.
const (
	// Admitted: the request is recorded; the key is the caller's.
	Admitted Verdict = iota + 1
	// Taken: the call is answered, or another holder has a request in flight.
	Taken
	// Unclear: more requests of unknown fate than allowed.
	Unclear
	// OverBudget: the worst case does not fit into what is left of the budget.
	OverBudget
	// Closed: the run's purse is closed, or was opened anew since the caller's epoch.
	Closed
)

// Begin takes a call's key for one request, reserves its worst case, and records it as in flight.
type Begin struct {
	Key      Key
	Question Question
	Sending  Sending
	// AmbiguousOK is how many requests of unknown fate are no hindrance.
	AmbiguousOK int32
	// Budget and Epoch are the run's.
	Budget *money.Pico
	Epoch  int32
	// Item is set for a request that goes to the economy lane; its holder is LaneHolder.
	Item *Item
	// Batch is the run's; zero for none.
	Batch uuid.UUID
	// Outside: the call belongs to no run, so nobody is told what was spent.
	Outside bool

	// Verdict and TryNo are the result.
	Verdict Verdict
	TryNo   int32
}

func (b *Begin) key() Key { return b.Key }
func (b *Begin) purse() *newPurse {
	return &newPurse{tenant: b.Question.Tenant, budget: b.Budget, epoch: b.Epoch, batch: b.Batch, outside: b.Outside}
}

func (b *Begin) size() int {
	if b.Item != nil {
		return len(b.Question.Request) + len(b.Item.Body)
	}
	return len(b.Question.Request)
}

func (b *Begin) apply(g *group) {
	p := g.purses[b.Key.RunID]
	p.advance(b.Epoch, b.Budget)
	p.joinBatch(b.Batch)
	c := g.calls[b.Key]
	switch {
	case b.Epoch < p.epoch || !p.closedAt.IsZero():
		b.Verdict = Closed
	case c != nil && (c.taken(b.Sending.Holder) || b.Item != nil && c.inFlight()):
		b.Verdict = Taken
	case c != nil && c.ambiguous() > b.AmbiguousOK:
		b.Verdict = Unclear
	case !p.affords(b.Sending.WorstCase):
		b.Verdict = OverBudget
	default:
		b.admit(g, p, c)
	}
}

func (b *Begin) admit(g *group, p *purse, c *call) {
	if c == nil {
		c = g.newCall(b)
	}
	for _, t := range c.tries {
		// A request of our own that is in flight here was recorded by a commit whose fate we did not learn: had it been
		// sent, its call would still be held in memory, and joined there.
		if t.state == TryInFlight {
			g.settle(p, c, t, Outcome{State: TryNotSent})
		}
	}
	t := &try{
		no: int32(len(c.tries)) + 1, holder: b.Sending.Holder, state: TryInFlight, reserved: b.Sending.WorstCase, begun: b,
		provider: b.Sending.Provider, model: b.Sending.Model,
	}
	c.tries = append(c.tries, t)
	g.newTries = append(g.newTries, t)
	p.reserved += b.Sending.WorstCase
	p.changed = true
	g.touch(c)
	b.Verdict, b.TryNo = Admitted, t.no
}

// Outcome is what came of a request.
type Outcome struct {
	State                                    TryState
	HTTPStatus                               int
	Reason, Message, FinishReason, RequestID string
	// Body is what came back; nil for nothing.
	Body    []byte
	Usage   price.Usage
	Cost    money.Pico
	Basis   Basis
	Latency time.Duration
	// FirstByte is the time to the first byte of the answer; 0 when none came.
	FirstByte time.Duration
	// PriceID, Tier and Split say what Cost follows from; they are zero when it follows from no counts.
	PriceID int64
	Tier    price.Tier
	Split   price.Split
}

// Settle stores what came of a request, and books its cost in place of the worst case. A cost of WorstCase or Unpriced is
// what was reserved, whatever Outcome.Cost says. The answer of a call that has one already is kept with its request only.
type Settle struct {
	Key Key
	// TryNo is the request; 0 for whichever one Holder has in flight, if any.
	TryNo  int32
	Holder uuid.UUID
	// OnlyInFlight leaves alone what was settled before.
	OnlyInFlight bool
	Outcome      Outcome

	// Found is whether there was such a request, and Booked its cost. Cost is the call's, and Spend the run's.
	Found  bool
	Booked money.Pico
	Cost   money.Pico
	Spend  Spend
}

func (s *Settle) key() Key         { return s.Key }
func (s *Settle) purse() *newPurse { return nil }
func (s *Settle) size() int        { return len(s.Outcome.Body) }

func (s *Settle) apply(g *group) {
	s.Found = false
	p, c := g.purses[s.Key.RunID], g.calls[s.Key]
	if p == nil || c == nil {
		return
	}
	if t := s.find(c); t != nil {
		g.settle(p, c, t, s.Outcome)
		s.Found, s.Booked = true, t.cost
	}
	s.Cost, s.Spend = c.cost, p.spend()
}

func (s *Settle) find(c *call) *try {
	for _, t := range c.tries {
		mine := s.TryNo == t.no || s.TryNo == 0 && t.holder == s.Holder && t.state == TryInFlight
		if mine && (!s.OnlyInFlight || t.state == TryInFlight) {
			return t
		}
	}
	return nil
}

// Replay counts that a stored answer was used again.
type Replay struct{ Key Key }

func (r *Replay) key() Key         { return r.Key }
func (r *Replay) purse() *newPurse { return nil }
func (r *Replay) size() int        { return 0 }

func (r *Replay) apply(g *group) {
	if c := g.calls[r.Key]; c != nil {
		c.replays++
		g.touch(c)
	}
}

// Gate opens or closes a run's purse. An older epoch than the stored one changes nothing, nor does opening a purse that was
// closed in the same epoch: the closing came after.
type Gate struct {
	RunID  uuid.UUID
	Tenant string
	Epoch  int32
	Open   bool
	Budget *money.Pico
}

func (w *Gate) key() Key { return Key{RunID: w.RunID} }
func (w *Gate) purse() *newPurse {
	return &newPurse{tenant: w.Tenant, budget: w.Budget, epoch: w.Epoch}
}
func (w *Gate) size() int { return 0 }

func (w *Gate) apply(g *group) {
	p := g.purses[w.RunID]
	p.advance(w.Epoch, w.Budget)
	if w.Epoch == p.epoch && !w.Open && p.closedAt.IsZero() {
		p.closedAt, p.changed = g.now, true
	}
}
