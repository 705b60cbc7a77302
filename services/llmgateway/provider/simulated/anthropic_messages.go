package simulated

import (
	"encoding/json"
	"net/http"
)

// messagesRequest is the part of a request to POST /v1/messages that matters here.
type messagesRequest struct {
	Model        string           `json:"model"`
	MaxTokens    *int             `json:"max_tokens"`
	System       blocks           `json:"system"`
	Messages     []blockMessage   `json:"messages"`
	Stream       bool             `json:"stream"`
	Tools        []anthropicTool  `json:"tools"`
	ToolChoice   *anthropicChoice `json:"tool_choice"`
	OutputFormat *outputFormat    `json:"output_format"`
	OutputConfig struct {
		Format *outputFormat `json:"format"`
	} `json:"output_config"`
	Thinking struct {
		Type   string `json:"type"`
		Budget int    `json:"budget_tokens"`
	} `json:"thinking"`
}

type blockMessage struct {
	Role    string `json:"role"`
	Content blocks `json:"content"`
}

type anthropicTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"`
}

type anthropicChoice struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

type outputFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// parseMessages reads what POST /v1/messages takes.
func parseMessages(_ *http.Request, body []byte) (*question, *failure) {
	var r messagesRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, invalid("", "the request is not what POST /v1/messages takes: "+err.Error())
	}
	switch {
	case r.MaxTokens == nil:
		return nil, invalid("max_tokens", "max_tokens: Field required")
	case *r.MaxTokens < 1:
		return nil, invalid("max_tokens", "max_tokens: must be at least 1")
	case len(r.Messages) == 0:
		return nil, invalid("messages", "messages: at least one message is required")
	}
	q := &question{model: r.Model, limit: *r.MaxTokens, stream: r.Stream, writer: messagesWriter{}}
	q.turns = r.System.turns(roleSystem)
	for _, m := range r.Messages {
		if m.Role != roleUser && m.Role != roleAssistant {
			return nil, invalid("messages", "messages: the role must be user or assistant, and is "+m.Role)
		}
		q.turns = append(q.turns, m.Content.turns(m.Role)...)
	}
	if len(q.turns) == 0 {
		return nil, invalid("messages", "messages: all of them are empty")
	}
	if r.Thinking.Type == "enabled" || r.Thinking.Type == "adaptive" {
		q.thinking = max(r.Thinking.Budget, 1)
	}
	for _, t := range r.Tools {
		q.tools = append(q.tools, tool{t.Name, t.Description, t.Schema})
	}
	if bad := r.answerForm(q); bad != nil {
		return nil, bad
	}
	return q, r.choose(q)
}

// answerForm reads output_config.format, or output_format as it was called before.
func (r *messagesRequest) answerForm(q *question) *failure {
	format := r.OutputConfig.Format
	if format == nil {
		format = r.OutputFormat
	}
	if format == nil {
		return nil
	}
	if format.Type != "json_schema" || len(format.Schema) == 0 {
		return invalid("output_config", "output_config.format must have the type json_schema and a schema")
	}
	q.schema = format.Schema
	return nil
}

func (r *messagesRequest) choose(q *question) *failure {
	if r.ToolChoice == nil {
		return nil
	}
	switch r.ToolChoice.Type {
	case "auto":
	case "any":
		q.choice = choiceAny
	case "none":
		q.choice = choiceNone
	case "tool":
		q.choice = r.ToolChoice.Name
	default:
		return invalid("tool_choice", "tool_choice.type must be auto, any, tool or none")
	}
	return nil
}
