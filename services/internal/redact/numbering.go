package redact

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Numbering masks texts with numbered placeholders, and remembers what each of them stands for, so that the originals can be
// put back. The same original has the same number in all texts of one Numbering. It is not safe for concurrent use.
type Numbering struct {
	byOriginal    map[original]string
	byPlaceholder map[string]string
	last          map[Kind]int
}

type original struct {
	kind Kind
	text string
}

// NewNumbering returns a Numbering that knows no originals. Texts are those that will be masked with it, as far as they are
// known: placeholders that stand in them already, because somebody has typed them, are not given out.
func NewNumbering(texts ...string) *Numbering {
	n := &Numbering{byOriginal: map[original]string{}, byPlaceholder: map[string]string{}, last: map[Kind]int{}}
	for _, text := range texts {
		n.avoid(text)
	}
	return n
}

// avoid keeps placeholders that stand in a text from being given out.
func (n *Numbering) avoid(text string) {
	for _, p := range placeholders(text) {
		typed := text[p.start:p.end]
		if _, ours := n.byPlaceholder[typed]; !ours {
			n.byPlaceholder[typed] = typed
		}
	}
}

// Mask returns the text with a numbered placeholder in place of everything that is found. Bytes that are no UTF-8 are
// replaced by U+FFFD.
func (n *Numbering) Mask(text string) string {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	n.avoid(text)
	return replace(text, Find(text), func(f Finding) string { return n.placeholder(f.Kind, text[f.Start:f.End]) })
}

func (n *Numbering) placeholder(kind Kind, text string) string {
	key := original{kind, text}
	if p, known := n.byOriginal[key]; known {
		return p
	}
	for {
		n.last[kind]++
		p := fmt.Sprintf("[%s_%d]", kind, n.last[kind])
		if _, taken := n.byPlaceholder[p]; !taken {
			n.byOriginal[key], n.byPlaceholder[p] = p, text
			return p
		}
	}
}

// Originals returns what each placeholder that was given out stands for: what a vault keeps.
func (n *Numbering) Originals() map[string]string {
	originals := make(map[string]string, len(n.byOriginal))
	for key, p := range n.byOriginal {
		originals[p] = key.text
	}
	return originals
}

// Unmask puts the originals back. Placeholders that stand for nothing are left as they are.
func Unmask(text string, originals map[string]string) string {
	var b strings.Builder
	end := 0
	for _, p := range placeholders(text) {
		if o, known := originals[text[p.start:p.end]]; known {
			b.WriteString(text[end:p.start])
			b.WriteString(o)
			end = p.end
		}
	}
	b.WriteString(text[end:])
	return b.String()
}
