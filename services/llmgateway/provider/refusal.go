package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	systemv1 "pawl.internal/gen/pawl/system/v1"
)

// RequestError says why a question cannot be asked in a provider's format. Nothing has been sent then, and nothing would be
// gained by asking again.
type RequestError struct {
	// Field is the part of the question, such as "messages[2].parts[0].image_url".
	Field string
	// Problem says what is wrong with it, and what would be right.
	Problem string
}

// Error names the field and the problem.
func (e *RequestError) Error() string { return e.Field + ": " + e.Problem }

// Refuse returns a RequestError.
func Refuse(field, format string, args ...any) error {
	return &RequestError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// Choice says how freely a model may ask for tools.
type Choice uint8

// The choices.
const (
	// ChoiceFree leaves it to the provider, or there are no tools.
	ChoiceFree Choice = iota
	// ChoiceAuto leaves it to the model.
	ChoiceAuto
	// ChoiceNone forbids it.
	ChoiceNone
	// ChoiceRequired demands a call of any tool.
	ChoiceRequired
	// ChoiceOne demands a call of one tool.
	ChoiceOne
)

// Choice reads ToolChoice, and returns the name of the tool for ChoiceOne. It refuses choices of tools that are not there.
func (r Request) Choice() (Choice, string, error) {
	const field = "tool_choice"
	switch {
	case r.ToolChoice == "":
		return ChoiceFree, "", nil
	case r.ToolChoice == "auto" || r.ToolChoice == "none":
		if len(r.Tools) == 0 {
			return ChoiceFree, "", nil
		}
		if r.ToolChoice == "auto" {
			return ChoiceAuto, "", nil
		}
		return ChoiceNone, "", nil
	case len(r.Tools) == 0:
		return 0, "", Refuse(field, "%q demands a call, and there are no tools: give tools, or leave tool_choice out", r.ToolChoice)
	case r.ToolChoice == "required":
		return ChoiceRequired, "", nil
	case !slices.ContainsFunc(r.Tools, func(t *systemv1.Tool) bool { return t.GetName() == r.ToolChoice }):
		return 0, "", Refuse(field, "there is no tool %q: write auto, none, required, or the name of one of the tools", r.ToolChoice)
	default:
		return ChoiceOne, r.ToolChoice, nil
	}
}

// ArgumentsOf returns the arguments of an earlier tool call as the JSON object that some formats want them to be. Calls of
// functions without arguments come with none.
func ArgumentsOf(c *systemv1.ToolCall, field string) (json.RawMessage, error) {
	text := bytes.TrimSpace([]byte(c.GetArguments()))
	if len(text) == 0 {
		return json.RawMessage("{}"), nil
	}
	if !isDocument(text) {
		return nil, Refuse(field, "the arguments of the call of %s are not a JSON object, which the provider's format needs", c.GetName())
	}
	return text, nil
}

// Marshal encodes the body of a request. Texts stay as they are: there is no HTML around them that would need escapes.
func Marshal(body any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return text.Bytes(), nil
}

// Compact returns a JSON text without white space, so that the same answer reads the same whichever way it came; other texts
// as they are.
func Compact(text []byte) string {
	var out bytes.Buffer
	if json.Compact(&out, text) != nil {
		return string(text)
	}
	return out.String()
}
