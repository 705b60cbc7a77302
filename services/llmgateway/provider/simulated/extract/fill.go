package extract

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
)

// filler makes the answer to one prompt.
type filler struct {
	text         *text
	instructions string
	found        found
	doubt        bool // an answer was a guess between alternatives
}

func newFiller(p Prompt, root *node) *filler {
	asked := map[string]bool{}
	collect(root, asked)
	values, rest := readFound(p.Text, asked)
	return &filler{text: newText(rest), instructions: p.Instructions, found: values}
}

// collect gathers the names that the schema asks for once: those below lists are asked for anew for every item.
func collect(n *node, names map[string]bool) {
	for _, p := range n.properties {
		names[p.name] = true
		collect(p.node, names)
	}
}

// value returns the JSON value for a property.
func (f *filler) value(p property) []byte {
	switch p.node.kind {
	case "null":
		return []byte("null")
	case "object":
		return f.object(p.node)
	case "array":
		return f.array(p)
	}
	return f.scalar(p)
}

// object fills every property that the schema names, required or not. How sure the answer is, it says after giving it.
func (f *filler) object(n *node) []byte {
	values := make([][]byte, len(n.properties))
	for i, p := range n.properties {
		if p.fact != factDoubt {
			values[i] = f.value(p)
		}
	}
	for i, p := range n.properties {
		if p.fact == factDoubt {
			values[i] = f.value(p)
		}
	}
	var out bytes.Buffer
	out.WriteByte('{')
	for i, p := range n.properties {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(encode(p.name))
		out.WriteByte(':')
		out.Write(values[i])
	}
	out.WriteByte('}')
	return out.Bytes()
}

// scalar tries what the prompt carries, then the rule for this kind of fact, then a guess.
func (f *filler) scalar(p property) []byte {
	if p.fact == factDoubt {
		return f.confidence(p)
	}
	if value, mentioned := f.found.first(p); value != nil {
		return value
	} else if mentioned && p.node.nullable {
		return []byte("null")
	}
	if p.fact != "" {
		if value, ok := fit(p.node, f.fact(p.fact)); ok {
			return value
		}
		if p.node.nullable {
			return []byte("null")
		}
	}
	return f.guess(p)
}

// fact returns a fact of the document; the summary is made of the others.
func (f *filler) fact(kind string) any {
	if kind == factSummary {
		return f.summary()
	}
	return f.text.fact(kind)
}

// confidence is low where the text cannot be read well or an answer was a guess, and the lowest of all parts where the prompt
// carries those.
func (f *filler) confidence(p property) []byte {
	sure := 0.95
	switch {
	case has(strings.ToLower(f.text.source), "illegible", "unreadable", "неразборчив", "нечитаем") || strings.Contains(f.text.source, "???"):
		sure = 0.4
	case f.doubt:
		sure = 0.5
	}
	if p.node.maximum != nil && *p.node.maximum > 1 {
		sure = math.Trunc(sure * *p.node.maximum) // a scale such as 0 to 100
	}
	for _, v := range f.found[p.name] {
		if part, err := strconv.ParseFloat(plain(v), 64); err == nil {
			sure = min(sure, part)
		}
	}
	if p.node.minimum != nil {
		sure = max(sure, *p.node.minimum)
	}
	if value, ok := fit(p.node, strconv.FormatFloat(sure, 'f', -1, 64)); ok {
		return value
	}
	return f.guess(p)
}

// array fills a list: with entries of the document, such as its sections, or with all values of a form.
func (f *filler) array(p property) []byte {
	items := p.node.items
	if items == nil {
		items = &node{}
	}
	var values [][]byte
	if entries, ok := f.entries(p, items); ok {
		values = f.objects(entries, items)
	} else if items.kind != "object" {
		values = f.plains(p, items)
	}
	if limit := p.node.maxItems; limit > 0 && len(values) > limit {
		values = values[:limit]
	}
	for len(values) < p.node.minItems {
		values = append(values, f.value(property{name: p.name, node: items}))
	}
	return slices.Concat([]byte("["), bytes.Join(values, []byte(",")), []byte("]"))
}

// entries returns the parts of the document that a list asks for by its name, or by items of a title and a text: the parties,
// or the sections. It reports whether the list asks for any.
func (f *filler) entries(p property, items *node) ([]section, bool) {
	name := nameWords(p.name)
	if slices.Contains(name, "parties") || slices.Contains(name, "стороны") {
		var both []section
		for _, party := range parties(f.text) {
			both = append(both, section{title: party})
		}
		return both, true
	}
	title := slices.ContainsFunc(items.properties, func(q property) bool { return isTitle(q.name) })
	body := slices.ContainsFunc(items.properties, func(q property) bool { return isBody(q.name) })
	if title && body || has(strings.Join(name, " "), "section", "chapter", "clause", "heading", "parts", "раздел", "глав") {
		return f.text.sections(), true
	}
	return nil, false
}

func isTitle(name string) bool {
	return slices.Contains([]string{"title", "heading", "header", "name"}, name)
}

func isBody(name string) bool { return slices.Contains([]string{"text", "body", "content"}, name) }

// objects fills one item for each entry: with its title and body where they are asked for, and what is read in it otherwise.
// Items that are no objects are the titles.
func (f *filler) objects(entries []section, items *node) [][]byte {
	var values [][]byte
	for _, e := range entries {
		if items.kind != "object" {
			if value, ok := fit(items, e.title); ok {
				values = append(values, value)
			}
			continue
		}
		known := found{}
		for _, q := range items.properties {
			switch {
			case isTitle(q.name):
				known[q.name] = []any{e.title}
			case isBody(q.name):
				known[q.name] = []any{e.body}
			case q.name == "number" || q.name == "index":
				known[q.name] = []any{strconv.Itoa(e.number)}
			}
		}
		part := &filler{text: newText(e.title + "\n\n" + e.body), instructions: f.instructions, found: known}
		values = append(values, part.object(items))
	}
	return values
}

// listed returns the items of the lists of this name that the prompt carries.
func (f *filler) listed(name string) []any {
	var all []any
	for _, v := range f.found[name] {
		if list, ok := v.([]any); ok {
			all = append(all, list...)
		}
	}
	return all
}

// plains fills a list of plain values: those that the prompt carries, then everything in the text that has the form of its
// items, such as list points for strings.
func (f *filler) plains(p property, items *node) [][]byte {
	var values [][]byte
	seen := map[string]bool{}
	candidates := f.candidates(items)
	if items.kind == "string" && items.format == "" && items.pattern == nil {
		candidates = f.points()
	}
	for _, candidate := range append(f.listed(p.name), candidates...) {
		value, ok := fit(items, candidate)
		if ok && !seen[string(value)] {
			seen[string(value)] = true
			values = append(values, value)
		}
	}
	return values
}
