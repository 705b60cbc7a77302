package pipeline

import "pawl.internal/services/internal/expr"

// shapeOfSchema is what a schema says of the values that fit it, as far as it says it plainly: a type, and the properties
// and items below. What is said by combining schemas is left open.
func shapeOfSchema(schema *node) *expr.Shape {
	if schema == nil || schema.kind != object {
		return &expr.Shape{}
	}
	for _, combining := range []string{"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "$recursiveRef"} {
		if schema.field(combining) != nil {
			return &expr.Shape{}
		}
	}
	shape := typeOfSchema(schema.field("type"))
	switch shape.Kind {
	case expr.Object:
		shape.Fields = map[string]*expr.Shape{}
		if properties := schema.field("properties"); properties != nil {
			for _, property := range properties.fields {
				shape.Fields[property.key] = shapeOfSchema(property.value)
			}
		}
		additional := schema.field("additionalProperties")
		shape.Closed = additional != nil && additional.kind == boolean && additional.value == "false" && schema.field("patternProperties") == nil
	case expr.List:
		if schema.field("prefixItems") == nil {
			shape.Items = shapeOfSchema(schema.field("items"))
		}
	default:
	}
	return shape
}

// typeOfSchema reads `type`, which is a word or a list of words.
func typeOfSchema(declared *node) *expr.Shape {
	if declared == nil {
		return &expr.Shape{}
	}
	words := []*node{declared}
	if declared.kind == list {
		words = declared.items
	}
	shape := &expr.Shape{}
	for _, word := range words {
		kind, known := map[string]expr.Kind{
			"boolean": expr.Bool, "integer": expr.Integer, "number": expr.Number, "string": expr.String,
			"array": expr.List, "object": expr.Object,
		}[word.value]
		switch {
		case word.value == "null": // every value may be null
		case !known || shape.Kind != expr.Unknown:
			return &expr.Shape{}
		default:
			shape.Kind = kind
		}
	}
	return shape
}
