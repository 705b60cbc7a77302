package expr

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// Kind is a type of JSON value.
type Kind int

// The kinds. Null is none of them: every value may be null instead of its kind.
const (
	Unknown Kind = iota
	Bool
	Integer
	Number
	String
	List
	Object
)

// String names the kind for messages.
func (k Kind) String() string {
	return [...]string{"value", "bool", "whole number", "number", "text", "list", "object"}[k]
}

// placeholder is a name that stands for a value of a known kind while types are checked.
type placeholder struct {
	kind Kind
	name string
	t    *cel.Type
}

// placeholders exist for the kinds that CEL's check is used for. Their types let null in, so that a value which is never
// null may still be compared with it. A Number may be an int or a double, which CEL keeps apart.
func placeholders() []placeholder {
	return []placeholder{
		{Bool, "@bool", cel.NullableType(cel.BoolType)},
		{Integer, "@integer", cel.NullableType(cel.IntType)},
		{String, "@string", cel.NullableType(cel.StringType)},
	}
}

// Shape is what is known of a value before it exists. The zero Shape knows nothing.
type Shape struct {
	Kind Kind
	// Fields are the known fields of an object. Closed says that there are no others.
	Fields map[string]*Shape
	Closed bool
	// Items is the shape of a list's items; nil if unknown.
	Items *Shape
}

// ListOf is the shape of a list.
func ListOf(items *Shape) *Shape { return &Shape{Kind: List, Items: items} }

// Item is the shape of the items, if the value is a list.
func (s *Shape) Item() *Shape {
	if s.Kind == List && s.Items != nil {
		return s.Items
	}
	return &Shape{}
}

// shapeOfType is what a result type of CEL says of the value.
func shapeOfType(t *cel.Type) *Shape {
	switch t.Kind() {
	case types.BoolKind:
		return &Shape{Kind: Bool}
	case types.IntKind, types.UintKind:
		return &Shape{Kind: Integer}
	case types.DoubleKind:
		return &Shape{Kind: Number}
	case types.StringKind, types.BytesKind, types.TimestampKind, types.DurationKind:
		return &Shape{Kind: String}
	case types.ListKind:
		return &Shape{Kind: List, Items: shapeOfType(t.Parameters()[0])}
	case types.MapKind:
		return &Shape{Kind: Object}
	default:
		return &Shape{}
	}
}
