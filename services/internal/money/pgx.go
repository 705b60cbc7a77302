package money

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/jackc/pgx/v5/pgtype"
)

// NumericValue makes a Pico a parameter of type numeric. pgx calls it.
func (a Pico) NumericValue() (pgtype.Numeric, error) {
	return pgtype.Numeric{Int: big.NewInt(int64(a)), Exp: -decimals, Valid: true}, nil
}

// ScanNumeric reads a column of type numeric. pgx calls it. Scan a column that may be NULL into a *Pico.
func (a *Pico) ScanNumeric(n pgtype.Numeric) error {
	if !n.Valid || n.NaN || n.InfinityModifier != pgtype.Finite {
		return errors.New("cannot scan NULL, NaN or infinity into an amount of money")
	}
	units, err := shift(n.Int, n.Exp+decimals)
	if err != nil {
		return err
	}
	*a = units
	return nil
}

// shift returns n × 10^exp as an amount.
func shift(n *big.Int, exp int32) (Pico, error) {
	if n.Sign() == 0 {
		return 0, nil
	}
	const most = 3 * decimals // beyond it no amount other than 0 can come out, and powers of ten would be vast
	if exp > most || exp < -most {
		return 0, ErrOverflow
	}
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exp, -exp))), nil)
	result, rest := new(big.Int), new(big.Int)
	if exp >= 0 {
		result.Mul(n, power)
	} else {
		result.QuoRem(n, power, rest)
	}
	switch {
	case rest.Sign() != 0:
		return 0, fmt.Errorf("amount of money has more than %d decimals", decimals)
	case !result.IsInt64():
		return 0, ErrOverflow
	default:
		return Pico(result.Int64()), nil
	}
}
