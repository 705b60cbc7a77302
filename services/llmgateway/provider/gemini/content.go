package gemini

import (
	"encoding/json"
	"fmt"
	"strings"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/llmgateway/provider"
)

// The roles of contents. The system has none.
const (
	roleUser  = "user"
	roleModel = "model"
)

// content is what one side says until it is the other's turn.
type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

// part is a piece of a content; which, the one member says that is set.
type part struct {
	Text             string            `json:"text,omitempty"`
	InlineData       *inlineData       `json:"inlineData,omitempty"`
	FileData         *fileData         `json:"fileData,omitempty"`
	FunctionCall     *functionCall     `json:"functionCall,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`
	// ThoughtSignature is what Gemini wants back with a call that it has signed.
	ThoughtSignature string `json:"thoughtSignature,omitempty"`
	// Thought marks, in answers, what was thought and not said.
	Thought bool `json:"thought,omitempty"`
}

type inlineData struct {
	MimeType string `json:"mimeType"`
	Data     string `json:"data"`
}

type fileData struct {
	FileURI string `json:"fileUri"`
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type functionResponse struct {
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name"`
	Response json.RawMessage `json:"response"`
}

// addMessages takes the system's texts out, and makes contents of the others. A question of system texts alone goes as the
// user's: the format wants somebody to have asked.
func (b *body) addMessages(messages []*systemv1.Message) error {
	var system []part
	called := map[string]string{} // the names of the functions that were called, by the calls' ids
	for i, m := range messages {
		parts, err := partsOf(m, fmt.Sprintf("messages[%d]", i), called)
		if err != nil {
			return err
		}
		switch m.GetRole() {
		case "system":
			system = append(system, parts...)
		case "assistant":
			b.say(roleModel, parts)
		default: // the results of tools too
			b.say(roleUser, parts)
		}
	}
	switch {
	case len(b.Contents) == 0:
		b.say(roleUser, system)
	case len(system) > 0:
		b.SystemInstruction = &content{Parts: system}
	}
	return nil
}

// say goes on with the content of the role, or begins it.
func (b *body) say(role string, parts []part) {
	if len(parts) == 0 {
		return
	}
	if last := len(b.Contents) - 1; last >= 0 && b.Contents[last].Role == role {
		b.Contents[last].Parts = append(b.Contents[last].Parts, parts...)
		return
	}
	b.Contents = append(b.Contents, content{Role: role, Parts: parts})
}

// partsOf are what a message says. Calls of tools are noted in called.
func partsOf(m *systemv1.Message, field string, called map[string]string) ([]part, error) {
	if m.GetRole() == "tool" {
		return resultParts(m, field, called)
	}
	parts := textParts(m.GetContent())
	for i, p := range m.GetParts() {
		more, err := showParts(p, fmt.Sprintf("%s.parts[%d]", field, i), m.GetRole())
		if err != nil {
			return nil, err
		}
		parts = append(parts, more...)
	}
	for i, c := range m.GetToolCalls() {
		args, err := provider.ArgumentsOf(c, fmt.Sprintf("%s.tool_calls[%d].arguments", field, i))
		if err != nil {
			return nil, err
		}
		called[c.GetId()] = c.GetName()
		id, signature := splitID(c.GetId())
		parts = append(parts, part{
			FunctionCall: &functionCall{ID: id, Name: c.GetName(), Args: args}, ThoughtSignature: signature,
		})
	}
	return parts, nil
}

// textParts is a text as parts. The format refuses empty ones.
func textParts(text string) []part {
	if text == "" {
		return nil
	}
	return []part{{Text: text}}
}

func showParts(p *systemv1.Part, field, role string) ([]part, error) {
	if p.GetImageUrl() == "" {
		return textParts(p.GetText()), nil
	}
	field += ".image_url"
	if role == "system" {
		return nil, provider.Refuse(field, "in Gemini's format the system shows no images: let the user show it")
	}
	image, err := provider.ParseImage(field, p.GetImageUrl())
	switch {
	case err != nil:
		return nil, err
	case image.URL == "":
		return []part{{InlineData: &inlineData{MimeType: image.MediaType, Data: image.Data}}}, nil
	case strings.HasPrefix(image.URL, fileStore):
		return []part{{FileData: &fileData{FileURI: image.URL}}}, nil
	default:
		return nil, provider.Refuse(field, "Gemini fetches no images from elsewhere: send a data URL, or a file of %s…", fileStore)
	}
}

// fileStore is where Google keeps files that were uploaded to it.
const fileStore = "https://generativelanguage.googleapis.com/"

// resultParts is the result of a tool. What is not a JSON object goes into one.
func resultParts(m *systemv1.Message, field string, called map[string]string) ([]part, error) {
	name, ok := called[m.GetToolCallId()]
	if !ok {
		return nil, provider.Refuse(field+".tool_call_id", "no message before has a call with the id %q, and Gemini's format needs its name", m.GetToolCallId())
	}
	text := m.GetContent()
	for i, p := range m.GetParts() {
		if p.GetImageUrl() != "" {
			return nil, provider.Refuse(fmt.Sprintf("%s.parts[%d].image_url", field, i), "in Gemini's format a tool's result is text: let the user show the image")
		}
		text += p.GetText()
	}
	response := json.RawMessage(text)
	if object := map[string]json.RawMessage(nil); json.Unmarshal(response, &object) != nil || object == nil {
		var err error
		if response, err = json.Marshal(map[string]string{"output": text}); err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
	}
	id, _ := splitID(m.GetToolCallId())
	return []part{{FunctionResponse: &functionResponse{ID: id, Name: name, Response: response}}}, nil
}
