package openai

import (
	"encoding/json"
	"fmt"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/llmgateway/provider"
)

// message is a message of a conversation.
type message struct {
	Role       string     `json:"role"`
	Content    any        `json:"content"` // a text, a list of parts, or null beside calls of tools
	ToolCalls  []sentCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// part is a piece of a message.
type part struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	ImageURL *imageURL `json:"image_url,omitempty"`
}

type imageURL struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

// sentCall is a call of a tool that the model has asked for before. Its arguments are text here, whatever they are.
type sentCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function sentFunction `json:"function"`
}

type sentFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// tool is a function that the model may ask to be called.
type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      *bool           `json:"strict,omitempty"`
}

// namedTool is the choice of one function.
type namedTool struct {
	Type     string   `json:"type"`
	Function toolName `json:"function"`
}

type toolName struct {
	Name string `json:"name"`
}

func messages(list []*systemv1.Message) ([]message, error) {
	out := make([]message, len(list))
	for i, m := range list {
		field := fmt.Sprintf("messages[%d]", i)
		if m.GetRole() == "tool" && m.GetToolCallId() == "" {
			return nil, provider.Refuse(field+".tool_call_id", "it is missing: a tool's result belongs to a call")
		}
		content, err := contentOf(m, field)
		if err != nil {
			return nil, err
		}
		out[i] = message{Role: m.GetRole(), Content: content, ToolCallID: m.GetToolCallId()}
		for _, c := range m.GetToolCalls() {
			out[i].ToolCalls = append(out[i].ToolCalls, sentCall{
				ID: c.GetId(), Type: "function", Function: sentFunction{Name: c.GetName(), Arguments: c.GetArguments()},
			})
		}
	}
	return out, nil
}

// contentOf is what a message says: a text where that is all, since some servers know nothing else.
func contentOf(m *systemv1.Message, field string) (any, error) {
	if len(m.GetParts()) == 0 {
		if m.GetContent() == "" && len(m.GetToolCalls()) > 0 {
			return nil, nil //nolint:nilnil // that is the format's null
		}
		return m.GetContent(), nil
	}
	var parts []part
	if m.GetContent() != "" {
		parts = append(parts, part{Type: "text", Text: m.GetContent()})
	}
	for i, p := range m.GetParts() {
		if p.GetImageUrl() == "" {
			parts = append(parts, part{Type: "text", Text: p.GetText()})
			continue
		}
		if m.GetRole() != "user" {
			return nil, provider.Refuse(fmt.Sprintf("%s.parts[%d].image_url", field, i), "in this format only the user shows images")
		}
		if _, err := provider.ParseImage(fmt.Sprintf("%s.parts[%d].image_url", field, i), p.GetImageUrl()); err != nil {
			return nil, err
		}
		parts = append(parts, part{Type: "image_url", ImageURL: &imageURL{URL: p.GetImageUrl(), Detail: p.GetDetail()}})
	}
	return parts, nil
}

func (b *chatRequest) addTools(r provider.Request) error {
	for _, t := range r.Tools {
		b.Tools = append(b.Tools, tool{Type: "function", Function: function{
			Name: t.GetName(), Description: t.GetDescription(), Parameters: t.GetParameters(), Strict: t.Strict,
		}})
	}
	choice, name, err := r.Choice()
	switch choice {
	case provider.ChoiceFree:
	case provider.ChoiceAuto, provider.ChoiceNone, provider.ChoiceRequired:
		b.ToolChoice = r.ToolChoice
	case provider.ChoiceOne:
		b.ToolChoice = namedTool{Type: "function", Function: toolName{Name: name}}
	}
	return err
}
