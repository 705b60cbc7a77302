// Package suggest finds the name that somebody probably meant when they misspelt it.
package suggest

import (
	"iter"
	"slices"
	"strconv"
)

// Closest gives the known name that is fewest edits away from word, or "" when none is near: about one edit for
// three letters. Of names equally near, the first in alphabetical order wins.
func Closest(word string, known iter.Seq[string]) string {
	closest, fewest := "", (len([]rune(word))+1)/3+1
	for _, name := range slices.Sorted(known) {
		if edits := distance([]rune(word), []rune(name)); edits < fewest {
			closest, fewest = name, edits
		}
	}
	return closest
}

// DidYouMean gives `; did you mean "name"?` for the closest name, or "" when none is near.
func DidYouMean(word string, known iter.Seq[string]) string {
	if name := Closest(word, known); name != "" {
		return "; did you mean " + strconv.Quote(name) + "?"
	}
	return ""
}

// distance counts the insertions, deletions, replacements and swaps of neighbours that turn a into b (optimal string
// alignment).
func distance(a, b []rune) int {
	var before []int
	above := make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := range a {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range b {
			change := above[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, above[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, above = above, row
	}
	return above[len(b)]
}
