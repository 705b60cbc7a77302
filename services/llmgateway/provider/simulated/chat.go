package simulated

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"pawl.internal/services/llmgateway/provider/simulated/extract"
)

// maxBody bounds a request.
const maxBody = 64 << 20

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
	Role    string  `json:"role"`
	Content content `json:"content"`
}

// content is a message's text: a string, null, or the text among its parts.
type content string

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(source []byte) error {
	var text *string
	if json.Unmarshal(source, &text) == nil {
		if text != nil {
			*c = content(*text)
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
		if p.Type == "text" {
			texts = append(texts, p.Text)
		}
	}
	*c = content(strings.Join(texts, "\n"))
	return nil
}

// call is one request on its way through the provider.
type call struct {
	chatRequest
	script      script
	fingerprint [sha256.Size]byte // of the body
	record      *record
	plan        plan
}

func (p *Provider) chat(w http.ResponseWriter, r *http.Request) {
	rec := p.ledger.begin(r)
	defer p.ledger.end(rec)
	w.Header().Set("X-Request-Id", fmt.Sprintf("simulated-%d", rec.Number))
	c, bad := p.read(r, rec)
	if bad != nil {
		rec.fail(outcomeInvalid, bad.status)
		bad.write(w)
		return
	}
	number, refused := p.limiter.admit(c.promptTokens()+c.maxTokens(), w.Header())
	if refused != nil {
		rec.fail(outcomeLimited, refused.status)
		refused.write(w)
		return
	}
	defer func() { p.limiter.leave(number, rec.PromptTokens+rec.CompletionTokens) }()
	c.plan = p.faults.plan(c)
	p.serve(w, r, c)
}

// read takes the request apart. The error is the caller's.
func (p *Provider) read(r *http.Request, rec *record) (*call, *apiError) {
	if err := p.authenticate(r); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return nil, invalid("", "the request could not be read: "+err.Error())
	}
	c := &call{fingerprint: sha256.Sum256(body), record: rec}
	if err := json.Unmarshal(body, &c.chatRequest); err != nil {
		return nil, invalid("", "the request is not what POST /v1/chat/completions takes: "+err.Error())
	}
	if c.script, err = parseScript(c.Model); err != nil {
		return nil, invalid("model", err.Error())
	}
	p.ledger.identify(rec, c)
	return c, p.check(c)
}

func (p *Provider) check(c *call) *apiError {
	switch {
	case !slices.Contains(p.cfg.Models, c.script.model):
		return &apiError{
			status: http.StatusNotFound, Type: "invalid_request_error", Param: "model", Code: "model_not_found",
			Message: fmt.Sprintf("The model %q does not exist; the simulated provider has %s.", c.script.model, strings.Join(p.cfg.Models, ", ")),
		}
	case len(c.Messages) == 0:
		return invalid("messages", "messages must have at least one entry")
	case c.N > 1:
		return invalid("n", "the simulated provider gives one choice: leave n out, or set it to 1")
	case c.maxTokens() < 0:
		return invalid("max_tokens", "max_tokens must not be negative")
	case c.ResponseFormat != nil && !slices.Contains([]string{"text", "json_object", "json_schema"}, c.ResponseFormat.Type):
		return invalid("response_format", "response_format.type must be text, json_object or json_schema")
	}
	return nil
}

// maxTokens returns the bound of the answer; 0 means none.
func (c *call) maxTokens() int { return max(c.MaxCompletionTokens, c.MaxTokens) }

func (c *call) promptTokens() int {
	size := 0
	for _, m := range c.Messages {
		size += tokens(string(m.Content))
	}
	return size + tokens(string(c.schema()))
}

func (c *call) schema() json.RawMessage {
	if c.ResponseFormat == nil || c.ResponseFormat.Type != "json_schema" {
		return nil
	}
	return c.ResponseFormat.JSONSchema.Schema
}

// prompt returns what the messages say, by who says it. Answers that came before are not facts.
func (c *call) prompt() extract.Prompt {
	var instructions, text []string
	for _, m := range c.Messages {
		switch m.Role {
		case "system", "developer":
			instructions = append(instructions, string(m.Content))
		case "user":
			text = append(text, string(m.Content))
		}
	}
	return extract.Prompt{Instructions: strings.Join(instructions, "\n\n"), Text: strings.Join(text, "\n\n")}
}

// complete makes the answer. The error is about the schema.
func (p *Provider) complete(c *call) (completion, *apiError) {
	done := completion{
		id: "chatcmpl-simulated-" + hex.EncodeToString(c.fingerprint[:8]), created: p.clock.Now().Unix(), model: c.Model, finish: "stop",
	}
	switch {
	case c.ResponseFormat != nil && c.ResponseFormat.Type == "json_schema":
		answer, err := p.engine.Answer(c.prompt(), c.schema())
		if err != nil {
			return done, invalid("response_format", err.Error())
		}
		done.content = string(answer)
	case c.ResponseFormat != nil && c.ResponseFormat.Type == "json_object":
		done.content = strings.TrimSuffix(string(marshal(map[string]string{"answer": p.engine.Say(c.prompt())})), "\n")
	default:
		done.content = p.engine.Say(c.prompt())
	}
	if f := c.plan.outcome; f != nil {
		f.alter(&done)
	}
	if limit := c.maxTokens(); limit > 0 && tokens(done.content) > limit {
		done.content, done.finish = firstTokens(done.content, limit), "length"
	}
	done.usage = newUsage(c.promptTokens(), tokens(done.content+done.refusal))
	return done, nil
}

// alter makes the answer a bad one, if that is the fault's kind.
func (f *Fault) alter(done *completion) {
	switch f.Kind {
	case kindEmpty:
		done.empty = true
	case kindTruncated:
		done.content, done.finish = firstTokens(done.content, tokens(done.content)/2), "length"
	case kindContentFilter:
		done.content, done.finish = firstTokens(done.content, tokens(done.content)/2), "content_filter"
	case kindRefusal:
		done.content, done.refusal = "", "I'm sorry, I can't help with that. (simulated)"
	case kindBadSchema:
		done.content = `["simulated: this breaks the schema"]`
	}
}

// wait lets the configured or ordered latency pass.
func (p *Provider) wait(ctx context.Context, c *call) error {
	latency := p.cfg.Latency
	if f := c.plan.latency; f != nil {
		latency = f.latency
	}
	if latency.Median == 0 {
		return nil
	}
	request := binary.BigEndian.Uint64(c.fingerprint[:8]) + uint64(c.record.try)
	return p.clock.Sleep(ctx, latency.draw(p.cfg.Seed, request))
}
