// Package redact finds personal data and secrets in texts, and masks them.
//
// It knows what has a form that can be checked: e-mail addresses, phone numbers, payment cards, IBANs, Russian tax, insurance
// and passport numbers, IP addresses, API keys and tokens, credentials in URLs. A rule would rather miss a doubtful case than
// mangle a text: dates, amounts, article and contract numbers must stay as they are, so numbers need valid check digits, a
// telling shape, or a telling word before them.
//
// It does not find names, postal addresses, dates of birth, or anything else that only its meaning makes personal. Whoever
// needs those masked needs a model, not this package.
//
// Where something was masked stands a placeholder such as [EMAIL], or [EMAIL_1] where the original is to be put back later
// (see Numbering). Placeholders are borders: nothing is found in them or across them, so masking a masked text changes
// nothing. The functions are pure, take time that grows with the length of the text, and are safe for concurrent use.
package redact

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Kind says what was found. It is also the word in the placeholder.
type Kind string

// The kinds.
const (
	Email    Kind = "EMAIL"
	Phone    Kind = "PHONE"
	Card     Kind = "CARD"
	IBAN     Kind = "IBAN"
	INN      Kind = "INN"      // a Russian taxpayer's number
	SNILS    Kind = "SNILS"    // a Russian social insurance number
	Passport Kind = "PASSPORT" // a passport's number
	IP       Kind = "IP"
	// Key is an API key, a token, or a private key.
	Key Kind = "KEY"
	// Credentials are a name and a password in a URL.
	Credentials Kind = "CREDENTIALS"
)

// Kinds lists all kinds.
func Kinds() []Kind {
	return []Kind{Email, Phone, Card, IBAN, INN, SNILS, Passport, IP, Key, Credentials}
}

// Finding is one place in a text, in bytes: text[Start:End].
type Finding struct {
	Kind       Kind
	Start, End int
}

// Find returns what is found, in the order of the text, without overlaps. What stands in placeholders is not looked at.
func Find(text string) []Finding {
	var all []Finding
	for _, s := range between(placeholders(text), span{0, len(text)}) {
		all = search(all, text, s, maxRounds)
	}
	slices.SortFunc(all, func(a, b Finding) int { return cmp.Compare(a.Start, b.Start) })
	return all
}

// Mask returns the text with a placeholder in place of everything that is found, and what that was: the places are those in
// the text as it was before. Bytes that are no UTF-8 are replaced by U+FFFD first; places count from there on.
func Mask(text string) (string, []Finding) {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	found := Find(text)
	return replace(text, found, func(f Finding) string { return "[" + string(f.Kind) + "]" }), found
}

// replace writes something else in place of the findings.
func replace(text string, found []Finding, with func(Finding) string) string {
	if len(found) == 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	end := 0
	for _, f := range found {
		b.WriteString(text[end:f.Start])
		b.WriteString(with(f))
		end = f.End
	}
	b.WriteString(text[end:])
	return b.String()
}

// maxRounds bounds how often a piece of text is looked at again because something beside it was found. What is found can
// only have hidden its neighbours, so two rounds are usual.
const maxRounds = 16

// span is a piece of a text.
type span struct{ start, end int }

// search finds everything in a piece of the text, and then in what is left between the findings: what they stood next to may
// not have looked like itself.
func search(all []Finding, text string, s span, rounds int) []Finding {
	if rounds == 0 || s.end-s.start < shortest {
		return all
	}
	piece := text[s.start:s.end]
	found := choose(candidates(piece))
	if len(found) == 0 {
		return all
	}
	taken := make([]span, len(found))
	for i, f := range found {
		f.Start, f.End = f.Start+s.start, f.End+s.start
		all = append(all, f)
		taken[i] = span{f.Start, f.End}
	}
	for _, rest := range between(taken, s) {
		all = search(all, text, rest, rounds-1)
	}
	return all
}

// shortest is the length of the shortest text in which something can be found: an e-mail address such as a@b.ru.
const shortest = 6

// candidates asks every rule.
func candidates(piece string) []Finding {
	var found []Finding
	for _, rule := range []func([]Finding, string) []Finding{
		findEmails, findCredentials, findKeys, findNumbers, findIPv6, findPassports,
	} {
		found = rule(found, piece)
	}
	return found
}

// choose settles overlaps: who begins first wins, then who is longer.
func choose(found []Finding) []Finding {
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
	kept, end := found[:0], 0
	for _, f := range found {
		if f.Start >= end {
			kept, end = append(kept, f), f.End
		}
	}
	return kept
}

// between returns what is left of a piece without some of its parts, which are in order.
func between(parts []span, whole span) []span {
	var left []span
	start := whole.start
	for _, p := range parts {
		if p.start > start {
			left = append(left, span{start, p.start})
		}
		start = p.end
	}
	if whole.end > start {
		left = append(left, span{start, whole.end})
	}
	return left
}
