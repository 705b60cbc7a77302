package extract

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// sum is an amount of money in a sentence.
type sum struct {
	place
	amount   string // decimal, without trailing zeros
	currency string // ISO 4217
}

// A currency is written as a sign or a code before the number, or as a word or a code after it.
const (
	figures = `\d{1,3}(?:[ \x{00a0}\x{202f},.’']\d{3})+(?:[.,]\d{1,2})?|\d+(?:[.,]\d{1,2})?`
	scales  = `(?:\s*(млн|тыс|million|thousand)\.?)?`
	codes   = `RUB|USD|EUR|GBP|CHF|CNY`
	names   = `российск\p{L}+ рубл\p{L}+|рубл\p{L}+|руб\.?|₽|евро|доллар\p{L}*(?: США)?|фунт\p{L}* стерлингов|тенге|юан\p{L}+|` +
		`us dollars?|dollars?|euros?|pounds?(?: sterling)?|roubles?|rubles?|swiss francs?|yuan|€|\$|£`
)

var (
	moneyBefore = regexp.MustCompile(`(?i)(` + codes + `|us\$|€|\$|£|₽)\s?(` + figures + `)` + scales)
	moneyAfter  = regexp.MustCompile(`(?i)(` + figures + `)` + scales + `(?:\s*\([^)]*\))?\s*(` + codes + `|` + names + `)(?:\s+(\d{1,2})\s*коп)?`)
	wordsAfter  = regexp.MustCompile(`(?i)^(?:\s*\([^)]*\))?\s*(` + names + `)(?:\s+(\d{1,2})\s*коп)?`)
)

// sums returns the amounts of money in a sentence, in their order.
func sums(s sentence) []sum {
	if currency(s.lower) == "" {
		return nil
	}
	var found []sum
	for _, at := range moneyBefore.FindAllStringSubmatchIndex(s.text, -1) {
		found = append(found, sum{
			place{at[0], at[1]}, amount(part(s.text, at, 2), part(s.text, at, 3), ""), currency(strings.ToLower(part(s.text, at, 1))),
		})
	}
	for _, at := range moneyAfter.FindAllStringSubmatchIndex(s.text, -1) {
		found = append(found, sum{
			place{at[0], at[1]},
			amount(part(s.text, at, 1), part(s.text, at, 2), part(s.text, at, 4)), currency(strings.ToLower(part(s.text, at, 3))),
		})
	}
	if len(s.lower) == len(s.text) { // else the places in lower are not those in text
		for _, n := range inWords(s.lower) {
			if at := wordsAfter.FindStringSubmatchIndex(s.text[n.end:]); at != nil {
				rest := s.text[n.end:]
				found = append(found, sum{
					place{n.start, n.end + at[1]},
					amount(strconv.FormatInt(n.value, 10), "", part(rest, at, 2)), currency(strings.ToLower(part(rest, at, 1))),
				})
			}
		}
	}
	return inOrder(found)
}

// part returns a group of a match, "" if it took no part.
func part(s string, at []int, group int) string {
	if at[2*group] < 0 {
		return ""
	}
	return s[at[2*group]:at[2*group+1]]
}

// amount reads figures with their thousands separators, a scale word and kopecks into a decimal.
func amount(figures, scale, kopecks string) string {
	whole, fraction := figures, ""
	if i := strings.LastIndexAny(figures, ".,"); i >= 0 && len(figures)-i <= 3 {
		whole, fraction = figures[:i], figures[i+1:]
	}
	whole = strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, whole)
	if kopecks != "" && fraction == "" {
		fraction = fmt.Sprintf("%02s", kopecks)
	}
	for range zeros(scale) {
		if fraction == "" {
			whole += "0"
			continue
		}
		whole, fraction = whole+fraction[:1], fraction[1:]
	}
	whole = strings.TrimLeft(whole, "0")
	if whole == "" {
		whole = "0"
	}
	if fraction = strings.TrimRight(fraction, "0"); fraction == "" {
		return whole
	}
	return whole + "." + fraction
}

func zeros(scale string) int {
	switch strings.ToLower(scale) {
	case "млн", "million":
		return 6
	case "тыс", "thousand":
		return 3
	}
	return 0
}

// denomination is how a currency is recognised: by a part of what is written, in lower case.
type denomination struct{ sign, code string }

func denominations() [24]denomination {
	return [...]denomination{
		{"руб", "RUB"},
		{"российск", "RUB"},
		{"₽", "RUB"},
		{"rouble", "RUB"},
		{"ruble", "RUB"},
		{"евро", "EUR"},
		{"euro", "EUR"},
		{"€", "EUR"},
		{"доллар", "USD"},
		{"dollar", "USD"},
		{"$", "USD"},
		{"фунт", "GBP"},
		{"pound", "GBP"},
		{"£", "GBP"},
		{"тенге", "KZT"},
		{"юан", "CNY"},
		{"yuan", "CNY"},
		{"swiss", "CHF"},
		{"rub", "RUB"},
		{"usd", "USD"},
		{"eur", "EUR"},
		{"gbp", "GBP"},
		{"chf", "CHF"},
		{"cny", "CNY"},
	}
}

// currency returns the code of a currency in s, which is in lower case; "" if it names none.
func currency(s string) string {
	for _, d := range denominations() {
		if strings.Contains(s, d.sign) {
			return d.code
		}
	}
	return ""
}
