// Package money counts US dollars exactly: in units of 10⁻¹² dollars, held in 64 bits, with checked arithmetic.
//
// A price per million tokens with six decimals is a whole number of units per token, so costs are never rounded. The
// largest amount is about 9.2 million dollars; beyond it, operations return ErrOverflow instead of wrapping round.
// Amounts are stored as numeric(20,12) and shown as exact decimals.
package money

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Pico is an amount of money in 10⁻¹² US dollars. It may be negative.
type Pico int64

// Dollar is one US dollar.
const Dollar Pico = 1_000_000_000_000

// decimals is how many digits after the point a Pico has.
const decimals = 12

// ErrOverflow is returned by operations whose result does not fit.
var ErrOverflow = errors.New("amount of money is out of range")

// Add returns a + b.
func (a Pico) Add(b Pico) (Pico, error) {
	sum := a + b
	if (b > 0) != (sum > a) && b != 0 {
		return 0, ErrOverflow
	}
	return sum, nil
}

// Sub returns a - b.
func (a Pico) Sub(b Pico) (Pico, error) {
	difference := a - b
	if (b > 0) != (difference < a) && b != 0 {
		return 0, ErrOverflow
	}
	return difference, nil
}

// Mul returns a × n.
func (a Pico) Mul(n int64) (Pico, error) {
	high, low := bits.Mul64(magnitude(int64(a)), magnitude(n))
	if high != 0 {
		return 0, ErrOverflow
	}
	return signed(low, (a < 0) != (n < 0))
}

// String returns the exact amount in dollars as a plain decimal, without trailing zeros: "0.000123", "-2", "0".
func (a Pico) String() string {
	digits := strconv.FormatUint(magnitude(int64(a)), 10)
	if missing := decimals + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) - decimals
	text := digits[:point]
	if fraction := strings.TrimRight(digits[point:], "0"); fraction != "" {
		text += "." + fraction
	}
	if a < 0 {
		text = "-" + text
	}
	return text
}

// Parse reads an amount in dollars, a plain decimal such as "12", "0.50" or "-0.000001". More than twelve decimals are an
// error unless they are zeros: an amount is never rounded.
func Parse(text string) (Pico, error) {
	unsigned, negative := strings.CutPrefix(text, "-")
	whole, fraction, _ := strings.Cut(unsigned, ".")
	if !isDigits(whole) || (fraction != "" && !isDigits(fraction)) || strings.HasSuffix(unsigned, ".") {
		return 0, fmt.Errorf("%q is not an amount of money: write dollars as a plain decimal such as 0.25", text)
	}
	if trimmed := strings.TrimRight(fraction, "0"); len(trimmed) > decimals {
		return 0, fmt.Errorf("amount of money %q has more than %d decimals", text, decimals)
	}
	fraction = (fraction + strings.Repeat("0", decimals))[:decimals]
	units, err := strconv.ParseUint(whole+fraction, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q: %w", text, ErrOverflow)
	}
	amount, err := signed(units, negative)
	if err != nil {
		return 0, fmt.Errorf("%q: %w", text, err)
	}
	return amount, nil
}

// MarshalText returns what String returns.
func (a Pico) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads what Parse reads.
func (a *Pico) UnmarshalText(text []byte) (err error) {
	*a, err = Parse(string(text))
	return err
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// magnitude is |n|, also for the smallest int64.
func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// signed is the amount with the magnitude and sign, if there is one.
func signed(units uint64, negative bool) (Pico, error) {
	switch {
	case negative && units <= 1<<63:
		return Pico(-units), nil
	case !negative && units <= math.MaxInt64:
		return Pico(units), nil
	default:
		return 0, ErrOverflow
	}
}
