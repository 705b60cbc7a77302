package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"pawl.internal/services/internal/suggest"
)

// problem is something wrong in the file, and where.
type problem struct {
	line, column int
	text         string
}

// reader walks a YAML document and collects everything that is wrong with it, instead of stopping at the first.
type reader struct{ problems []problem }

// fields says which keys a mapping may have, and what reads each one's value.
type fields map[string]func(n *yaml.Node, path string)

// complain notes a problem at the node.
func (r *reader) complain(n *yaml.Node, path, format string, args ...any) {
	r.problems = append(r.problems, problem{n.Line, n.Column, strings.TrimPrefix(path+": "+fmt.Sprintf(format, args...), ": ")})
}

// err returns all problems in the order of the file, one a line; nil if there are none.
func (r *reader) err(file string) error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b problem) int {
		if a.line != b.line {
			return a.line - b.line
		}
		return a.column - b.column
	})
	lines := make([]string, len(r.problems))
	for i, p := range r.problems {
		lines[i] = fmt.Sprintf("%s:%d:%d: %s", file, p.line, p.column, p.text)
	}
	return fmt.Errorf("%s", strings.Join(lines, "\n"))
}

// mapping reads the keys of n; it complains about keys that are unknown, given twice, or required and missing.
func (r *reader) mapping(n *yaml.Node, path string, known fields, required ...string) {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		r.complain(n, path, "must be a mapping of %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		return
	}
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read, ok := known[key.Value]
		switch {
		case !ok:
			r.complain(key, path, "unknown field %q%s", key.Value, suggest.DidYouMean(key.Value, maps.Keys(known)))
		case seen[key.Value]:
			r.complain(key, path, "%q is given twice", key.Value)
		default:
			read(value, join(path, key.Value))
		}
		seen[key.Value] = true
	}
	for _, name := range required {
		if !seen[name] {
			r.complain(n, path, "%q is missing", name)
		}
	}
}

// entries reads a mapping whose keys are names of the user's.
func (r *reader) entries(n *yaml.Node, path string, read func(name, value *yaml.Node, path string)) {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		r.complain(n, path, "must be a mapping of names")
		return
	}
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		name := n.Content[i]
		if seen[name.Value] {
			r.complain(name, path, "%q is given twice", name.Value)
		}
		seen[name.Value] = true
		read(name, n.Content[i+1], join(path, name.Value))
	}
}

// list reads the elements of n, which must not be empty.
func (r *reader) list(n *yaml.Node, path string, read func(n *yaml.Node, path string)) {
	n = resolve(n)
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		r.complain(n, path, "must be a list with at least one element")
		return
	}
	for i, element := range n.Content {
		read(element, path+"["+strconv.Itoa(i)+"]")
	}
}

// text reads a string that is not empty into dst.
func (r *reader) text(dst *string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		n = resolve(n)
		if n.Kind != yaml.ScalarNode || strings.TrimSpace(n.Value) == "" || n.Tag == "!!null" {
			r.complain(n, path, "must be a text")
			return
		}
		*dst = n.Value
	}
}

// positive reads a whole number above zero into dst.
func (r *reader) positive(dst *int) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		n = resolve(n)
		number, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || number <= 0 {
			r.complain(n, path, "must be a whole number above 0")
			return
		}
		*dst = number
	}
}

// count reads a whole number above zero into dst, however large.
func (r *reader) count(dst *int64) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		n = resolve(n)
		number, err := strconv.ParseInt(n.Value, 10, 64)
		if n.Kind != yaml.ScalarNode || err != nil || number <= 0 {
			r.complain(n, path, "must be a whole number above 0")
			return
		}
		*dst = number
	}
}

// share reads a part of a whole into dst.
func (r *reader) share(dst *float64) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		n = resolve(n)
		part, err := strconv.ParseFloat(n.Value, 64)
		if n.Kind != yaml.ScalarNode || err != nil || !(part >= 0 && part <= 1) {
			r.complain(n, path, "must be a share from 0 to 1, such as 0.2")
			return
		}
		*dst = part
	}
}

// truth reads true or false into dst.
func (r *reader) truth(dst *bool) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n = resolve(n); n.Decode(dst) != nil || n.Tag != "!!bool" {
			r.complain(n, path, "must be true or false")
		}
	}
}

// duration reads a time such as 120s into dst.
func (r *reader) duration(dst *time.Duration) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		n = resolve(n)
		d, err := time.ParseDuration(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || d <= 0 {
			r.complain(n, path, "must be a duration above 0, such as 120s")
			return
		}
		*dst = d
	}
}

// date reads a day or a time, in UTC unless it says otherwise, into dst.
func (r *reader) date(dst *time.Time) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		n = resolve(n)
		for _, layout := range []string{time.DateOnly, time.RFC3339} {
			if at, err := time.Parse(layout, n.Value); err == nil {
				*dst = at.UTC()
				return
			}
		}
		r.complain(n, path, "must be a day such as 2026-01-31, or a time such as 2026-01-31T08:00:00Z")
	}
}

// oneOf reads one of the words into dst.
func oneOf[T ~string](r *reader, dst *T, words ...T) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		n = resolve(n)
		if n.Kind == yaml.ScalarNode && slices.Contains(words, T(n.Value)) {
			*dst = T(n.Value)
			return
		}
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = strconv.Quote(string(w))
		}
		r.complain(n, path, "%q is not known here: use %s", n.Value, strings.Join(quoted, " or "))
	}
}

// resolve follows an alias.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
