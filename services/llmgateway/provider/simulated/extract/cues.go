package extract

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// place is where a value stands in its sentence: the bytes [start, end).
type place struct{ start, end int }

func (p place) where() place { return p }

// placed is anything that stands somewhere.
type placed interface{ where() place }

// inOrder sorts values by their places and drops those that overlap an earlier one.
func inOrder[T placed](values []T) []T {
	slices.SortStableFunc(values, func(a, b T) int {
		return cmp.Or(a.where().start-b.where().start, b.where().end-a.where().end)
	})
	kept := values[:0]
	end := 0
	for _, v := range values {
		if v.where().start >= end {
			kept = append(kept, v)
			end = v.where().end
		}
	}
	return kept
}

// mention is a value with the words around it, in lower case: as far as the values before and after it.
type mention[T any] struct {
	value       T
	left, right string
}

// mentions puts the words of s around its values, which are in order.
func mentions[T placed](s sentence, values []T) []mention[T] {
	found := make([]mention[T], len(values))
	from := 0
	for i, v := range values {
		to := len(s.text)
		if i+1 < len(values) {
			to = values[i+1].where().start
		}
		found[i] = mention[T]{v, strings.ToLower(s.text[from:v.where().start]), strings.ToLower(s.text[v.where().end:to])}
		from = v.where().end
	}
	return found
}

// candidate is a value with the points that speak for it.
type candidate[T any] struct {
	value  T
	points int
}

// best returns the first value with the most points, if it has at least enough.
func best[T any](candidates []candidate[T], enough int) (T, bool) {
	var won candidate[T]
	for _, c := range candidates {
		if c.points > won.points {
			won = c
		}
	}
	return won.value, won.points >= enough
}

// has reports whether a word of s, which is in lower case, begins with one of the stems. A stem may be several words.
func has(s string, stems ...string) bool {
	for _, stem := range stems {
		if begins(s, stem) >= 0 {
			return true
		}
	}
	return false
}

// begins returns where in s a word begins with stem, or -1.
func begins(s, stem string) int {
	for from := 0; ; {
		i := strings.Index(s[from:], stem)
		if i < 0 {
			return -1
		}
		i += from
		before, _ := utf8.DecodeLastRuneInString(s[:i])
		if i == 0 || !unicode.IsLetter(before) && !unicode.IsDigit(before) {
			return i
		}
		from = i + len(stem)
	}
}

// points returns n if cond holds.
func points(n int, cond bool) int {
	if cond {
		return n
	}
	return 0
}

// tail returns the last n characters of s.
func tail(s string, n int) string {
	i := len(s)
	for ; n > 0 && i > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
	}
	return s[i:]
}

// head returns the first n characters of s.
func head(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}
