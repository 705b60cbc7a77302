package money_test

import (
	"math/big"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/money"
)

func TestScanNumeric(t *testing.T) {
	t.Parallel()
	number := func(n string, exp int32) pgtype.Numeric {
		i, ok := new(big.Int).SetString(n, 10)
		require.True(t, ok)
		return pgtype.Numeric{Int: i, Exp: exp, Valid: true}
	}
	for _, c := range []struct {
		from  pgtype.Numeric
		want  money.Pico
		wrong string
	}{
		{from: number("15", -1), want: 3 * money.Dollar / 2},
		{from: number("2", 3), want: 2000 * money.Dollar},
		{from: number("-100", -14), want: -1},
		{from: number("0", 1000), want: 0},
		{from: number("1", -13), wrong: "more than 12 decimals"},
		{from: number("1", 7), wrong: money.ErrOverflow.Error()},
		{from: number("1", 100_000), wrong: money.ErrOverflow.Error()},
		{from: number("1", -100_000), wrong: money.ErrOverflow.Error()},
		{from: pgtype.Numeric{}, wrong: "NULL"},
		{from: pgtype.Numeric{Valid: true, NaN: true}, wrong: "NaN"},
		{from: pgtype.Numeric{Valid: true, InfinityModifier: pgtype.Infinity}, wrong: "infinity"},
	} {
		var got money.Pico
		err := got.ScanNumeric(c.from)
		if c.wrong != "" {
			require.ErrorContains(t, err, c.wrong)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}
