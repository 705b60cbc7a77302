// Package strict knows which JSON Schemas the providers' structured outputs take. What they hold a model to strictly is a
// part of JSON Schema only, and a schema beyond it makes them refuse the whole request. The package is pure.
package strict

import (
	"encoding/json"
	"maps"
	"slices"
)

// rules is what a provider takes.
type rules struct {
	// keywords are those whose value is not looked into.
	keywords []string
	// combinators hold lists of schemas.
	combinators []string
	// allRequired: every property of an object must be required.
	allRequired bool
	// objectOnTop: the schema's top must be an object.
	objectOnTop bool
	// recursive: a schema may refer to itself.
	recursive bool
	// atMostOneItem: minItems may be 0 or 1, and nothing else.
	atMostOneItem bool
}

// OpenAI reports whether the schema may be sent with strict: true.
func OpenAI(schema []byte) bool {
	return rules{
		keywords: append(common(),
			"pattern", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"),
		combinators: []string{"anyOf"}, allRequired: true, objectOnTop: true, recursive: true,
	}.take(schema)
}

// Anthropic reports whether the schema may be sent in output_config.
func Anthropic(schema []byte) bool {
	return rules{
		keywords:    append(common(), "default", "minItems"),
		combinators: []string{"anyOf", "allOf"}, atMostOneItem: true,
	}.take(schema)
}

// IsObject reports whether the schema says at its top that it is of an object.
func IsObject(schema []byte) bool {
	var top struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(schema, &top) == nil && top.Type == "object"
}

// common are the plain keywords that all take. Comments and names of schemas constrain nothing.
func common() []string {
	return []string{"$schema", "$id", "$comment", "title", "description", "type", "enum", "const", "format", "required", "additionalProperties", "$ref"}
}

func (r rules) take(schema []byte) bool {
	if r.objectOnTop && !IsObject(schema) {
		return false
	}
	return r.node(schema) && (r.recursive || !refersInCircles(schema))
}

// node reports whether a schema, or a part of one, is taken.
func (r rules) node(raw json.RawMessage) bool {
	var node map[string]json.RawMessage
	if json.Unmarshal(raw, &node) != nil || node == nil {
		return false // true and false are schemas too, but not these
	}
	for word, value := range node {
		if !r.keyword(word, value) {
			return false
		}
	}
	return r.enum(node["enum"]) && r.object(node)
}

func (r rules) keyword(word string, value json.RawMessage) bool {
	switch {
	case word == "items":
		return r.node(value)
	case word == "properties" || word == "$defs" || word == "definitions":
		var parts map[string]json.RawMessage
		return json.Unmarshal(value, &parts) == nil && r.all(slices.Collect(maps.Values(parts)))
	case slices.Contains(r.combinators, word):
		var parts []json.RawMessage
		return json.Unmarshal(value, &parts) == nil && r.all(parts)
	case word == "minItems" && r.atMostOneItem:
		var n float64
		return json.Unmarshal(value, &n) == nil && (n == 0 || n == 1)
	case word == "$ref":
		return local(value) != ""
	default:
		return slices.Contains(r.keywords, word)
	}
}

func (r rules) all(parts []json.RawMessage) bool {
	return !slices.ContainsFunc(parts, func(p json.RawMessage) bool { return !r.node(p) })
}

// enum holds texts, numbers, truths and null.
func (r rules) enum(raw json.RawMessage) bool {
	var values []any
	if len(raw) == 0 {
		return true
	}
	return json.Unmarshal(raw, &values) == nil && !slices.ContainsFunc(values, func(v any) bool {
		switch v.(type) {
		case map[string]any, []any:
			return true
		default:
			return false
		}
	})
}

// object checks what an object must say: that it has no other properties than those that are named, and, perhaps, that it has
// all of them.
func (r rules) object(node map[string]json.RawMessage) bool {
	_, hasProperties := node["properties"]
	if !hasProperties && !mentionsObject(node["type"]) {
		return true
	}
	if string(node["additionalProperties"]) != "false" {
		return false
	}
	if !r.allRequired {
		return true
	}
	var properties map[string]json.RawMessage
	var required []string
	_ = json.Unmarshal(node["properties"], &properties) // none, if it is missing
	_ = json.Unmarshal(node["required"], &required)     // none, if it is missing
	for name := range properties {
		if !slices.Contains(required, name) {
			return false
		}
	}
	return true
}

// mentionsObject reports whether a type is object, or a list of types that has it.
func mentionsObject(raw json.RawMessage) bool {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return one == "object"
	}
	var several []string
	return json.Unmarshal(raw, &several) == nil && slices.Contains(several, "object")
}
