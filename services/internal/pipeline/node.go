package pipeline

import (
	"pawl.internal/services/internal/canon"
)

// kind is a type of JSON value.
type kind int

const (
	null kind = iota
	boolean
	number
	text
	list
	object
)

// String names the kind for messages.
func (k kind) String() string {
	return [...]string{"null", "true or false", "a number", "a text", "a list", "an object"}[k]
}

// node is a value of the source, with its place. Nodes never change; aliases of YAML make them be shared.
type node struct {
	kind kind
	// at is where the value begins.
	at Position
	// value is a text's value, a number's canonical form, or true or false.
	value  string
	items  []*node
	fields []field
}

// field is a field of an object, in the order of the source.
type field struct {
	key   string
	at    Position
	value *node
}

// field gives a field's value; nil if there is none, or no object.
func (n *node) field(key string) *node {
	if n == nil {
		return nil
	}
	for _, f := range n.fields {
		if f.key == key {
			return f.value
		}
	}
	return nil
}

// find follows a path as far as it leads: to the value, or to the one that it is missing in.
func (n *node) find(where path) *node {
	found, _ := n.follow(where)
	return found
}

// has says whether a path leads to a value.
func (n *node) has(where path) bool {
	_, all := n.follow(where)
	return all
}

func (n *node) follow(where path) (found *node, all bool) {
	for _, part := range where {
		var next *node
		switch part := part.(type) {
		case string:
			next = n.field(part)
		case int:
			if part < len(n.items) {
				next = n.items[part]
			}
		}
		if next == nil {
			return n, false
		}
		n = next
	}
	return n, true
}

// appendJSON appends the value as JSON, with fields in the order of the source.
func (n *node) appendJSON(dst []byte) []byte {
	switch n.kind {
	case null:
		return append(dst, "null"...)
	case boolean, number:
		return append(dst, n.value...)
	case text:
		dst, _ = canon.AppendString(dst, n.value) // fails for invalid UTF-8 only, which no reader lets through
		return dst
	case list:
		dst = append(dst, '[')
		for i, item := range n.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = item.appendJSON(dst)
		}
		return append(dst, ']')
	case object:
		dst = append(dst, '{')
		for i, f := range n.fields {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst, _ = canon.AppendString(dst, f.key)
			dst = f.value.appendJSON(append(dst, ':'))
		}
		return append(dst, '}')
	default:
		return dst
	}
}
