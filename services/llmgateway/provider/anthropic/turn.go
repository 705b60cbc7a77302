package anthropic

import (
	"encoding/json"
	"fmt"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/llmgateway/provider"
)

// The roles of turns. The system has none: its texts stand apart.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// turn is what one side says until it is the other's turn.
type turn struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// block is a piece of a turn, of several types.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	Source    *source         `json:"source,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   []block         `json:"content,omitempty"`
}

// source is where an image comes from.
type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

// addMessages takes the system's texts out, and makes turns of the others. A question of system texts alone goes as the
// user's: the format wants somebody to have asked.
func (b *body) addMessages(messages []*systemv1.Message) error {
	var system []string
	for i, m := range messages {
		field := fmt.Sprintf("messages[%d]", i)
		if m.GetRole() == "system" {
			texts, err := systemTexts(m, field)
			if err != nil {
				return err
			}
			system = append(system, texts...)
			continue
		}
		blocks, err := blocksOf(m, field)
		if err != nil {
			return err
		}
		b.say(roleOf(m), blocks)
	}
	if len(b.Messages) == 0 {
		b.say(roleUser, textBlocks(join(system)))
		return nil
	}
	b.System = join(system)
	if b.Messages[0].Role != roleUser {
		return provider.Refuse("messages", "in Anthropic's format the user speaks first, and here it is the assistant")
	}
	return nil
}

// say goes on with the turn of the role, or begins it.
func (b *body) say(role string, blocks []block) {
	if len(blocks) == 0 {
		return
	}
	if last := len(b.Messages) - 1; last >= 0 && b.Messages[last].Role == role {
		b.Messages[last].Content = append(b.Messages[last].Content, blocks...)
		return
	}
	b.Messages = append(b.Messages, turn{Role: role, Content: blocks})
}

func roleOf(m *systemv1.Message) string {
	if m.GetRole() == roleAssistant {
		return roleAssistant
	}
	return roleUser // the results of tools too
}

func systemTexts(m *systemv1.Message, field string) ([]string, error) {
	var texts []string
	if m.GetContent() != "" {
		texts = append(texts, m.GetContent())
	}
	for i, p := range m.GetParts() {
		if p.GetImageUrl() != "" {
			return nil, provider.Refuse(fmt.Sprintf("%s.parts[%d]", field, i), "in Anthropic's format the system shows no images: let the user show it")
		}
		texts = append(texts, p.GetText())
	}
	return texts, nil
}

// blocksOf are what a message of the user, the assistant or a tool says.
func blocksOf(m *systemv1.Message, field string) ([]block, error) {
	blocks := textBlocks(m.GetContent())
	for i, p := range m.GetParts() {
		part, err := partBlocks(p, fmt.Sprintf("%s.parts[%d]", field, i))
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, part...)
	}
	for i, c := range m.GetToolCalls() {
		input, err := provider.ArgumentsOf(c, fmt.Sprintf("%s.tool_calls[%d].arguments", field, i))
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, block{Type: "tool_use", ID: c.GetId(), Name: c.GetName(), Input: input})
	}
	if m.GetRole() != "tool" {
		return blocks, nil
	}
	if m.GetToolCallId() == "" {
		return nil, provider.Refuse(field+".tool_call_id", "it is missing: a tool's result belongs to a call")
	}
	return []block{{Type: "tool_result", ToolUseID: m.GetToolCallId(), Content: blocks}}, nil
}

// textBlocks is a text as blocks. The format refuses empty ones.
func textBlocks(text string) []block {
	if text == "" {
		return nil
	}
	return []block{{Type: "text", Text: text}}
}

// partBlocks is a part as blocks. How closely an image is looked at cannot be said in this format, and is left out.
func partBlocks(p *systemv1.Part, field string) ([]block, error) {
	if p.GetImageUrl() == "" {
		return textBlocks(p.GetText()), nil
	}
	image, err := provider.ParseImage(field+".image_url", p.GetImageUrl())
	if err != nil {
		return nil, err
	}
	if image.URL != "" {
		return []block{{Type: "image", Source: &source{Type: "url", URL: image.URL}}}, nil
	}
	return []block{{Type: "image", Source: &source{Type: "base64", MediaType: image.MediaType, Data: image.Data}}}, nil
}
