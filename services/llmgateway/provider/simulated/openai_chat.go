package simulated

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// chatRequest is the part of a request that matters here; like most servers of this form it lets other members pass.
type chatRequest struct {
	Model               string          `json:"model"`
	Messages            []chatMessage   `json:"messages"`
	Stream              bool            `json:"stream"`
	StreamOptions       streamOptions   `json:"stream_options"`
	MaxTokens           int             `json:"max_tokens"`
	MaxCompletionTokens int             `json:"max_completion_tokens"`
	N                   int             `json:"n"`
	ResponseFormat      *responseFormat `json:"response_format"`
	Tools               []chatTool      `json:"tools"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	ReasoningEffort     string          `json:"reasoning_effort"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type responseFormat struct {
	Type       string `json:"type"`
	JSONSchema struct {
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

type chatMessage struct {
	Role    string      `json:"role"`
	Content chatContent `json:"content"`
}

type chatTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// chatContent is what a message says: a string, null, or the text among its parts, and how many of them are images.
type chatContent struct {
	text   string
	images int
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *chatContent) UnmarshalJSON(source []byte) error {
	var text *string
	if json.Unmarshal(source, &text) == nil {
		if text != nil {
			c.text = *text
		}
		return nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(source, &parts); err != nil {
		return errors.New("content must be a string or a list of parts")
	}
	var texts []string
	for _, p := range parts {
		switch p.Type {
		case "text":
			texts = append(texts, p.Text)
		case "image_url":
			c.images++
		}
	}
	c.text = strings.Join(texts, "\n")
	return nil
}

// parseChat reads what POST /v1/chat/completions takes.
func parseChat(_ *http.Request, body []byte) (*question, *failure) {
	var r chatRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, invalid("", "the request is not what POST /v1/chat/completions takes: "+err.Error())
	}
	q := &question{
		model: r.Model, limit: max(r.MaxCompletionTokens, r.MaxTokens), stream: r.Stream, writer: chatWriter{r.StreamOptions.IncludeUsage},
	}
	for _, m := range r.Messages {
		q.turns = append(q.turns, turn{role: chatRole(m.Role), text: m.Content.text, images: m.Content.images})
	}
	if !slices.Contains([]string{"", "none", "minimal"}, r.ReasoningEffort) {
		q.thinking = thoughtTokens
	}
	switch {
	case len(r.Messages) == 0:
		return nil, invalid("messages", "messages must have at least one entry")
	case r.N > 1:
		return nil, invalid("n", "the simulated provider gives one choice: leave n out, or set it to 1")
	case min(r.MaxTokens, r.MaxCompletionTokens) < 0:
		return nil, invalid("max_tokens", "max_tokens must not be negative")
	}
	if bad := r.answerForm(q); bad != nil {
		return nil, bad
	}
	return q, r.offer(q)
}

func chatRole(role string) string {
	if role == "developer" {
		return roleSystem
	}
	return role
}

// answerForm reads response_format.
func (r *chatRequest) answerForm(q *question) *failure {
	if r.ResponseFormat == nil {
		return nil
	}
	switch r.ResponseFormat.Type {
	case "text":
	case "json_object":
		q.object = true
	case "json_schema":
		q.schema = r.ResponseFormat.JSONSchema.Schema
		if q.schema == nil {
			q.schema = json.RawMessage("{}")
		}
	default:
		return invalid("response_format", "response_format.type must be text, json_object or json_schema")
	}
	return nil
}

// offer reads tools and tool_choice.
func (r *chatRequest) offer(q *question) *failure {
	for _, t := range r.Tools {
		if t.Type != "function" {
			return invalid("tools", "the type of a tool must be function, and is "+t.Type)
		}
		q.tools = append(q.tools, tool{t.Function.Name, t.Function.Description, t.Function.Parameters})
	}
	if len(r.ToolChoice) == 0 || string(r.ToolChoice) == "null" {
		return nil
	}
	var word string
	if json.Unmarshal(r.ToolChoice, &word) == nil {
		choice, known := map[string]string{"auto": choiceAuto, "none": choiceNone, "required": choiceAny}[word]
		if !known {
			return invalid("tool_choice", "tool_choice must be auto, none, required or name a function")
		}
		q.choice = choice
		return nil
	}
	var named struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if json.Unmarshal(r.ToolChoice, &named) != nil || named.Function.Name == "" {
		return invalid("tool_choice", "tool_choice must be auto, none, required or name a function")
	}
	q.choice = named.Function.Name
	return nil
}
