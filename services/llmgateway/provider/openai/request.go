// Package openai speaks the chat completions format of OpenAI, which many servers share: vLLM, llama.cpp, Ollama,
// DeepSeek, Mistral and gateways of that form.
package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/llmgateway/provider"
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
	Stream              bool            `json:"stream,omitempty"`
	StreamOptions       *streamOptions  `json:"stream_options,omitempty"`
}

// streamOptions ask for the counts of tokens, which streams lack otherwise.
type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type responseFormat struct {
	Type       string     `json:"type"`
	JSONSchema jsonSchema `json:"json_schema"`
}

type jsonSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
}

// encode makes the body of a request.
func encode(r provider.Request, tokenLimit string) ([]byte, error) {
	body := chatRequest{Model: r.Model, Messages: messages(r.Messages)}
	if tokenLimit == newerTokenLimit {
		body.MaxCompletionTokens = r.MaxOutputTokens
	} else {
		body.MaxTokens = r.MaxOutputTokens
	}
	if p := r.Params; p != nil {
		body.Temperature, body.TopP, body.Stop, body.Seed = p.Temperature, p.TopP, p.GetStop(), p.Seed
	}
	if len(r.Schema) > 0 {
		body.ResponseFormat = &responseFormat{
			Type: "json_schema", JSONSchema: jsonSchema{Name: answerName, Schema: r.Schema},
		}
	}
	if r.Stream {
		body.Stream, body.StreamOptions = true, &streamOptions{IncludeUsage: true}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		return nil, fmt.Errorf("encode chat request: %w", err)
	}
	return text.Bytes(), nil
}

func messages(list []*systemv1.Message) []message {
	out := make([]message, len(list))
	for i, m := range list {
		out[i] = message{Role: m.GetRole(), Content: m.GetContent()}
	}
	return out
}

// tokenLimitFor names the parameter that bounds the answer at the server of the address.
func tokenLimitFor(base *url.URL) string {
	host := base.Hostname()
	if host == "api.openai.com" || strings.HasSuffix(host, ".openai.azure.com") {
		return newerTokenLimit
	}
	return olderTokenLimit
}
