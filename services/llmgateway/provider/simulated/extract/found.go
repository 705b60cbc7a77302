package extract

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// found holds the values that a prompt carries as JSON: what earlier steps extracted, part by part.
type found map[string][]any // by property name, in the order of the text; nil values are kept

// readFound takes the JSON values out of the text. Members that the schema asks for are values found earlier; the strings of
// all other members are text to read, as in {"title": …, "text": …}. It returns the values and the text that remains.
func readFound(source string, asked map[string]bool) (found, string) {
	if !strings.ContainsAny(source, "{[") {
		return nil, source
	}
	values := found{}
	var rest strings.Builder
	for {
		at := strings.IndexAny(source, "{[")
		if at < 0 {
			rest.WriteString(source)
			return values, rest.String()
		}
		rest.WriteString(source[:at])
		source = source[at:]
		dec := json.NewDecoder(strings.NewReader(source))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil || !structured(v) {
			rest.WriteString(source[:1])
			source = source[1:]
			continue
		}
		values.take(v, asked, &rest)
		source = source[dec.InputOffset():]
	}
}

// structured reports whether v is an object or a list of them: brackets in prose are neither.
func structured(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return true
	case []any:
		return len(v) > 0 && structured(v[0])
	}
	return false
}

// take walks a JSON value. Text that is not asked for as a value goes to rest, titles before what they stand over.
func (f found) take(v any, asked map[string]bool, rest *strings.Builder) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			f.take(item, asked, rest)
		}
	case map[string]any:
		for _, name := range titlesFirst(v) {
			if asked[name] && !structured(v[name]) {
				f[name] = append(f[name], v[name])
				continue
			}
			f.take(v[name], asked, rest)
		}
	case string:
		rest.WriteString("\n\n" + v)
	}
}

// titlesFirst returns the names of an object in their order, but a title's first: in JSON names are sorted.
func titlesFirst(object map[string]any) []string {
	names := slices.Sorted(maps.Keys(object))
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return names
}

func rank(name string) int {
	if isTitle(name) {
		return 0
	}
	return 1
}

// first returns the first value found for a property that fits it. It also reports whether the property was found at all,
// if only as null.
func (f found) first(p property) (value []byte, mentioned bool) {
	values, mentioned := f[p.name]
	for _, v := range values {
		if v == nil {
			continue
		}
		if value, ok := fit(p.node, v); ok {
			return value, true
		}
	}
	return nil, mentioned
}
