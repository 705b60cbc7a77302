package extract

import (
	"strings"
	"unicode"
)

// numberWords gives the value of the words that numbers are written with. Words of 1 000 and more multiply what stands before.
//
//nolint:gochecknoglobals // a table that nothing writes to
var numberWords = func() map[string]int64 {
	words := map[string]int64{
		"тысяча": 1e3, "тысячи": 1e3, "тысяч": 1e3, "миллион": 1e6, "миллиона": 1e6, "миллионов": 1e6,
		"миллиард": 1e9, "миллиарда": 1e9, "миллиардов": 1e9, "одна": 1, "две": 2, "сорок": 40, "девяносто": 90, "сто": 100,
		"hundred": 100, "thousand": 1e3, "million": 1e6, "billion": 1e9,
	}
	count := func(list string, from, step int64) {
		for i, word := range strings.Fields(list) {
			words[word] = from + int64(i)*step
		}
	}
	count("один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать тринадцать четырнадцать пятнадцать "+
		"шестнадцать семнадцать восемнадцать девятнадцать", 1, 1)
	count("двадцать тридцать", 20, 10)
	count("пятьдесят шестьдесят семьдесят восемьдесят", 50, 10)
	count("двести триста четыреста пятьсот шестьсот семьсот восемьсот девятьсот", 200, 100)
	count("one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "+
		"nineteen", 1, 1)
	count("twenty thirty forty fifty sixty seventy eighty ninety", 20, 10)
	return words
}()

// wordNumber is a number that a sentence spells out.
type wordNumber struct {
	place
	value int64
}

// inWords returns the numbers that lower, a lower-case sentence, spells out.
func inWords(lower string) []wordNumber {
	var found []wordNumber
	var run accumulator
	for start := 0; start < len(lower); {
		length, word := nextWord(lower[start:])
		end := start + length
		value, known := numberWords[word]
		switch {
		case known:
			run.add(value, start, end)
		case word == "" || run.open && (word == "and" || word == "и"):
			// spaces, hyphens and conjunctions stand between the words of one number
		default:
			found = run.close(found)
		}
		if word == "" && strings.Trim(lower[start:end], " -\u00a0") != "" {
			found = run.close(found)
		}
		start = end
	}
	return run.close(found)
}

// nextWord returns the word that s begins with, or "" and the length of what stands before the next word.
func nextWord(s string) (int, string) {
	if end := strings.IndexFunc(s, notLetter); end != 0 {
		if end < 0 {
			end = len(s)
		}
		return end, s[:end]
	}
	if end := strings.IndexFunc(s, unicode.IsLetter); end > 0 {
		return end, ""
	}
	return len(s), ""
}

func notLetter(r rune) bool { return !unicode.IsLetter(r) }

// accumulator adds up the words of one number.
type accumulator struct {
	place
	open         bool
	total, group int64
}

func (a *accumulator) add(value int64, start, end int) {
	if !a.open {
		*a = accumulator{open: true, place: place{start: start}}
	}
	a.end = end
	switch {
	case value >= 1000:
		a.total += max(a.group, 1) * value
		a.group = 0
	case value == 100 && a.group > 0 && a.group < 10: // two hundred
		a.group *= 100
	default:
		a.group += value
	}
}

func (a *accumulator) close(found []wordNumber) []wordNumber {
	if a.open {
		found = append(found, wordNumber{a.place, a.total + a.group})
	}
	*a = accumulator{}
	return found
}
