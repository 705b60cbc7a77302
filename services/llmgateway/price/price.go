package price

import (
	"fmt"
	"time"

	"pawl.internal/services/internal/money"
)

// Row is what a model costs, from a date on, on a tier, for prompts above a size.
type Row struct {
	// ID is the row's key in the price table; 0 before it is stored.
	ID              int64
	Provider, Model string
	// From is when it begins to hold, and To when it no longer does; zero for no end.
	From, To time.Time
	// Tier is the service tier; empty for Standard.
	Tier Tier
	// AboveTokens makes it hold for prompts of more tokens than this, cached ones included.
	AboveTokens int64
	// The prices of fresh, cached and cache-writing input, and of output.
	Input, CachedInput, CacheWrite, Output Unit
	// CacheWrite1h is the price of input that is cached for an hour. What has it and no price for it is unpriced.
	CacheWrite1h Unit
	// Reasoning is the price of thoughts where they are billed apart; where it is not known they cost what output does.
	Reasoning Unit
	// Tools are the prices of calls of the provider's own tools. Calls of those without a price are unpriced.
	Tools [numTools]Unit
	// BatchFactor gives the prices of the batch tier, if that has no row of its own; none if there is no such tier.
	BatchFactor Factor
}

// FreeOfCharge returns the row with every price known to be nothing.
func (r Row) FreeOfCharge() Row {
	for _, u := range r.units() {
		*u = NewUnit(0)
	}
	return r
}

// units lists all prices of the row.
func (r *Row) units() []*Unit {
	all := []*Unit{&r.Input, &r.CachedInput, &r.CacheWrite, &r.CacheWrite1h, &r.Output, &r.Reasoning}
	for i := range r.Tools {
		all = append(all, &r.Tools[i])
	}
	return all
}

// Check returns why the row cannot be billed by: prices that the batch factor does not divide into whole pico-dollars, or an
// end before its beginning.
func (r Row) Check() error {
	if !r.To.IsZero() && !r.To.After(r.From) {
		return fmt.Errorf("it ends at %s and begins at %s", r.To.Format(time.RFC3339), r.From.Format(time.RFC3339))
	}
	if !r.BatchFactor.IsZero() && r.Tier.or() != Standard {
		return fmt.Errorf("a batch factor is for rows of the tier %s, and this one's is %s", Standard, r.Tier)
	}
	_, err := r.batch()
	return err
}

// batch returns the row of the batch tier that follows from the factor.
func (r Row) batch() (Row, error) {
	if r.BatchFactor.IsZero() {
		return r, nil
	}
	for _, u := range r.units() {
		scaled, err := u.times(r.BatchFactor)
		if err != nil {
			return Row{}, err
		}
		*u = scaled
	}
	r.Tier, r.BatchFactor = Batch, Factor{}
	return r, nil
}

// holds reports whether the row is valid at the time.
func (r Row) holds(at time.Time) bool {
	return !r.From.After(at) && (r.To.IsZero() || at.Before(r.To))
}

// Split is a cost by what it was paid for.
type Split struct {
	Input, CachedInput, CacheWrite, CacheWrite1h, Output, Reasoning, Tools money.Pico
}

// Total is the sum.
func (s Split) Total() (money.Pico, error) {
	var total money.Pico
	for _, part := range []money.Pico{s.Input, s.CachedInput, s.CacheWrite, s.CacheWrite1h, s.Output, s.Reasoning, s.Tools} {
		var err error
		if total, err = total.Add(part); err != nil {
			return 0, err
		}
	}
	return total, nil
}

// Bill is what a request has cost, and why.
type Bill struct {
	// RowID is the price row, and Tier the tier that was billed.
	RowID int64
	Tier  Tier
	Split Split
	Total money.Pico
}

// Cost is the exact cost of what was used, by this row. It returns ErrUsage for impossible counts, ErrUnpriced when there is
// no price for something that was used, and money.ErrOverflow.
func (r Row) Cost(u Usage) (Bill, error) {
	if err := u.Check(); err != nil {
		return Bill{}, err
	}
	said := u.Output - u.Reasoning
	b := Bill{RowID: r.ID, Tier: r.Tier.or()}
	parts := []part{
		{"input", &b.Split.Input, r.Input, u.Fresh()},
		{"cached_input", &b.Split.CachedInput, r.CachedInput, u.CachedInput},
		{"cache_write", &b.Split.CacheWrite, r.CacheWrite, u.CacheWrite},
		{"cache_write_1h", &b.Split.CacheWrite1h, r.CacheWrite1h, u.CacheWrite1h},
		{"output", &b.Split.Output, r.Output, said},
		{"reasoning", &b.Split.Reasoning, r.Reasoning.or(r.Output), u.Reasoning},
	}
	for _, tool := range Tools() {
		parts = append(parts, part{tool.String(), &b.Split.Tools, r.Tools[tool], u.Tools[tool]})
	}
	for _, p := range parts {
		cost, err := p.unit.of(p.count)
		if err != nil {
			return Bill{}, fmt.Errorf("%d of %s of %s/%s: %w", p.count, p.name, r.Provider, r.Model, err)
		}
		if *p.to, err = p.to.Add(cost); err != nil {
			return Bill{}, err
		}
	}
	var err error
	b.Total, err = b.Split.Total()
	return b, err
}

// part is one line of a bill.
type part struct {
	name  string
	to    *money.Pico
	unit  Unit
	count int64
}

// Most is the most that a request can cost by this row which sends at most so many tokens and allows so many in return.
func (r Row) Most(input, output int64) (money.Pico, error) {
	in, err := dearest(r.Input, r.CachedInput, r.CacheWrite, r.CacheWrite1h).of(input)
	if err != nil {
		return 0, err
	}
	out, err := dearest(r.Output, r.Reasoning).of(output)
	if err != nil {
		return 0, err
	}
	return in.Add(out)
}

func dearest(units ...Unit) Unit {
	var most Unit
	for _, u := range units {
		if u.known && (!most.known || u.perMillion > most.perMillion) {
			most = u
		}
	}
	return most
}
