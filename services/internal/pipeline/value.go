package pipeline

import (
	"encoding/json"

	"pawl.internal/services/internal/canon"
	"pawl.internal/services/internal/expr"
)

// value is a template value: a JSON value whose texts are templates.
type value struct {
	kind kind
	// One of these is used: for a text, a list, an object, and all else.
	template *expr.Template
	items    []*value
	fields   []valueField
	constant any
}

// valueField is a field of an object, in the order of the source.
type valueField struct {
	key   string
	value *value
}

// eval fills in the templates. Errors are of type *expr.EvalError.
func (v *value) eval(scope *expr.Scope) (any, error) {
	switch v.kind {
	case text:
		return v.template.Value(scope)
	case list:
		items := make([]any, len(v.items))
		for i, item := range v.items {
			var err error
			if items[i], err = item.eval(scope); err != nil {
				return nil, err
			}
		}
		return items, nil
	case object:
		fields := make(map[string]any, len(v.fields))
		for _, f := range v.fields {
			var err error
			if fields[f.key], err = f.value.eval(scope); err != nil {
				return nil, err
			}
		}
		return fields, nil
	default:
		return v.constant, nil
	}
}

// evalJSON fills in the templates and gives canonical JSON.
func (v *value) evalJSON(scope *expr.Scope) (json.RawMessage, error) {
	result, err := v.eval(scope)
	if err != nil {
		return nil, err
	}
	return canon.Append(nil, result)
}

// refs says what the templates refer to.
func (v *value) refs() expr.Refs {
	if v == nil {
		return expr.Refs{}
	}
	if v.template != nil {
		return v.template.Refs()
	}
	refs := expr.Refs{}
	for _, item := range v.items {
		refs = refs.Union(item.refs())
	}
	for _, f := range v.fields {
		refs = refs.Union(f.value.refs())
	}
	return refs
}

// shape says what is known of the value.
func (v *value) shape() *expr.Shape {
	switch v.kind {
	case null:
		return &expr.Shape{}
	case boolean:
		return &expr.Shape{Kind: expr.Bool}
	case number:
		return &expr.Shape{Kind: expr.Number}
	case text:
		return v.template.Shape()
	case list:
		if len(v.items) == 0 {
			return expr.ListOf(&expr.Shape{})
		}
		items := v.items[0].shape()
		for _, item := range v.items[1:] {
			if item.shape().Kind != items.Kind || items.Kind == expr.Object || items.Kind == expr.List {
				items = &expr.Shape{}
			}
		}
		return expr.ListOf(items)
	default:
		shape := &expr.Shape{Kind: expr.Object, Closed: true, Fields: map[string]*expr.Shape{}}
		for _, f := range v.fields {
			shape.Fields[f.key] = f.value.shape()
		}
		return shape
	}
}

// constantOf gives the value of a node that is no text, list or object.
func constantOf(n *node) any {
	switch n.kind {
	case boolean:
		return n.value == "true"
	case number:
		return json.Number(n.value)
	default:
		return nil
	}
}
