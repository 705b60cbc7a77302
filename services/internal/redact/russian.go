package redact

import (
	"regexp"
	"strings"
)

// Words that tell what the number after them is, at the end of what stands before it.
var (
	innWord   = regexp.MustCompile(`(?i)(?:^|[^\pL\d])(?:инн|inn)(?:[^\pL\d\n][^\d\n]{0,30})?$`)
	snilsWord = regexp.MustCompile(`(?i)(?:^|[^\pL\d])(?:снилс|snils)(?:[^\pL\d\n][^\d\n]{0,30})?$`)
)

// before is how much of the text before a number is looked at, in bytes.
const before = 96

// told reports whether a telling word stands before the group.
func (n number) told(i int, word *regexp.Regexp) bool {
	end := n.groups[i].start
	return word.MatchString(strings.ToValidUTF8(n.piece[max(0, end-before):end], ""))
}

// inn finds taxpayers' numbers: with a telling word, because one number of ten digits in eleven has a fitting check digit.
func inn(n number, i int) (int, Finding) {
	g := n.groups[i]
	if length := g.end - g.start; length != 10 && length != 12 || !isINN(n.digits(i, 1)) || wordBegins(n.piece[g.end:]) || !n.told(i, innWord) {
		return 0, Finding{}
	}
	return 1, Finding{INN, g.start, g.end}
}

// snils finds insurance numbers: 112-233-445 95, or other forms with a telling word.
func snils(n number, i int) (int, Finding) {
	switch {
	case n.shaped(i, "3332") && n.alone(i, 4) && isSNILS(n.digits(i, 4)):
		if n.separated(i, 3, "-") || n.told(i, snilsWord) {
			return 4, Finding{SNILS, n.groups[i].start, n.groups[i+3].end}
		}
	case n.groups[i].end-n.groups[i].start == 11 && n.alone(i, 1) && isSNILS(n.digits(i, 1)) && n.told(i, snilsWord):
		return 1, Finding{SNILS, n.groups[i].start, n.groups[i].end}
	}
	return 0, Finding{}
}

// A passport's number has no check digit, so the word must stand before it, on the same line: Russian ones of four digits and
// six, Russian ones for travel of two and seven, and others of letters and digits right after the word.
var (
	russianPassport = regexp.MustCompile(`[^\pL\d](\d{2} ?\d{2}[ ,]{0,2}(?:(?:№|N|номер) ?)?\d{6}|\d{2} ?(?:№|N)? ?\d{7})(?:[^\pL\d]|$)`)
	otherPassport   = regexp.MustCompile(`^(?i: no\.?| number| №)?[ :#]{1,3}([A-Z]{0,2}\d{6,9}|\d{4} \d{6})(?:[^\pL\d]|$)`)
)

// findPassports finds the numbers of passports.
func findPassports(found []Finding, piece string) []Finding {
	for _, rule := range [...]struct {
		word string
		form *regexp.Regexp
	}{
		{"аспорт", russianPassport}, {"АСПОРТ", russianPassport}, {"assport", otherPassport}, {"ASSPORT", otherPassport},
	} {
		found = findAfter(found, piece, rule.word, rule.form)
	}
	return found
}

// findAfter finds what the form says in the rest of the line after the word, if it stands soon after it.
func findAfter(found []Finding, piece, word string, form *regexp.Regexp) []Finding {
	const soon = 160
	for i := 0; ; {
		at := strings.Index(piece[i:], word)
		if at < 0 {
			return found
		}
		i += at + len(word)
		line, _, _ := strings.Cut(piece[i:min(len(piece), i+soon)], "\n")
		if !strings.ContainsAny(line, "0123456789") {
			continue
		}
		if m := form.FindStringSubmatchIndex(line); m != nil {
			found = append(found, Finding{Passport, i + m[2], i + m[3]})
		}
	}
}
