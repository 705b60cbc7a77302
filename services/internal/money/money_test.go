package money_test

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pawl.internal/services/internal/money"
)

func TestTextForm(t *testing.T) {
	t.Parallel()
	for amount, text := range map[money.Pico]string{
		0:                              "0",
		1:                              "0.000000000001",
		-1:                             "-0.000000000001",
		money.Dollar:                   "1",
		-12*money.Dollar - 340_000_000: "-12.00034",
		math.MaxInt64:                  "9223372.036854775807",
		math.MinInt64:                  "-9223372.036854775808",
	} {
		require.Equal(t, text, amount.String())
		parsed, err := money.Parse(text)
		require.NoError(t, err)
		require.Equal(t, amount, parsed)
	}
}

func TestParseTakesOtherSpellingsOfTheSameAmount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]money.Pico{
		"0.50": money.Dollar / 2, "007": 7 * money.Dollar, "-0": 0, "1.0000000000000000": money.Dollar,
	} {
		got, err := money.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestParseRefusesWhatIsNoAmount(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "-", ".", "1.", ".5", "+1", "1e3", "1,5", "--1", "0x1", " 1", "NaN", "½", "1.2.3"} {
		_, err := money.Parse(text)
		require.ErrorContains(t, err, "plain decimal", text)
	}
	_, err := money.Parse("0.0000000000001")
	require.ErrorContains(t, err, "more than 12 decimals")
	for _, text := range []string{"9223372.036854775808", "-9223372.036854775809", strings.Repeat("9", 40)} {
		_, err = money.Parse(text)
		require.ErrorIs(t, err, money.ErrOverflow, text)
	}
}

func TestTextSurvivesARoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		amount := money.Pico(rapid.Int64().Draw(r, "amount"))
		text, err := amount.MarshalText()
		require.NoError(r, err)
		var back money.Pico
		require.NoError(r, back.UnmarshalText(text))
		require.Equal(r, amount, back)
		numeric, err := amount.NumericValue()
		require.NoError(r, err)
		require.NoError(r, back.ScanNumeric(numeric))
		require.Equal(r, amount, back)
	})
}

func TestArithmeticIsExactOrRefuses(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		a := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-1000, 1000)).Draw(r, "a")
		b := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-1000, 1000)).Draw(r, "b")
		check := func(want *big.Int, got money.Pico, err error) {
			if want.IsInt64() {
				require.NoError(r, err)
				require.Equal(r, want.Int64(), int64(got))
			} else {
				require.ErrorIs(r, err, money.ErrOverflow)
			}
		}
		x, y := big.NewInt(a), big.NewInt(b)
		sum, err := money.Pico(a).Add(money.Pico(b))
		check(new(big.Int).Add(x, y), sum, err)
		difference, err := money.Pico(a).Sub(money.Pico(b))
		check(new(big.Int).Sub(x, y), difference, err)
		product, err := money.Pico(a).Mul(b)
		check(new(big.Int).Mul(x, y), product, err)
	})
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"0", "-1.5", "9223372.036854775807", "0.000000000001", "1e9", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		amount, err := money.Parse(text)
		if err != nil {
			return
		}
		again, err := money.Parse(amount.String())
		require.NoError(t, err)
		require.Equal(t, amount, again)
	})
}
