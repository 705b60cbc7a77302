package extract

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// leadRunes bounds an excerpt that stands for a longer text.
const leadRunes = 200

// text is a document as the rules read it. Its parts are made when a rule first asks for them; it serves one request.
type text struct {
	source string
	parts  []paragraph
	tokens []string
	facts  map[string]any
}

// paragraph is a run of text between blank lines, headings and clause numbers, on one line and without markup.
type paragraph struct {
	text      string
	heading   string // the one it stands under, in lower case
	preamble  bool   // it stands before the first heading
	isHeading bool
	sentences []sentence
}

// sentence is a sentence, or a part of one that ends with a semicolon.
type sentence struct {
	text    string
	lower   string
	heading string
}

func newText(source string) *text {
	return &text{source: strings.ReplaceAll(source, "\r\n", "\n"), facts: map[string]any{}}
}

// paragraphs returns the text in paragraphs.
func (t *text) paragraphs() []paragraph {
	if t.parts == nil {
		t.parts = split(t.source)
	}
	return t.parts
}

// words returns the words and numbers of the text in lower case.
func (t *text) words() []string {
	if t.tokens == nil {
		t.tokens = strings.FieldsFunc(strings.ToLower(t.source), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	}
	return t.tokens
}

// russian reports whether most letters of the text are Cyrillic.
func (t *text) russian() bool { return mostlyCyrillic(t.source) }

func mostlyCyrillic(s string) bool {
	balance := 0
	for _, r := range s {
		switch {
		case unicode.Is(unicode.Cyrillic, r):
			balance++
		case unicode.Is(unicode.Latin, r):
			balance--
		}
	}
	return balance > 0
}

// lead returns the beginning of the text: its first sentences, up to limit characters.
func (t *text) lead(limit int) string {
	var lead strings.Builder
	for _, p := range t.paragraphs() {
		for _, s := range p.sentences {
			if lead.Len() > 0 && lead.Len()+len(s.text) > limit {
				return lead.String()
			}
			if lead.Len() > 0 {
				lead.WriteByte(' ')
			}
			lead.WriteString(s.text)
		}
	}
	return clip(lead.String(), limit)
}

// clip cuts s after limit characters, at a space where there is one.
func clip(s string, limit int) string {
	if limit <= 0 || utf8.RuneCountInString(s) <= limit {
		return s
	}
	cut := string([]rune(s)[:limit])
	if i := strings.LastIndexByte(cut, ' '); i > len(cut)/2 {
		cut = cut[:i]
	}
	return strings.TrimRight(cut, " ,;:")
}

var (
	clause = regexp.MustCompile(`^(?:\d{1,2}(?:\.\d{1,2}){1,3}[.)]?|\(?[a-zа-я]\)|\(\d{1,2}\)|[-*•–—])\s+`)
	label  = regexp.MustCompile(`^[\p{L}][\p{L} ./№-]{0,40}:\s`)
)

// unmark drops the signs by which Markdown marks words.
func unmark(line string) string {
	for _, sign := range []string{"**", "__", "`"} {
		line = strings.ReplaceAll(line, sign, "")
	}
	return line
}

// split cuts a document into paragraphs. Lines that are wrapped in the middle of a sentence are joined.
func split(source string) []paragraph {
	s := splitter{preamble: true}
	for line := range strings.Lines(source) {
		s.line(strings.TrimSpace(unmark(line)))
	}
	s.end()
	if !s.seen {
		for i := range s.done {
			s.done[i].preamble = true
		}
	}
	return s.done
}

// splitter collects lines into the paragraph that is open.
type splitter struct {
	done     []paragraph
	open     []string
	heading  string
	preamble bool
	seen     bool // a heading
}

func (s *splitter) line(line string) {
	if h, ok := parseHeading(line); ok && (len(s.open) == 0 || h.strong) {
		s.end()
		s.heading, s.preamble, s.seen = strings.ToLower(h.title), false, true
		s.done = append(s.done, paragraph{text: h.title, heading: s.heading, isHeading: true})
		return
	}
	line = announce.ReplaceAllString(line, "")
	switch {
	case line == "":
		s.end()
	case clause.MatchString(line):
		s.end()
		s.open = []string{clause.ReplaceAllString(line, "")}
	case label.MatchString(line), len(s.open) > 0 && short(s.open[len(s.open)-1]) && startsUpper(line):
		s.end()
		s.open = []string{line}
	default:
		s.open = append(s.open, line)
	}
}

// short reports whether a line is too short to have been broken by wrapping: then the next one begins something new.
func short(line string) bool { return utf8.RuneCountInString(line) < 50 }

func startsUpper(line string) bool {
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(line, `«"“(№# `))
	return unicode.IsUpper(first) || strings.HasPrefix(line, "№")
}

func (s *splitter) end() {
	if len(s.open) == 0 {
		return
	}
	joined := strings.Join(strings.Fields(strings.TrimLeft(strings.Join(s.open, " "), "# ")), " ")
	s.open = nil
	if joined == "" {
		return
	}
	p := paragraph{text: joined, heading: s.heading, preamble: s.preamble}
	for _, part := range sentences(joined) {
		p.sentences = append(p.sentences, sentence{text: part, lower: strings.ToLower(part), heading: s.heading})
	}
	s.done = append(s.done, p)
}

// sentences cuts one paragraph at full stops and semicolons that really end something.
func sentences(p string) []string {
	var parts []string
	start := 0
	for i := 0; i < len(p)-1; i++ {
		if p[i+1] == ' ' && strings.IndexByte(".!?;", p[i]) >= 0 && ends(p[start:i+1], p[i+2:]) {
			parts = append(parts, p[start:i+1])
			start = i + 2
		}
	}
	return append(parts, p[start:])
}

// abbreviations are words whose full stop does not end a sentence.
const abbreviations = " ул д стр корп лит кв тел п пп ст им пр просп т тыс млн г гг см no nos mr mrs ms dr st art sec cf approx pte inc ltd co corp vs incl "

// ends reports whether the text so far, which ends with a mark, is complete, given what follows it.
func ends(sofar, rest string) bool {
	if strings.HasSuffix(sofar, ";") {
		return true
	}
	next, _ := utf8.DecodeRuneInString(strings.TrimLeft(rest, `«"“`))
	if !unicode.IsUpper(next) {
		return false
	}
	words := strings.Fields(strings.TrimSuffix(sofar, "."))
	if len(words) == 0 {
		return false
	}
	last := strings.ToLower(words[len(words)-1])
	if last == "г" && len(words) > 1 && isYear(words[len(words)-2]) {
		return true
	}
	return !strings.Contains(abbreviations, " "+last+" ") && utf8.RuneCountInString(last) > 1
}

func isYear(word string) bool {
	if len(word) != 4 {
		return false
	}
	return strings.Trim(word, "0123456789") == ""
}
