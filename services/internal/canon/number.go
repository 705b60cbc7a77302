package canon

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	// maxDigits bounds the significant digits of a number; a float64 has 17, a decimal128 34.
	maxDigits = 400
	// minExponent is just below the smallest float64 above zero, 5e-324.
	minExponent = -330
)

// Number gives the canonical form of a JSON number: the form of RFC 8785 (that is, of JavaScript) of its exact decimal
// value. Where the value fits a float64 that is RFC 8785 to the letter; a value with more digits keeps them all.
func Number(literal string) (string, error) {
	_, err := strconv.ParseFloat(literal, 64)
	if errors.Is(err, strconv.ErrRange) {
		return "", fmt.Errorf("the number %s is out of range", shorten(literal))
	}
	if err != nil || literal[0] == '+' || strings.Trim(literal, "0123456789+-.eE") != "" {
		return "", fmt.Errorf("%s is not a number", shorten(literal))
	}
	digits, point := decimal(strings.TrimPrefix(literal, "-"))
	if digits == "" {
		return "0", nil
	}
	if len(digits) > maxDigits {
		return "", fmt.Errorf("the number %s has more than %d digits", shorten(literal), maxDigits)
	}
	if point < minExponent {
		return "", fmt.Errorf("the number %s is out of range", shorten(literal))
	}
	text := format(digits, point)
	if literal[0] == '-' {
		return "-" + text, nil
	}
	return text, nil
}

// decimal splits an unsigned literal into its significant digits and the place of the point: the value is
// 0.digits × 10^point. Zero has no digits.
func decimal(literal string) (digits string, point int) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(literal), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all := whole + fraction
	digits = strings.TrimLeft(all, "0")
	shift, err := strconv.Atoi(strings.TrimPrefix(exponent, "+"))
	if err != nil && exponent != "" {
		shift = 2 * minExponent // below the range: above it ParseFloat has refused
	}
	point = len(whole) - (len(all) - len(digits)) + shift
	return strings.TrimRight(digits, "0"), point
}

// format writes 0.digits × 10^point as JavaScript does.
func format(digits string, point int) string {
	switch n := len(digits); {
	case n <= point && point <= 21:
		return digits + strings.Repeat("0", point-n)
	case 0 < point && point <= 21:
		return digits[:point] + "." + digits[point:]
	case -6 < point && point <= 0:
		return "0." + strings.Repeat("0", -point) + digits
	case n == 1:
		return fmt.Sprintf("%se%+d", digits, point-1)
	default:
		return fmt.Sprintf("%s.%se%+d", digits[:1], digits[1:], point-1)
	}
}

// shorten keeps a message readable when the number in it is not.
func shorten(literal string) string {
	if len(literal) > 40 {
		return literal[:40] + "…"
	}
	return literal
}
