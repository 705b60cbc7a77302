package price

import (
	"errors"
	"fmt"
	"math/big"

	"pawl.internal/services/internal/money"
)

// million is the number of tokens that published prices are for.
const million = 1_000_000

// Unit is a price per token, or per call of a tool. The zero value is a price that is not known.
type Unit struct {
	perMillion money.Pico
	known      bool
}

// NewUnit returns the price of which a million cost so much: what a price table has stored.
func NewUnit(perMillion money.Pico) Unit { return Unit{perMillion: perMillion, known: true} }

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
	return NewUnit(amount), nil
}

// ParseFee reads a price in US dollars per call, such as "0.01".
func ParseFee(text string) (Unit, error) {
	amount, err := money.Parse(text)
	if err != nil {
		return Unit{}, err
	}
	if amount < 0 {
		return Unit{}, fmt.Errorf("a price cannot be negative: %s", text)
	}
	perMillion, err := amount.Mul(million)
	if err != nil {
		return Unit{}, fmt.Errorf("%s for one call: %w", text, err)
	}
	return NewUnit(perMillion), nil
}

// PerMillion is the price of a million.
func (u Unit) PerMillion() money.Pico { return u.perMillion }

// Known reports whether the price is known; one that is known may be zero.
func (u Unit) Known() bool { return u.known }

// IsZero reports whether it costs nothing.
func (u Unit) IsZero() bool { return u.perMillion == 0 }

// or returns the price, or the other one if it is not known.
func (u Unit) or(other Unit) Unit {
	if u.known {
		return u
	}
	return other
}

// of is the price of n.
func (u Unit) of(n int64) (money.Pico, error) {
	if n == 0 {
		return 0, nil
	}
	if !u.known {
		return 0, ErrUnpriced
	}
	return (u.perMillion / million).Mul(n)
}

// ErrUnpriced is returned when what was used has no price.
var ErrUnpriced = errors.New("no price is known")

// Factor multiplies prices: a discount such as 0.5. The zero value is none.
type Factor struct{ pico money.Pico }

// ParseFactor reads a factor above 0 and up to 10, such as "0.5".
func ParseFactor(text string) (Factor, error) {
	const most = 10
	value, err := money.Parse(text)
	if err != nil || value <= 0 || value > most*money.Dollar {
		return Factor{}, fmt.Errorf("%q is not a factor: write a plain decimal above 0, such as 0.5", text)
	}
	return Factor{value}, nil
}

// IsZero reports whether there is no factor.
func (f Factor) IsZero() bool { return f.pico == 0 }

// String is the factor as a plain decimal.
func (f Factor) String() string { return f.pico.String() }

// Pico is the factor in units of 10⁻¹², as it is stored.
func (f Factor) Pico() money.Pico { return f.pico }

// times is the price multiplied exactly. It is an error when a token's price would not be a whole number of pico-dollars.
func (u Unit) times(f Factor) (Unit, error) {
	one, rest := new(big.Int), new(big.Int)
	one.Mul(big.NewInt(int64(u.perMillion/million)), big.NewInt(int64(f.pico)))
	one.QuoRem(one, big.NewInt(int64(money.Dollar)), rest)
	if rest.Sign() != 0 {
		return Unit{}, fmt.Errorf("%s per million times %s is not a whole number of pico-dollars for one: give those prices in a row of their own",
			u.perMillion, f)
	}
	one.Mul(one, big.NewInt(million))
	if !one.IsInt64() {
		return Unit{}, money.ErrOverflow
	}
	return Unit{perMillion: money.Pico(one.Int64()), known: u.known}, nil
}
