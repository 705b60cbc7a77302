package redact

import "strings"

// Digits of a telephone number with its country's code.
const (
	leastPhone = 10
	mostPhone  = 15
	ofRussia   = 11
)

// internationalPhone finds +7 916 123-45-67 and the like, of every country.
func internationalPhone(n number, i int) (int, Finding) {
	plus := strings.TrimSuffix(n.piece[:n.groups[i].start], "(")
	if !strings.HasSuffix(plus, "+") || wordEnds(plus[:len(plus)-1]) || n.piece[n.groups[i].start] == '0' {
		return 0, Finding{}
	}
	least, most := phoneLength(n.digits(i, min(2, len(n.groups)-i)))
	k, count := 0, 0
	for total := 0; i+k < len(n.groups); k++ {
		g := n.groups[i+k]
		total += g.end - g.start
		if total > most || k > 0 && g.sep == "/" {
			break
		}
		count = total
	}
	if count < least || !n.ends(i+k-1) && (i+k == len(n.groups) || n.groups[i+k].sep != "/") {
		return 0, Finding{}
	}
	return k, Finding{Phone, len(plus) - 1, n.groups[i+k-1].end}
}

// phoneLength is how many digits the numbers of a country have whose code the number begins with.
func phoneLength(first string) (least, most int) {
	for _, c := range [...]struct {
		code   string
		length int
	}{
		{"7", ofRussia},
		{"1", 11},
		{"44", 12},
		{"33", 11},
		{"34", 11},
		{"48", 11},
		{"90", 12},
		{"86", 13},
		{"91", 12},
		{"380", 12},
		{"375", 12},
		{"998", 12},
		{"996", 12},
		{"992", 12},
		{"994", 12},
		{"995", 12},
		{"374", 11},
		{"373", 11},
		{"371", 11},
		{"370", 11},
		{"971", 12},
		{"972", 12},
	} {
		if strings.HasPrefix(first, c.code) {
			return c.length, c.length
		}
	}
	return leastPhone, mostPhone
}

// russianPhone finds 8 (916) 123-45-67, 8-800-555-35-35, 89161234567, and the same with 7.
func russianPhone(n number, i int) (int, Finding) {
	if !n.begins(i) {
		return 0, Finding{}
	}
	g := n.groups[i]
	if g.end-g.start == ofRussia && n.ends(i) && isRussianPhone(n.digits(i, 1), 1) {
		return 1, Finding{Phone, g.start, g.end}
	}
	for _, lengths := range [...]string{
		"13322", "1334", "137", "13223", "13232", "14222", "1433", "15122", "155", "146", "4322", "434",
	} {
		k := len(lengths)
		if !n.shaped(i, lengths) || !n.ends(i+k-1) {
			continue
		}
		if isRussianPhone(n.digits(i, k), k) && n.likeAPhone(i, k) {
			return k, Finding{Phone, g.start, n.groups[i+k-1].end}
		}
	}
	return 0, Finding{}
}

// isRussianPhone looks at the trunk prefix and the area's code. Eleven digits in one piece are a telephone's only with a code
// that every telephone knows: mobile, free, and the two capitals.
func isRussianPhone(digits string, groups int) bool {
	if digits[0] != '8' && digits[0] != '7' {
		return false
	}
	if groups > 1 {
		return strings.IndexByte("3489", digits[1]) >= 0
	}
	for _, code := range []string{"9", "800", "495", "499", "812"} {
		if strings.HasPrefix(digits[1:], code) {
			return true
		}
	}
	return false
}

// likeAPhone looks at the separators: amounts have only spaces between groups of three, dates have dots.
func (n number) likeAPhone(i, k int) bool {
	for _, g := range n.groups[i+1 : i+k] {
		if g.sep == "." || g.sep == "/" {
			return false
		}
	}
	return true
}

// bracedPhone finds (495) 123-45-67 and (212) 555-0199: the code in brackets, without a country's.
func bracedPhone(n number, i int) (int, Finding) {
	start := n.groups[i].start
	if start == 0 || n.piece[start-1] != '(' || wordEnds(n.piece[:start-1]) || i+1 == len(n.groups) || !strings.HasPrefix(n.groups[i+1].sep, ")") {
		return 0, Finding{}
	}
	for _, lengths := range [...]string{"3322", "4222", "5122", "334"} {
		k := len(lengths)
		if !n.shaped(i, lengths) || !n.ends(i+k-1) || n.groups[i+k-1].sep != "-" || n.groups[i+2].sep != "-" {
			continue
		}
		return k, Finding{Phone, start - 1, n.groups[i+k-1].end}
	}
	return 0, Finding{}
}
