package strict

import (
	"encoding/json"
	"strings"
)

// local returns the pointer of a reference within the schema; empty if it leads elsewhere.
func local(value json.RawMessage) string {
	var ref string
	if json.Unmarshal(value, &ref) != nil || !strings.HasPrefix(ref, "#") {
		return ""
	}
	return ref
}

// refersInCircles reports whether a part of the schema contains itself by reference. References to the top always do.
func refersInCircles(schema []byte) bool {
	var top any
	if json.Unmarshal(schema, &top) != nil {
		return false
	}
	w := walk{top: top, open: map[string]bool{}}
	return w.circles(top)
}

// walk follows the references of a schema.
type walk struct {
	top  any
	open map[string]bool // references that are being followed; false once they have been
}

func (w *walk) circles(node any) bool {
	switch node := node.(type) {
	case []any:
		for _, part := range node {
			if w.circles(part) {
				return true
			}
		}
	case map[string]any:
		if ref, ok := node["$ref"].(string); ok && w.follow(ref) {
			return true
		}
		for _, part := range node {
			if w.circles(part) {
				return true
			}
		}
	}
	return false
}

func (w *walk) follow(ref string) bool {
	open, seen := w.open[ref]
	if seen {
		return open
	}
	w.open[ref] = true
	circles := ref == "#" || w.circles(w.at(ref))
	w.open[ref] = false
	return circles
}

// at returns what a reference leads to; nil for nothing.
func (w *walk) at(ref string) any {
	node := w.top
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		object, ok := node.(map[string]any)
		if !ok {
			return nil
		}
		node = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
	}
	return node
}
