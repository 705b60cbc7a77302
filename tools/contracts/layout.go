package main

import (
	"fmt"
	"strings"
)

// layout says how a contract looks: how its headings and clauses are numbered, and where its lines break.
type layout struct {
	heading func(n int, title string) string
	clause  func(section, n int) string
	width   int // characters per line; 0 leaves each paragraph on one line
}

// page numbers the sections and clauses of one contract while its template is filled.
type page struct {
	layout   layout
	sections int
	clauses  int
}

func (p *page) section(title string) string {
	p.sections++
	p.clauses = 0
	return "\n\n" + p.layout.heading(p.sections, title) + "\n"
}

func (p *page) clause() string {
	p.clauses++
	return p.layout.clause(p.sections, p.clauses)
}

// gap stands between the place on the left and the date on the right of a line.
func (p *page) gap() string { return strings.Repeat(" ", 40) }

func plainHeading(n int, title string) string {
	return fmt.Sprintf("%d. %s", n, strings.ToUpper(title))
}

func quietHeading(n int, title string) string { return fmt.Sprintf("%d. %s", n, title) }

func markdownHeading(n int, title string) string { return fmt.Sprintf("## %d. %s\n", n, title) }

func romanHeading(n int, title string) string {
	numerals := []string{"I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X"}
	return numerals[n-1] + ". " + strings.ToUpper(title)
}

// wordHeading numbers headings after a word: "Статья 1. Предмет договора", "ARTICLE 1 – SCOPE".
func wordHeading(word, separator string) func(int, string) string {
	return func(n int, title string) string {
		if word == strings.ToUpper(word) {
			title = strings.ToUpper(title)
		}
		return fmt.Sprintf("%s %d%s %s", word, n, separator, title)
	}
}

func dottedClause(section, n int) string { return fmt.Sprintf("%d.%d. ", section, n) }

func bareClause(section, n int) string { return fmt.Sprintf("%d.%d ", section, n) }

func letterClause(_, n int) string { return fmt.Sprintf("(%c) ", 'a'+rune(n-1)) }

// paragraphClause sets clauses apart by blank lines alone.
func paragraphClause(_, n int) string {
	if n == 1 {
		return ""
	}
	return "\n"
}

// wrap breaks the lines of text at the layout's width.
func (l layout) wrap(text string) string {
	if l.width == 0 {
		return text
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		if len([]rune(line)) <= l.width {
			out.WriteString(line)
			continue
		}
		l.wrapLine(&out, line)
	}
	return out.String()
}

func (l layout) wrapLine(out *strings.Builder, line string) {
	column := 0
	for _, word := range strings.Fields(line) {
		length := len([]rune(word))
		switch {
		case column == 0:
		case column+1+length > l.width:
			out.WriteByte('\n')
			column = 0
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += length
	}
	out.WriteByte('\n')
}
