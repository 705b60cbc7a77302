package extract

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// date is a calendar date in a sentence.
type date struct {
	place
	iso string // YYYY-MM-DD
}

const (
	monthsRU = "января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября|декабря"
	monthsEN = "january|february|march|april|may|june|july|august|september|october|november|december"
)

// The ways to write a date. Named groups: y, m, d are numbers, ru and en are names of months.
var (
	isoDates    = regexp.MustCompile(`\b(?P<y>\d{4})-(?P<m>\d{2})-(?P<d>\d{2})\b`)
	dottedDates = regexp.MustCompile(`\b(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})\b`)
	datesRU     = regexp.MustCompile(`(?i)(?P<d>\d{1,2})[»"]?\s+(?P<ru>` + monthsRU + `)\s+(?P<y>\d{4})`)
	monthFirst  = regexp.MustCompile(`(?i)\b(?P<en>` + monthsEN + `)\s+(?P<d>\d{1,2})(?:st|nd|rd|th)?,?\s+(?P<y>\d{4})\b`)
	dayFirst    = regexp.MustCompile(`(?i)\b(?P<d>\d{1,2})(?:st|nd|rd|th)?\s+(?:day\s+of\s+)?(?P<en>` + monthsEN + `),?\s+(?P<y>\d{4})\b`)
)

// dates returns the dates of s in their order; what is no real date is left out.
func dates(s string) []date {
	if !hasYear(s) {
		return nil
	}
	var found []date
	for _, p := range []*regexp.Regexp{isoDates, dottedDates, datesRU, monthFirst, dayFirst} {
		for _, at := range p.FindAllStringSubmatchIndex(s, -1) {
			if iso, ok := isoDate(p, s, at); ok {
				found = append(found, date{place{at[0], at[1]}, iso})
			}
		}
	}
	return inOrder(found)
}

// hasYear reports whether four digits stand together in s, without which there is no date.
func hasYear(s string) bool {
	run := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			run = 0
		} else if run++; run == 4 {
			return true
		}
	}
	return false
}

// isoDate puts the groups of one match together.
func isoDate(p *regexp.Regexp, s string, at []int) (string, bool) {
	var year, month, day int
	for i, name := range p.SubexpNames() {
		if name == "" {
			continue
		}
		group := s[at[2*i]:at[2*i+1]]
		switch name {
		case "y":
			year, _ = strconv.Atoi(group)
		case "m":
			month, _ = strconv.Atoi(group)
		case "d":
			day, _ = strconv.Atoi(group)
		case "ru":
			month = indexOf(monthsRU, strings.ToLower(group))
		case "en":
			month = indexOf(monthsEN, strings.ToLower(group))
		}
	}
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	return t.Format(time.DateOnly), int(t.Month()) == month && t.Day() == day
}

// indexOf returns the place of name, counted from 1, among alternatives separated by bars.
func indexOf(alternatives, name string) int {
	for i, a := range strings.Split(alternatives, "|") {
		if a == name {
			return i + 1
		}
	}
	return 0
}
