package redact

import (
	"unicode/utf8"
)

func lastRune(text string) rune {
	r, _ := utf8.DecodeLastRuneInString(text)
	return r
}

// wordEnds reports whether a text ends within a word.
func wordEnds(text string) bool {
	r := lastRune(text)
	return r == '_' || isWordRune(r)
}

// wordBegins reports whether a text begins within a word.
func wordBegins(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return r == '_' || isWordRune(r)
}

// luhn checks the check digit of cards.
func luhn(digits string) bool {
	sum := 0
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			d *= 2
			if d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

// mod97 checks the check digits of an IBAN without white space.
func mod97(iban string) bool {
	rest := 0
	for _, c := range []byte(iban[4:] + iban[:4]) {
		if isDigit(c) {
			rest = (rest*10 + int(c-'0')) % 97
		} else {
			rest = (rest*100 + int(c-'A') + 10) % 97
		}
	}
	return rest == 1
}

// weighed is the sum of the digits times their weights.
func weighed(digits string, weights ...int) int {
	sum := 0
	for i, w := range weights {
		sum += int(digits[i]-'0') * w
	}
	return sum
}

// isINN checks the check digits of a taxpayer's number of 10 (companies) or 12 digits (persons).
func isINN(digits string) bool {
	check := func(at int, weights ...int) bool { return weighed(digits, weights...)%11%10 == int(digits[at]-'0') }
	switch len(digits) {
	case 10:
		return check(9, 2, 4, 10, 3, 5, 9, 4, 6, 8)
	case 12:
		return check(10, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8) && check(11, 3, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8)
	default:
		return false
	}
}

// isSNILS checks the check digits of an insurance number of 11 digits.
func isSNILS(digits string) bool {
	check := weighed(digits, 9, 8, 7, 6, 5, 4, 3, 2, 1) % 101 % 100
	return check == int(digits[9]-'0')*10+int(digits[10]-'0')
}
