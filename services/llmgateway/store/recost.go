package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/store/db"
)

// Priced is a settled request whose cost follows from counts, or should.
type Priced struct {
	Key             Key
	TryNo           int32
	Provider, Model string
	SentAt          time.Time
	// Usage has the tier that was billed.
	Usage price.Usage
	Cost  money.Pico
	Basis Basis
}

// ListPriced returns up to most requests that were sent from one time to before another, after the one given, in the order of
// their keys.
func (s *Store) ListPriced(ctx context.Context, from, to time.Time, after Priced, most int) ([]Priced, error) {
	rows, err := db.New(s.pool).ListPriced(ctx, db.ListPricedParams{
		AfterRun: after.Key.RunID, AfterKey: after.Key.Digest[:], AfterTry: after.TryNo, FromTime: from, ToTime: to, Most: int32(most),
	})
	if err != nil {
		return nil, fmt.Errorf("list priced requests: %w", pg.Fault(err))
	}
	list := make([]Priced, len(rows))
	for i, r := range rows {
		list[i] = Priced{
			Key: Key{RunID: r.RunID, Digest: [32]byte(r.CallKey)}, TryNo: r.TryNo, Provider: r.Provider, Model: r.Model,
			SentAt: r.SentAt, Cost: r.Cost, Basis: Basis(r.CostBasis),
			Usage: price.Usage{
				Input: r.InputTokens, CachedInput: r.CachedInputTokens, CacheWrite: r.CacheWriteTokens, CacheWrite1h: r.CacheWrite1hTokens,
				Output: r.OutputTokens, Reasoning: r.ReasoningTokens, Tier: price.Tier(r.Tier),
			},
		}
		if list[i].Usage.Tools, err = readToolCalls(r.ToolCalls); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func readToolCalls(raw []byte) (calls price.ToolCalls, err error) {
	counts := map[string]int64{}
	if err := json.Unmarshal(raw, &counts); err != nil {
		return calls, fmt.Errorf("stored tool calls: %w", err)
	}
	for name, n := range counts {
		tool, ok := price.ParseTool(name)
		if !ok {
			return calls, fmt.Errorf("the tool %q of a stored request is not known to this build", name)
		}
		calls[tool] = n
	}
	return calls, nil
}

// Recosting names one application of new prices, for the journal.
type Recosting struct {
	ID uuid.UUID
	// From and To are the first day and the day after the last one.
	From, To time.Time
}

// Recost corrects what a settled request has cost, everywhere: in the log, the run's purse, the day and the budgets' sums, and
// writes it into the journal. It changes nothing if the request is not as it was seen.
type Recost struct {
	Of   Recosting
	Seen Priced
	Bill price.Bill

	// Done is whether it was corrected.
	Done bool
}

func (r *Recost) key() Key         { return r.Seen.Key }
func (r *Recost) purse() *newPurse { return nil }
func (r *Recost) size() int        { return 0 }

func (r *Recost) apply(g *group) {
	r.Done = false
	p, c := g.purses[r.Seen.Key.RunID], g.calls[r.Seen.Key]
	if p == nil || c == nil {
		return
	}
	for _, t := range c.tries {
		if t.no == r.Seen.TryNo && t.state != TryInFlight && t.cost == r.Seen.Cost && t.basis == r.Seen.Basis {
			g.recost(p, c, t, r)
			r.Done = true
		}
	}
}

// recost books the correction on the day on which the request was settled.
func (g *group) recost(p *purse, c *call, t *try, r *Recost) {
	o := Outcome{State: t.state, Basis: t.basis, Usage: t.usage, Cost: r.Bill.Total}
	if o.Basis == Unpriced {
		o.Basis = Counted
	}
	at := t.settledAt
	g.bookings.book(at, p, c, t, o)
	p.settle(t, o.Cost)
	c.cost += o.Cost - t.cost
	t.cost, c.changed = o.Cost, true
	g.recosted = append(g.recosted, recosted{r, o.Basis})
}

type recosted struct {
	change *Recost
	basis  Basis
}

func (g *group) writeRecosts(ctx context.Context) error {
	if len(g.recosted) == 0 {
		return nil
	}
	var rows db.RecostTriesParams
	type name struct{ provider, model string }
	journal := map[Recosting]map[name]*db.PutRecostsParams{}
	for _, r := range g.recosted {
		seen, bill := r.change.Seen, r.change.Bill
		rows.RunIds, rows.CallKeys = append(rows.RunIds, seen.Key.RunID), append(rows.CallKeys, seen.Key.Digest[:])
		rows.TryNos, rows.Costs = append(rows.TryNos, seen.TryNo), append(rows.Costs, bill.Total)
		rows.CostBases, rows.PriceIds = append(rows.CostBases, string(r.basis)), append(rows.PriceIds, bill.RowID)
		rows.Tiers, rows.CostSplits = append(rows.Tiers, string(bill.Tier)), append(rows.CostSplits, split(bill.Split))
		of := r.change.Of
		if journal[of] == nil {
			journal[of] = map[name]*db.PutRecostsParams{}
		}
		n := name{seen.Provider, seen.Model}
		if journal[of][n] == nil {
			journal[of][n] = &db.PutRecostsParams{
				ID: of.ID, Now: g.now, FromDay: date(of.From), ToDay: date(of.To), Providers: []string{seen.Provider},
				Models: []string{seen.Model}, Requests: []int64{0}, Befores: []money.Pico{0}, Afters: []money.Pico{0},
			}
		}
		line := journal[of][n]
		line.Requests[0]++
		line.Befores[0] += seen.Cost
		line.Afters[0] += bill.Total
	}
	if err := g.query.RecostTries(ctx, rows); err != nil {
		return err
	}
	g.pipe.Expect(len(rows.RunIds), "correct costs")
	for _, models := range journal {
		for _, line := range models {
			if err := g.query.PutRecosts(ctx, *line); err != nil {
				return err
			}
		}
	}
	return nil
}
