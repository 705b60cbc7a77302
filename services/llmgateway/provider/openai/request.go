// Package openai speaks the chat completions format of OpenAI, which many servers share: vLLM, llama.cpp, Ollama,
// DeepSeek, Mistral and gateways of that form.
package openai

import (
	"encoding/json"
	"net/url"
	"strings"

	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/provider/strict"
)

// answerName is the name that a structured answer's schema must have.
const answerName = "answer"

// The two names of the bound on an answer's tokens. OpenAI's own reasoning models refuse the older one; most other servers
// know only that.
const (
	olderTokenLimit = "max_tokens"
	newerTokenLimit = "max_completion_tokens"
)

// chatRequest is the body of POST /chat/completions.
type chatRequest struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	MaxTokens           int64           `json:"max_tokens,omitempty"`
	MaxCompletionTokens int64           `json:"max_completion_tokens,omitempty"`
	Temperature         *float64        `json:"temperature,omitempty"`
	TopP                *float64        `json:"top_p,omitempty"`
	Stop                []string        `json:"stop,omitempty"`
	Seed                *int64          `json:"seed,omitempty"`
	ResponseFormat      *responseFormat `json:"response_format,omitempty"`
	Tools               []tool          `json:"tools,omitempty"`
	ToolChoice          any             `json:"tool_choice,omitempty"` // a word, or a namedTool
	Stream              bool            `json:"stream,omitempty"`
	StreamOptions       *streamOptions  `json:"stream_options,omitempty"`
}

// streamOptions ask for the counts of tokens, which streams lack otherwise.
type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type responseFormat struct {
	Type       string     `json:"type"`
	JSONSchema jsonSchema `json:"json_schema"`
}

type jsonSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"strict,omitempty"`
}

// embedRequest is the body of POST /embeddings.
type embedRequest struct {
	Model          string   `json:"model"`
	Input          []string `json:"input"`
	Dimensions     int      `json:"dimensions,omitempty"`
	EncodingFormat string   `json:"encoding_format"`
}

// encode makes the body of a request. Errors are provider.RequestErrors where the format has no words for the question.
func encode(r provider.Request, tokenLimit string) ([]byte, error) {
	if len(r.Embed) > 0 {
		return provider.Marshal(embedRequest{Model: r.Model, Input: r.Embed, Dimensions: r.Dimensions, EncodingFormat: "float"})
	}
	body := chatRequest{Model: r.Model}
	if tokenLimit == newerTokenLimit {
		body.MaxCompletionTokens = r.MaxOutputTokens
	} else {
		body.MaxTokens = r.MaxOutputTokens
	}
	if p := r.Params; p != nil {
		body.Temperature, body.TopP, body.Stop, body.Seed = p.Temperature, p.TopP, p.GetStop(), p.Seed
	}
	if len(r.Schema) > 0 {
		// Only OpenAI itself is known to hold models to a schema strictly, and it refuses schemas for which it cannot.
		body.ResponseFormat = &responseFormat{Type: "json_schema", JSONSchema: jsonSchema{
			Name: answerName, Schema: r.Schema, Strict: tokenLimit == newerTokenLimit && strict.OpenAI(r.Schema),
		}}
	}
	if r.Stream {
		body.Stream, body.StreamOptions = true, &streamOptions{IncludeUsage: true}
	}
	var err error
	if body.Messages, err = messages(r.Messages); err != nil {
		return nil, err
	}
	if err := body.addTools(r); err != nil {
		return nil, err
	}
	return provider.Marshal(body)
}

// tokenLimitFor names the parameter that bounds the answer at the server of the address.
func tokenLimitFor(base *url.URL) string {
	host := base.Hostname()
	if host == "api.openai.com" || strings.HasSuffix(host, ".openai.azure.com") {
		return newerTokenLimit
	}
	return olderTokenLimit
}
