package extract

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// choose picks the enum value whose cue words the text says most often. Cue words are the value's own and those that the
// property's description or the instructions give after it: "billing: invoice, refund, оплата".
func (f *filler) choose(p property) []byte {
	won, most, ties := any(nil), 0, 0
	for _, choice := range p.node.choices {
		value, ok := choice.(string)
		if !ok {
			continue
		}
		switch hits := f.hits(value, p.node.description); {
		case hits > most:
			won, most, ties = choice, hits, 0
		case hits == most && hits > 0:
			ties++
		}
	}
	if most == 0 {
		won = f.fallback(p.node)
	}
	f.doubt = f.doubt || ties > 0 || most == 0 && len(p.node.choices) > 1
	return encode(won)
}

// hits counts the words of the text that are cue words of an enum value.
func (f *filler) hits(value, description string) int {
	cues := nameWords(value)
	cues = append(cues, glossary(description, value)...)
	cues = append(cues, glossary(f.instructions, value)...)
	hits := 0
	for _, word := range f.text.words() {
		if slices.ContainsFunc(cues, func(cue string) bool { return strings.HasPrefix(word, stem(cue)) }) {
			hits++
		}
	}
	return hits
}

// glossary returns the words that explain value in a text such as "billing: invoice, refund; delivery — parcel".
func glossary(explanation, value string) []string {
	var words []string
	for part := range strings.FieldsFuncSeq(strings.ToLower(explanation), func(r rune) bool { return r == '\n' || r == ';' || r == '.' }) {
		part = strings.TrimLeft(part, " -*•`\"")
		rest, ok := strings.CutPrefix(part, strings.ToLower(value))
		if !ok || !strings.ContainsAny(head(strings.TrimLeft(rest, " `\""), 1), ":—–-=(") {
			continue
		}
		for word := range strings.FieldsFuncSeq(rest, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			if utf8.RuneCountInString(word) > 3 {
				words = append(words, word)
			}
		}
	}
	return words
}

// fallback is the answer when nothing speaks for any value: null, a value that means "none of these", or the first.
func (f *filler) fallback(n *node) any {
	if n.nullable {
		return nil
	}
	for _, choice := range n.choices {
		if value, ok := choice.(string); ok && has(strings.ToLower(value), "other", "unknown", "none", "general", "misc", "друг", "проч", "неизвестн") {
			return choice
		}
	}
	return n.choices[0]
}
