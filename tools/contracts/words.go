package main

import (
	"fmt"
	"strconv"
	"strings"
	"text/template"
	"time"
)

const isoDate = "2006-01-02"

// phrases returns the template functions that write dates, sums and periods in a language: "ru" or "en".
func phrases(language string) template.FuncMap {
	funcs := template.FuncMap{
		"dots": func(t time.Time) string { return t.Format("02.01.2006") },
		"iso":  func(t time.Time) string { return t.Format(isoDate) },
	}
	own := russian()
	if language == "en" {
		own = english()
	}
	for name, fn := range own {
		funcs[name] = fn
	}
	return funcs
}

func russian() template.FuncMap {
	return template.FuncMap{
		"date":    func(t time.Time) string { return fmt.Sprintf("%d %s %d г.", t.Day(), monthRU(t), t.Year()) },
		"month":   monthRU,
		"num":     func(minor int64) string { return grouped(minor, " ", ",") },
		"words":   func(minor int64) string { return numberRU(minor / 100) },
		"kopecks": func(minor int64) string { return fmt.Sprintf("%02d", minor%100) },
		"days":    func(n int) string { return fmt.Sprintf("%d (%s)", n, genitiveRU(n)) },
		"period":  func(n int) string { return fmt.Sprintf("%d (%s)", n, numberRU(int64(n))) },
	}
}

func english() template.FuncMap {
	return template.FuncMap{
		"date":    func(t time.Time) string { return t.Format("January 2, 2006") },
		"dmy":     func(t time.Time) string { return t.Format("2 January 2006") },
		"ordinal": ordinalDate,
		"num":     func(minor int64) string { return grouped(minor, ",", ".") },
		"words":   func(minor int64) string { return numberEN(minor / 100) },
		"cents":   func(minor int64) string { return numberEN(minor % 100) },
		"days":    func(n int) string { return fmt.Sprintf("%s (%d)", numberEN(int64(n)), n) },
	}
}

// grouped writes minor units in groups of three digits, with the fraction only if there is one.
func grouped(minor int64, separator, point string) string {
	digits := strconv.FormatInt(minor/100, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + separator + digits[i:]
	}
	if minor%100 != 0 {
		digits += point + fmt.Sprintf("%02d", minor%100)
	}
	return digits
}

func ordinalDate(t time.Time) string {
	suffix := "th"
	switch day := t.Day(); {
	case day%10 == 1 && day != 11:
		suffix = "st"
	case day%10 == 2 && day != 12:
		suffix = "nd"
	case day%10 == 3 && day != 13:
		suffix = "rd"
	}
	return fmt.Sprintf("the %d%s day of %s", t.Day(), suffix, t.Format("January 2006"))
}

func monthRU(t time.Time) string {
	return strings.Fields("января февраля марта апреля мая июня июля августа сентября октября ноября декабря")[t.Month()-1]
}

// numberRU spells n, below a thousand million, in the nominative and the masculine: один миллион двести тысяч.
func numberRU(n int64) string {
	var words []string
	if m := n / 1_000_000; m > 0 {
		words = append(words, hundredsRU(m, false)...)
		words = append(words, pluralRU(m, "миллион", "миллиона", "миллионов"))
	}
	if t := n / 1_000 % 1_000; t > 0 {
		words = append(words, hundredsRU(t, true)...)
		words = append(words, pluralRU(t, "тысяча", "тысячи", "тысяч"))
	}
	return strings.Join(append(words, hundredsRU(n%1_000, false)...), " ")
}

func hundredsRU(n int64, feminine bool) []string {
	ones := strings.Fields("один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать тринадцать " +
		"четырнадцать пятнадцать шестнадцать семнадцать восемнадцать девятнадцать")
	if feminine {
		ones[0], ones[1] = "одна", "две"
	}
	tens := strings.Fields("двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто")
	hundreds := strings.Fields("сто двести триста четыреста пятьсот шестьсот семьсот восемьсот девятьсот")
	return spell(n, ones, tens, hundreds)
}

// spell picks the words for the hundreds, tens and ones of n.
func spell(n int64, ones, tens, hundreds []string) []string {
	var words []string
	if n >= 100 {
		words = append(words, hundreds[n/100-1])
	}
	n %= 100
	if n >= 20 {
		words = append(words, tens[n/10-2])
		n %= 10
	}
	if n > 0 {
		words = append(words, ones[n-1])
	}
	return words
}

func pluralRU(n int64, one, few, many string) string {
	switch {
	case n%100 >= 11 && n%100 <= 14:
		return many
	case n%10 == 1:
		return one
	case n%10 >= 2 && n%10 <= 4:
		return few
	}
	return many
}

// genitiveRU spells the periods that the texts use, in the genitive.
func genitiveRU(n int) string {
	return map[int]string{
		1: "одного", 2: "двух", 3: "трёх", 5: "пяти", 7: "семи", 10: "десяти", 14: "четырнадцати", 15: "пятнадцати",
		20: "двадцати", 25: "двадцати пяти", 30: "тридцати", 40: "сорока", 45: "сорока пяти", 60: "шестидесяти",
	}[n]
}

// numberEN spells n, below a thousand million: four hundred eighty-five thousand two hundred.
func numberEN(n int64) string {
	if n == 0 {
		return "zero"
	}
	var words []string
	if m := n / 1_000_000; m > 0 {
		words = append(words, hundredsEN(m)...)
		words = append(words, "million")
	}
	if t := n / 1_000 % 1_000; t > 0 {
		words = append(words, hundredsEN(t)...)
		words = append(words, "thousand")
	}
	return strings.Join(append(words, hundredsEN(n%1_000)...), " ")
}

func hundredsEN(n int64) []string {
	ones := strings.Fields("one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen " +
		"seventeen eighteen nineteen")
	tens := strings.Fields("twenty thirty forty fifty sixty seventy eighty ninety")
	hundreds := make([]string, 9)
	for i := range hundreds {
		hundreds[i] = ones[i] + " hundred"
	}
	words := spell(n, ones, tens, hundreds)
	if n%100 > 20 && n%10 > 0 {
		last := len(words) - 1
		words = append(words[:last-1], words[last-1]+"-"+words[last])
	}
	return words
}
