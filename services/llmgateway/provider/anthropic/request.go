package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/provider/strict"
)

// answerTool is the tool whose input is a structured answer, where the schema is more than output_config takes.
const answerTool = "pawl_answer"

// body is the body of POST /messages.
type body struct {
	Model         string        `json:"model"`
	MaxTokens     int64         `json:"max_tokens"`
	System        string        `json:"system,omitempty"`
	Messages      []turn        `json:"messages"`
	Tools         []tool        `json:"tools,omitempty"`
	ToolChoice    *toolChoice   `json:"tool_choice,omitempty"`
	OutputConfig  *outputConfig `json:"output_config,omitempty"`
	Temperature   *float64      `json:"temperature,omitempty"`
	TopP          *float64      `json:"top_p,omitempty"`
	StopSequences []string      `json:"stop_sequences,omitempty"`
	Stream        bool          `json:"stream,omitempty"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
	Strict      *bool           `json:"strict,omitempty"`
}

type toolChoice struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
	// DisableParallel keeps the model to one call.
	DisableParallel bool `json:"disable_parallel_tool_use,omitempty"`
}

type outputConfig struct {
	Format outputFormat `json:"format"`
}

type outputFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// newBody puts the question into the format, or says why it does not go into it. The seed is left out: the format has none,
// and it is a wish anywhere.
func newBody(r provider.Request) (*body, error) {
	if len(r.Embed) > 0 {
		return nil, provider.Refuse("embed", "Anthropic's format has no embeddings: use a route to a provider that has")
	}
	b := &body{Model: r.Model, MaxTokens: r.MaxOutputTokens}
	if p := r.Params; p != nil {
		if p.Temperature != nil && p.GetTemperature() > 1 {
			return nil, provider.Refuse("params.temperature", "Anthropic's format takes 0 to 1, and it is %v", p.GetTemperature())
		}
		b.Temperature, b.TopP, b.StopSequences = p.Temperature, p.TopP, p.GetStop()
	}
	if err := b.addMessages(r.Messages); err != nil {
		return nil, err
	}
	if err := b.addTools(r); err != nil {
		return nil, err
	}
	return b, b.addSchema(r.Schema)
}

func (b *body) addTools(r provider.Request) error {
	for i, t := range r.Tools {
		if t.GetName() == answerTool {
			return provider.Refuse(fmt.Sprintf("tools[%d].name", i), "the name %s is taken: it is how structured answers come", answerTool)
		}
		b.Tools = append(b.Tools, tool{
			Name: t.GetName(), Description: t.GetDescription(), InputSchema: parametersOf(t), Strict: t.Strict,
		})
	}
	choice, name, err := r.Choice()
	switch choice {
	case provider.ChoiceFree:
	case provider.ChoiceAuto:
		b.ToolChoice = &toolChoice{Type: "auto"}
	case provider.ChoiceNone:
		b.ToolChoice = &toolChoice{Type: "none"}
	case provider.ChoiceRequired:
		b.ToolChoice = &toolChoice{Type: "any"}
	case provider.ChoiceOne:
		b.ToolChoice = &toolChoice{Type: "tool", Name: name}
	}
	return err
}

// parametersOf is the schema of a function's arguments.
func parametersOf(t *systemv1.Tool) json.RawMessage {
	if len(t.GetParameters()) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return t.GetParameters()
}

// addSchema asks for a structured answer. The format takes schemas of a strict kind only, and refuses all others; those go as
// the arguments of a tool which must be called, which holds the model to them less strictly.
func (b *body) addSchema(schema []byte) error {
	switch {
	case len(schema) == 0:
		return nil
	case strict.Anthropic(schema):
		b.OutputConfig = &outputConfig{Format: outputFormat{Type: "json_schema", Schema: schema}}
		return nil
	case !strict.IsObject(schema):
		return provider.Refuse("output_schema",
			"at its top it must be of the type object, or keep within what Anthropic's structured outputs take (no bounds on numbers and lengths, additionalProperties: false everywhere)")
	}
	b.Tools = append(b.Tools, tool{
		Name: answerTool, Description: "Takes your answer. Call it once, with the whole answer.", InputSchema: schema,
	})
	switch {
	case len(b.Tools) == 1 || b.ToolChoice != nil && b.ToolChoice.Type == "none":
		b.ToolChoice = &toolChoice{Type: "tool", Name: answerTool, DisableParallel: true}
	case b.ToolChoice == nil || b.ToolChoice.Type == "auto":
		b.ToolChoice = &toolChoice{Type: "any"} // an answer, or a call of another tool
	}
	return nil
}

// hasAnswerTool reports whether the answer is to come by the tool for answers.
func (b *body) hasAnswerTool() bool {
	return len(b.Tools) > 0 && b.Tools[len(b.Tools)-1].Name == answerTool
}

// join puts the system's texts together.
func join(texts []string) string { return strings.Join(texts, "\n\n") }
