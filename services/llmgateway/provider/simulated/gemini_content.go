package simulated

import (
	"encoding/json"
	"fmt"
	"strings"
)

// geminiContent is one message.
type geminiContent struct {
	Role  string       `json:"role"`
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text     string          `json:"text"`
	Thought  bool            `json:"thought"`
	Inline   json.RawMessage `json:"inlineData"`
	File     json.RawMessage `json:"fileData"`
	Call     json.RawMessage `json:"functionCall"`
	Response *struct {
		Response json.RawMessage `json:"response"`
	} `json:"functionResponse"`
}

// turn returns a message as a turn; role is "" if it is the message's own.
func (c *geminiContent) turn(role string) turn {
	t := turn{role: role}
	if role == "" {
		t.role = roleUser
		if c.Role == "model" {
			t.role = roleAssistant
		}
	}
	var texts []string
	for _, p := range c.Parts {
		switch {
		case p.Thought:
		case p.Response != nil:
			t.role = roleTool
			texts = append(texts, string(p.Response.Response))
		case p.Call != nil:
			texts = append(texts, string(p.Call))
		case p.Inline != nil || p.File != nil:
			t.images++
		default:
			texts = append(texts, p.Text)
		}
	}
	t.text = strings.Join(texts, "\n")
	return t
}

// jsonSchemaOf turns a schema as Gemini writes it, with types in capitals and nullable, into a JSON Schema.
func jsonSchemaOf(source json.RawMessage) (json.RawMessage, error) {
	var schema map[string]any
	if err := json.Unmarshal(source, &schema); err != nil {
		return nil, fmt.Errorf("the schema must be an object: %w", err)
	}
	return json.RawMessage(trimmed(translated(schema))), nil
}

// translated changes one schema and those within.
func translated(schema map[string]any) map[string]any {
	if name, ok := schema["type"].(string); ok {
		schema["type"] = strings.ToLower(name)
		if schema["nullable"] == true {
			schema["type"] = []string{strings.ToLower(name), "null"}
		}
	}
	delete(schema, "nullable")
	delete(schema, "propertyOrdering")
	for _, name := range []string{"items", "additionalProperties"} {
		if inner, ok := schema[name].(map[string]any); ok {
			schema[name] = translated(inner)
		}
	}
	if inner, ok := schema["properties"].(map[string]any); ok {
		for name, property := range inner {
			if property, ok := property.(map[string]any); ok {
				inner[name] = translated(property)
			}
		}
	}
	if options, ok := schema["anyOf"].([]any); ok {
		for i, option := range options {
			if option, ok := option.(map[string]any); ok {
				options[i] = translated(option)
			}
		}
	}
	return schema
}
