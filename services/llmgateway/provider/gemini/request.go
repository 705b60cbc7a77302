package gemini

import (
	"encoding/json"
	"math"

	"pawl.internal/services/llmgateway/provider"
)

const (
	// mostStops and mostEmbeds bound what one request may hold.
	mostStops  = 5
	mostEmbeds = 100
)

// body is the body of a generateContent request.
type body struct {
	SystemInstruction *content         `json:"systemInstruction,omitempty"`
	Contents          []content        `json:"contents"`
	Tools             []tools          `json:"tools,omitempty"`
	ToolConfig        *toolConfig      `json:"toolConfig,omitempty"`
	GenerationConfig  generationConfig `json:"generationConfig"`
}

type tools struct {
	FunctionDeclarations []function `json:"functionDeclarations"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

type toolConfig struct {
	FunctionCallingConfig functionCalling `json:"functionCallingConfig"`
}

type functionCalling struct {
	Mode    string   `json:"mode"`
	Allowed []string `json:"allowedFunctionNames,omitempty"`
}

type generationConfig struct {
	MaxOutputTokens    int64           `json:"maxOutputTokens"`
	Temperature        *float64        `json:"temperature,omitempty"`
	TopP               *float64        `json:"topP,omitempty"`
	StopSequences      []string        `json:"stopSequences,omitempty"`
	Seed               *int64          `json:"seed,omitempty"`
	ResponseMimeType   string          `json:"responseMimeType,omitempty"`
	ResponseJSONSchema json.RawMessage `json:"responseJsonSchema,omitempty"`
}

// embedBody is the body of a batchEmbedContents request.
type embedBody struct {
	Requests []embedRequest `json:"requests"`
}

type embedRequest struct {
	Model      string  `json:"model"`
	Content    content `json:"content"`
	Dimensions int     `json:"outputDimensionality,omitempty"`
}

// newBody puts the question into the format, or says why it does not go into it.
func newBody(r provider.Request) (any, error) {
	if len(r.Embed) > 0 {
		return newEmbedBody(r)
	}
	b := &body{GenerationConfig: generationConfig{MaxOutputTokens: r.MaxOutputTokens}}
	if err := b.GenerationConfig.add(r); err != nil {
		return nil, err
	}
	if err := b.addTools(r); err != nil {
		return nil, err
	}
	if err := b.addMessages(r.Messages); err != nil {
		return nil, err
	}
	return b, nil
}

func (g *generationConfig) add(r provider.Request) error {
	if len(r.Schema) > 0 {
		g.ResponseMimeType, g.ResponseJSONSchema = "application/json", r.Schema
	}
	p := r.Params
	if p == nil {
		return nil
	}
	if seed := p.GetSeed(); seed < math.MinInt32 || seed > math.MaxInt32 {
		return provider.Refuse("params.seed", "Gemini's format takes seeds of 32 bits, and it is %d", seed)
	}
	if n := len(p.GetStop()); n > mostStops {
		return provider.Refuse("params.stop", "Gemini's format takes %d, and there are %d", mostStops, n)
	}
	g.Temperature, g.TopP, g.StopSequences, g.Seed = p.Temperature, p.TopP, p.GetStop(), p.Seed
	return nil
}

func (b *body) addTools(r provider.Request) error {
	choice, name, err := r.Choice()
	if err != nil || len(r.Tools) == 0 {
		return err
	}
	list := make([]function, len(r.Tools))
	for i, t := range r.Tools {
		list[i] = function{Name: t.GetName(), Description: t.GetDescription(), Parameters: t.GetParameters()}
	}
	b.Tools = []tools{{FunctionDeclarations: list}}
	switch choice {
	case provider.ChoiceFree:
	case provider.ChoiceAuto:
		b.call(functionCalling{Mode: "AUTO"})
	case provider.ChoiceNone:
		b.call(functionCalling{Mode: "NONE"})
	case provider.ChoiceRequired:
		b.call(functionCalling{Mode: "ANY"})
	case provider.ChoiceOne:
		b.call(functionCalling{Mode: "ANY", Allowed: []string{name}})
	}
	return nil
}

func (b *body) call(how functionCalling) { b.ToolConfig = &toolConfig{FunctionCallingConfig: how} }

func newEmbedBody(r provider.Request) (*embedBody, error) {
	if n := len(r.Embed); n > mostEmbeds {
		return nil, provider.Refuse("embed", "Gemini's format takes %d texts at once, and there are %d", mostEmbeds, n)
	}
	b := &embedBody{Requests: make([]embedRequest, len(r.Embed))}
	for i, text := range r.Embed {
		b.Requests[i] = embedRequest{
			Model: modelPath(r.Model), Content: content{Parts: []part{{Text: text}}}, Dimensions: r.Dimensions,
		}
	}
	return b, nil
}
