package price

import (
	"fmt"
	"time"

	"pawl.internal/services/internal/money"
)

// List finds the rows that hold at a time. The zero value knows no price.
type List struct{ rows map[modelName][]Row }

type modelName struct{ provider, model string }

// NewList returns the list of the rows, in whatever order they come.
func NewList(rows []Row) List {
	l := List{rows: map[modelName][]Row{}}
	for _, r := range rows {
		name := modelName{r.Provider, r.Model}
		l.rows[name] = append(l.rows[name], r)
	}
	return l
}

// AnyModel as the model of a row makes it hold for every model of its provider that has no row of its own.
const AnyModel = "*"

// At returns what the provider's model costs at the time, on every tier and for every size of prompts; false when nothing
// is known.
func (l List) At(provider, model string, at time.Time) (Card, bool) {
	for _, name := range []string{model, AnyModel} {
		c := Card{}
		for _, r := range l.rows[modelName{provider, name}] {
			if r.holds(at) {
				c = c.with(r)
			}
		}
		if len(c.rows) > 0 {
			return c, true
		}
	}
	return Card{}, false
}

// Card is what one model costs at one time: a row for each tier and size of prompts.
type Card struct{ rows []Row }

// with returns the card with the row, unless it has a newer one for the same tier and size.
func (c Card) with(r Row) Card {
	for i, other := range c.rows {
		if other.Tier.or() == r.Tier.or() && other.AboveTokens == r.AboveTokens {
			if r.From.After(other.From) {
				c.rows[i] = r
			}
			return c
		}
	}
	c.rows = append(c.rows, r)
	return c
}

// Row returns the row of the tier for a prompt of so many tokens: of the rows whose size the prompt exceeds, the one with
// the largest. The batch tier may follow from a standard row and its factor.
func (c Card) Row(tier Tier, prompt int64) (Row, bool) {
	best, found := Row{}, false
	for _, r := range c.of(tier) {
		if (r.AboveTokens == 0 || prompt > r.AboveTokens) && (!found || r.AboveTokens > best.AboveTokens) {
			best, found = r, true
		}
	}
	return best, found
}

// of returns the rows of a tier.
func (c Card) of(tier Tier) []Row {
	var rows, derived []Row
	for _, r := range c.rows {
		switch {
		case r.Tier.or() == tier.or():
			rows = append(rows, r)
		case tier == Batch && !r.BatchFactor.IsZero():
			if b, err := r.batch(); err == nil { // Check has refused others
				derived = append(derived, b)
			}
		}
	}
	if len(rows) == 0 {
		return derived
	}
	return rows
}

// Cost is the exact cost of what was used, by the row of its tier and of the size of its prompt. Errors are those of
// Row.Cost; ErrUnpriced too when there is no such row.
func (c Card) Cost(u Usage) (Bill, error) {
	if err := u.Check(); err != nil {
		return Bill{}, err
	}
	r, ok := c.Row(u.Tier, u.Input)
	if !ok {
		return Bill{}, fmt.Errorf("a prompt of %d tokens on the tier %s: %w", u.Input, u.Tier.or(), ErrUnpriced)
	}
	return r.Cost(u)
}

// Most is the most that a request of the tier can cost which sends at most so many tokens and allows so many in return,
// whatever size its prompt turns out to have. Calls of the provider's own tools are not in it.
func (c Card) Most(tier Tier, input, output int64) (money.Pico, error) {
	var most money.Pico
	rows := c.of(tier)
	if _, ok := c.Row(tier, 0); !ok {
		return 0, fmt.Errorf("a short prompt on the tier %s: %w", tier.or(), ErrUnpriced)
	}
	for _, r := range rows {
		if r.AboveTokens >= input && r.AboveTokens > 0 {
			continue
		}
		cost, err := r.Most(input, output)
		if err != nil {
			return 0, err
		}
		most = max(most, cost)
	}
	return most, nil
}
