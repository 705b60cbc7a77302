package extract

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// heading is a line that names a section.
type heading struct {
	number int // 0 if it has none
	title  string
	strong bool // a heading wherever it stands, not only after a blank line
}

// section is a part of a document under one heading; the first may stand before all headings.
type section struct {
	number int
	title  string
	body   string
}

const maxHeading = 90 // characters

var (
	numbered = regexp.MustCompile(`^(#{1,6}\s+)?((?i:статья|раздел|глава|часть|параграф|article|section|clause|part|chapter|§)\s*)?` +
		`(\d{1,2}|[IVXLC]{1,6})(\s*[.):]|\s+[–—-]|)\s+(\p{Lu}.*)$`)
	marked   = regexp.MustCompile(`^#{1,6}\s+(\S.*)$`)
	announce = regexp.MustCompile(`^(?i:section|heading|title|раздел|заголовок)\s*:\s*`)
)

// parseHeading reads a line as a heading: "3. ЦЕНА", "Статья 3. Цена", "ARTICLE III – Price", "## Price".
func parseHeading(line string) (heading, bool) {
	announced := announce.MatchString(line)
	if announced {
		line = announce.ReplaceAllString(line, "")
	}
	if utf8.RuneCountInString(line) > maxHeading || strings.ContainsAny(lastByte(line), ".;,:") {
		return heading{}, false
	}
	if m := numbered.FindStringSubmatch(line); m != nil && (m[2] != "" || m[4] != "") {
		return heading{number: numeral(m[3]), title: m[5], strong: announced || m[1] != "" || m[2] != "" || upper(m[5])}, true
	}
	if m := marked.FindStringSubmatch(line); m != nil && !strings.HasPrefix(line, "# ") {
		return heading{title: m[1], strong: true}, true
	}
	return heading{}, false
}

func lastByte(s string) string {
	if s == "" {
		return ""
	}
	return s[len(s)-1:]
}

// upper reports whether s is written in capitals.
func upper(s string) bool {
	letters := 0
	for _, r := range s {
		if unicode.IsLower(r) {
			return false
		}
		if unicode.IsLetter(r) {
			letters++
		}
	}
	return letters > 2
}

// numeral reads an Arabic or Roman number; 0 if it is neither.
func numeral(s string) int {
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	digits := map[byte]int{'I': 1, 'V': 5, 'X': 10, 'L': 50, 'C': 100}
	total := 0
	for i := range len(s) {
		value := digits[s[i]]
		if i+1 < len(s) && value < digits[s[i+1]] {
			value = -value
		}
		total += value
	}
	return total
}

// sections cuts the document at its headings. Numbered ones have to count up by one, so that a numbered list is not taken for
// sections. A document without headings is one section.
func (t *text) sections() []section {
	var found []section
	current := section{}
	var body strings.Builder
	closeSection := func() {
		current.body = strings.TrimSpace(body.String())
		if current.title == "" {
			current.title = firstLine(current.body)
		}
		if current.body != "" || current.number > 0 {
			found = append(found, current)
		}
		body.Reset()
	}
	next, blank := 1, true
	for line := range strings.Lines(t.source) {
		trimmed := strings.TrimSpace(unmark(line))
		h, ok := parseHeading(trimmed)
		switch {
		case ok && (blank || h.strong) && (h.number == next || h.number == 0):
			closeSection()
			current = section{number: h.number, title: strings.TrimLeft(trimmed, "# ")}
			if h.number > 0 {
				next++
			}
		default:
			body.WriteString(line)
		}
		blank = trimmed == ""
	}
	closeSection()
	return found
}

// firstLine returns the first line of a text without markup.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return clip(strings.TrimSpace(strings.TrimLeft(unmark(line), "# ")), maxHeading)
}
