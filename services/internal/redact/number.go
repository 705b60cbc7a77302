package redact

import "strings"

// group is a run of digits within a number that may be written in several groups.
type group struct {
	start, end int
	// sep is what stands between it and the group before it; empty for the first.
	sep string
}

// number is a sequence of groups of digits with nothing but separators between them: candidates for everything that
// consists of digits.
type number struct {
	piece  string
	groups []group
}

// findNumbers finds what consists of digits.
func findNumbers(found []Finding, piece string) []Finding {
	var groups []group
	for i := nextDigit(piece, 0); i < len(piece); {
		groups = groups[:0]
		for sep := ""; ; {
			end := digitsEnd(piece, i)
			groups = append(groups, group{i, end, sep})
			next := end + separator(piece[end:])
			if next == end || next >= len(piece) || !isDigit(piece[next]) {
				i = nextDigit(piece, end)
				break
			}
			sep, i = piece[end:next], next
		}
		found = number{piece, groups}.find(found)
	}
	return found
}

func nextDigit(piece string, i int) int {
	for i < len(piece) && !isDigit(piece[i]) {
		i++
	}
	return i
}

func digitsEnd(piece string, i int) int {
	for i < len(piece) && isDigit(piece[i]) {
		i++
	}
	return i
}

// separator returns the length of the separator with which a text begins; 0 if it begins with none.
func separator(text string) int {
	for _, s := range []string{") ", ")-", ")", " (", "-(", "(", " - ", " ", "-", ".", "\u00a0", "\u2011", "\u2013", "/"} {
		if strings.HasPrefix(text, s) {
			return len(s)
		}
	}
	return 0
}

// matcher returns how many groups from i on are something, where in the text that begins and ends, and what it is; 0 groups
// for nothing.
type matcher func(n number, i int) (groups int, f Finding)

// find asks every matcher at every group.
func (n number) find(found []Finding) []Finding {
	for i := 0; i < len(n.groups); {
		took := 1
		for _, m := range []matcher{iban, internationalPhone, card, snils, inn, russianPhone, bracedPhone, ipv4} {
			if k, f := m(n, i); k > 0 {
				found, took = append(found, f), k
				break
			}
		}
		i += took
	}
	return found
}

// digits returns the digits of the k groups from i on.
func (n number) digits(i, k int) string {
	if k == 1 {
		return n.piece[n.groups[i].start:n.groups[i].end]
	}
	var b strings.Builder
	for _, g := range n.groups[i : i+k] {
		b.WriteString(n.piece[g.start:g.end])
	}
	return b.String()
}

// shaped reports whether the groups from i on have these lengths, one digit each.
func (n number) shaped(i int, lengths string) bool {
	if i+len(lengths) > len(n.groups) {
		return false
	}
	for k := range len(lengths) {
		if g := n.groups[i+k]; g.end-g.start != int(lengths[k]-'0') {
			return false
		}
	}
	return true
}

// separated reports whether the k groups from i on have nothing between them but the one separator.
func (n number) separated(i, k int, sep string) bool {
	for _, g := range n.groups[i+1 : i+k] {
		if g.sep != sep {
			return false
		}
	}
	return true
}

// alone reports whether the k groups from i on are a number of their own, and no part of a longer one, of a word, or of a
// number of a contract such as 12-4111/2.
func (n number) alone(i, k int) bool { return n.begins(i) && n.ends(i+k-1) }

func (n number) begins(i int) bool {
	g := n.groups[i]
	if i > 0 {
		return strings.TrimLeft(g.sep, ")") == " " || g.sep == "\u00a0"
	}
	left := n.piece[:g.start]
	switch lastRune(left) {
	case '-', '/', '+', '*', '\\':
		return false
	case ',':
		if len(left) > 1 && isDigit(left[len(left)-2]) {
			return false
		}
	}
	switch lastRune(strings.TrimRight(left, " \u00a0")) {
	case '№', '#', '$', '€', '£':
		return false
	}
	return !wordEnds(left)
}

// ends wants neither a word to follow, nor what makes it a part of something longer: 4111-A, 4111/2, 4111,50.
func (n number) ends(i int) bool {
	if i+1 < len(n.groups) {
		sep := n.groups[i+1].sep
		return sep == " " || sep == "\u00a0" || strings.HasPrefix(sep, " (")
	}
	right := n.piece[n.groups[i].end:]
	switch {
	case right == "":
		return true
	case right[0] == '-' || right[0] == '/':
		return !wordBegins(right[1:])
	case right[0] == ',' || right[0] == '.':
		return len(right) == 1 || !isDigit(right[1])
	default:
		return !wordBegins(right)
	}
}
