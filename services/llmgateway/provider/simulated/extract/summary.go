package extract

import (
	"fmt"
	"strings"
)

// summary sums the document up in a few sentences, in its language, from the facts that are known of it. Where none
// are, it is the document's beginning.
func (f *filler) summary() string {
	names := factNames()
	known := func(kind string) string { return f.known(kind, names[kind]) }
	var parts []string
	for _, p := range phrases(f.russian()) {
		if s := p.render(known); s != "" {
			parts = append(parts, s)
		}
	}
	if len(parts) == 0 {
		return f.text.lead(leadRunes)
	}
	return strings.Join(parts, " ")
}

// phrase is a sentence with places for facts; it is said only if all of them are known.
type phrase struct {
	format string
	facts  []string
}

// phrases returns what a summary may say, in its order.
func phrases(russian bool) []phrase {
	if russian {
		return []phrase{
			{"Договор № %s от %s.", []string{factNumber, factDate}},
			{"Стороны: %s и %s.", []string{factPartyA, factPartyB}},
			{"Предмет: %s.", []string{factSubject}},
			{"Сумма: %s %s.", []string{factAmount, factCurrency}},
			{"Срок оплаты: %s дн.", []string{factPayDays}},
			{"Действует до %s.", []string{factUntil}},
		}
	}
	return []phrase{
		{"Contract %s of %s.", []string{factNumber, factDate}},
		{"Parties: %s and %s.", []string{factPartyA, factPartyB}},
		{"Subject: %s.", []string{factSubject}},
		{"Total: %s %s.", []string{factAmount, factCurrency}},
		{"Payment within %s days.", []string{factPayDays}},
		{"In force until %s.", []string{factUntil}},
	}
}

func (p phrase) render(known func(string) string) string {
	values := make([]any, len(p.facts))
	for i, fact := range p.facts {
		value := known(fact)
		if value == "" {
			return ""
		}
		values[i] = value
	}
	return strings.TrimRight(fmt.Sprintf(p.format, values...), ".") + "." // a name may end with a full stop of its own
}

// known returns a fact as text, from what the prompt carries under one of its names or else from the document; "" if neither says it.
func (f *filler) known(kind, names string) string {
	mentioned := false
	for name := range strings.FieldsSeq(names) {
		values, ok := f.found[name]
		mentioned = mentioned || ok
		for _, v := range values {
			if s := plain(v); s != "" {
				return s
			}
		}
	}
	if mentioned {
		return ""
	}
	return plain(f.text.fact(kind))
}

// russian reports whether the values that the prompt carries, and the text, are mostly Russian.
func (f *filler) russian() bool {
	var all strings.Builder
	for _, values := range f.found {
		for _, v := range values {
			all.WriteString(plain(v))
		}
	}
	return mostlyCyrillic(all.String() + f.text.source)
}
