// Package price says what model calls cost: dated price rows, exact costs of counted tokens, and bounds for what is not
// counted yet. Everything is integer arithmetic in pico-dollars; nothing is ever rounded. The package is pure.
package price

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"pawl.internal/services/internal/money"
)

// million is the number of tokens that published prices are for.
const million = 1_000_000

// Usage counts the tokens of one request as its provider bills them.
type Usage struct {
	// Input is everything that was sent, cached parts included.
	Input int64
	// CachedInput and CacheWrite are the parts of Input that were read from, and written to, the provider's cache.
	CachedInput, CacheWrite int64
	// Output is everything that was generated, reasoning included.
	Output int64
	// Reasoning is the part of Output that was thought and not said.
	Reasoning int64
}

// Unit is a price per token.
type Unit struct{ perMillion money.Pico }

// ParseUnit reads a price in US dollars per million tokens, such as "0.05".
func ParseUnit(text string) (Unit, error) {
	amount, err := money.Parse(text)
	if err != nil {
		return Unit{}, err
	}
	if amount < 0 {
		return Unit{}, fmt.Errorf("a price cannot be negative: %s", text)
	}
	if amount%million != 0 {
		return Unit{}, fmt.Errorf("the price %s has more than six decimals, so that a token's is not a whole number of pico-dollars", text)
	}
	return Unit{perMillion: amount}, nil
}

// PerMillion is the price of a million tokens.
func (u Unit) PerMillion() money.Pico { return u.perMillion }

// IsZero reports whether it costs nothing.
func (u Unit) IsZero() bool { return u.perMillion == 0 }

// of is the price of n tokens.
func (u Unit) of(n int64) (money.Pico, error) { return (u.perMillion / million).Mul(n) }

// Row is what a model costs from a date on.
type Row struct {
	// ID is the row's key in the price table; 0 before it is stored.
	ID              int64
	Provider, Model string
	From            time.Time
	// The prices of fresh, cached and cache-writing input, and of output.
	Input, CachedInput, CacheWrite, Output Unit
}

// ErrUsage is returned for counts that no request can have.
var ErrUsage = errors.New("token counts are impossible")

// Cost is the exact cost of what was used.
func (r Row) Cost(u Usage) (money.Pico, error) {
	if err := u.Check(); err != nil {
		return 0, err
	}
	return sum(
		part{r.Input, u.Input - u.CachedInput - u.CacheWrite}, part{r.CachedInput, u.CachedInput},
		part{r.CacheWrite, u.CacheWrite}, part{r.Output, u.Output},
	)
}

// Most is the most that a request can cost which sends at most so many tokens and allows so many in return.
func (r Row) Most(input, output int64) (money.Pico, error) {
	dearest := r.Input
	for _, u := range []Unit{r.CachedInput, r.CacheWrite} {
		dearest = Unit{perMillion: max(dearest.perMillion, u.perMillion)}
	}
	return sum(part{dearest, input}, part{r.Output, output})
}

// mostTokens is more than any model reads or writes in one request.
const mostTokens = 1_000_000_000

// Check returns ErrUsage when a part is larger than its whole, or a count is negative or beyond any model.
func (u Usage) Check() error {
	negative := min(u.Input, u.CachedInput, u.CacheWrite, u.Output, u.Reasoning) < 0
	if negative || max(u.Input, u.Output) > mostTokens || u.CachedInput > u.Input-u.CacheWrite || u.Reasoning > u.Output {
		return fmt.Errorf("%w: %+v", ErrUsage, u)
	}
	return nil
}

type part struct {
	unit   Unit
	tokens int64
}

func sum(parts ...part) (money.Pico, error) {
	var total money.Pico
	for _, p := range parts {
		cost, err := p.unit.of(p.tokens)
		if err != nil {
			return 0, err
		}
		if total, err = total.Add(cost); err != nil {
			return 0, err
		}
	}
	return total, nil
}

// List finds the row that holds at a time. The zero value knows no price.
type List struct{ rows map[modelName][]Row }

type modelName struct{ provider, model string }

// NewList returns the list of the rows, in whatever order they come.
func NewList(rows []Row) List {
	l := List{rows: map[modelName][]Row{}}
	for _, r := range rows {
		name := modelName{r.Provider, r.Model}
		l.rows[name] = append(l.rows[name], r)
	}
	for _, same := range l.rows {
		slices.SortFunc(same, func(a, b Row) int { return b.From.Compare(a.From) })
	}
	return l
}

// AnyModel as the model of a row makes it hold for every model of its provider that has no row of its own.
const AnyModel = "*"

// At returns the row of the provider's model that holds at the time: the newest that does not begin after it.
func (l List) At(provider, model string, at time.Time) (Row, bool) {
	for _, name := range []string{model, AnyModel} {
		for _, r := range l.rows[modelName{provider, name}] {
			if !r.From.After(at) {
				return r, true
			}
		}
	}
	return Row{}, false
}
