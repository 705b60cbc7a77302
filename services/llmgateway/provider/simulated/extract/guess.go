package extract

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Values of a form in running text.
var (
	emails    = regexp.MustCompile(`[\w.+-]+@[\w-]+(?:\.[\w-]+)+`)
	addresses = regexp.MustCompile(`https?://[^\s<>"')\]]*[^\s<>"')\].,;:!?]`)
	uuids     = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	instants  = regexp.MustCompile(`\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})`)
	phones    = regexp.MustCompile(`\+?\d[\d ()-]{8,18}\d`)
)

// form returns the pattern that finds what n asks for, by its format or its own pattern; nil if it has neither.
func form(n *node) *regexp.Regexp {
	switch n.format {
	case "email":
		return emails
	case "uri":
		return addresses
	case "uuid":
		return uuids
	case "date-time":
		return instants
	case "phone":
		return phones
	}
	if n.pattern != nil {
		return unanchored(n.pattern)
	}
	return nil
}

// unknownDate fills a date that the text does not give and the schema does not let be null.
const unknownDate = "0001-01-01"

// guess answers a property that no rule knows, by its choices, format, pattern, a label in the text, or its type.
func (f *filler) guess(p property) []byte {
	if len(p.node.choices) > 0 {
		return f.choose(p)
	}
	if p.node.kind == "boolean" {
		return encode(f.says(p))
	}
	candidates := f.afterLabel(p)
	if p.node.format != "date" || !p.node.nullable { // a text has many dates: a wrong one is worse than none
		candidates = append(candidates, f.candidates(formed(p))...)
	}
	for _, candidate := range candidates {
		if value, ok := fit(p.node, candidate); ok {
			return value
		}
	}
	if p.node.nullable {
		return []byte("null")
	}
	return f.filling(p)
}

// formed returns the node with the format that the property's name suggests, where the schema gives none.
func formed(p property) *node {
	n := *p.node
	words := strings.Join(nameWords(p.name), " ")
	switch {
	case n.format != "":
	case has(words, "email", "mail", "почта"):
		n.format = "email"
	case has(words, "phone", "телефон"):
		n.format = "phone"
	case has(words, "url", "link", "website"):
		n.format = "uri"
	}
	return &n
}

// candidates returns everything in the text that has the form of n.
func (f *filler) candidates(n *node) []any {
	var all []any
	if n.format == "date" {
		for _, d := range dates(f.text.source) {
			all = append(all, d.iso)
		}
		return all
	}
	if p := form(n); p != nil {
		for _, m := range p.FindAllString(f.text.source, -1) {
			all = append(all, m)
		}
	}
	return all
}

// points returns the list points of the text.
func (f *filler) points() []any {
	var all []any
	for line := range strings.Lines(f.text.source) {
		if point, ok := strings.CutPrefix(strings.TrimSpace(line), "- "); ok {
			all = append(all, point)
		}
	}
	return all
}

// unanchored returns a pattern without the anchors that hold it to a whole value, so that it finds values inside a text.
func unanchored(p *regexp.Regexp) *regexp.Regexp {
	source := strings.TrimSuffix(strings.TrimPrefix(p.String(), "^"), "$")
	if free, err := regexp.Compile(source); err == nil {
		return free
	}
	return p
}

var number = regexp.MustCompile(`-?\d+(?:[.,]\d+)?`)

// afterLabel returns what follows the property's name or title in the text: "Order id: 17-A", "возраст 42".
func (f *filler) afterLabel(p property) []any {
	var all []any
	for _, name := range []string{strings.Join(nameWords(p.name), " "), strings.ToLower(p.node.title)} {
		if name == "" {
			continue
		}
		for line := range strings.Lines(f.text.source) {
			lower := strings.ToLower(line)
			at := begins(lower, name)
			if at < 0 || len(lower) != len(line) {
				continue
			}
			all = append(all, labelled(p.node, strings.TrimRight(line[at+len(name):], "\n"))...)
		}
	}
	return all
}

// labelled returns the value for n in what stands after its label.
func labelled(n *node, rest string) []any {
	if n.kind == "number" || n.kind == "integer" {
		return []any{json.Number(strings.Replace(number.FindString(rest), ",", ".", 1))}
	}
	if n.format == "date" {
		var all []any
		for _, d := range dates(rest) {
			all = append(all, d.iso)
		}
		return all
	}
	if value, ok := strings.CutPrefix(strings.TrimLeft(rest, " *"), ":"); ok {
		return []any{strings.Trim(value, " *")}
	}
	return nil
}

// says reports whether the text speaks of what a yes-or-no property is named after, and does not deny it.
func (f *filler) says(p property) bool {
	for _, word := range nameWords(p.name) {
		if utf8.RuneCountInString(word) < 4 {
			continue // is, has, can
		}
		words := f.text.words()
		for i, w := range words {
			if strings.HasPrefix(w, stem(word)) {
				return i == 0 || !has(words[i-1], "not", "no", "never", "without", "не", "нет", "без")
			}
		}
	}
	return false
}

// stem drops the last letters of a long word, where inflection happens.
func stem(word string) string {
	runes := []rune(word)
	return string(runes[:max(min(len(runes), 4), len(runes)-2)])
}

// filling is a value of the right form that claims nothing.
func (f *filler) filling(p property) []byte {
	switch {
	case p.node.format == "date":
		return encode(unknownDate)
	case p.node.kind == "number" || p.node.kind == "integer":
		for _, v := range []*float64{nil, p.node.minimum, p.node.maximum} {
			n := json.Number("0")
			if v != nil {
				n = json.Number(encode(*v))
			}
			if value, ok := fit(p.node, n); ok {
				return value
			}
		}
		return []byte("0")
	}
	if value, ok := fit(p.node, f.text.lead(leadRunes)); ok {
		return value
	}
	return encode(strings.Repeat("-", p.node.minLength))
}
