package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/provider"
)

// Format is the name under which answers of this form are stored, so that they can be read again. Streamed ones have the
// same name: their text tells them apart (see provider.IsStream), and a server may send either, whatever was asked for.
const Format = "openai"

// completion is the body of an answer, as far as it matters here.
type completion struct {
	Choices []choice `json:"choices"`
	// Usage is read apart, so that odd counts do not make an answer unreadable.
	Usage json.RawMessage `json:"usage"`
	// ServiceTier is the tier that served it, in OpenAI's words.
	ServiceTier string `json:"service_tier"`
	// Data are the vectors, where texts were embedded.
	Data []embedding `json:"data"`
	// IncompleteDetails is that of the Responses API, which some servers answer with.
	IncompleteDetails *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
}

type choice struct {
	FinishReason string `json:"finish_reason"`
	Message      struct {
		Content   content    `json:"content"`
		Refusal   string     `json:"refusal"`
		ToolCalls []toolCall `json:"tool_calls"`
	} `json:"message"`
}

// toolCall is a call of a tool, or in a stream a piece of one.
type toolCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// Read says what an answer means that was read to its end. It needs status, header and body only, so that a stored answer
// can be read again.
func Read(x provider.Exchange, now time.Time) provider.Reading {
	r := provider.Reading{RequestID: x.Header.Get("X-Request-Id")}
	r.Failure = failure.Classify(failure.OpenAI, x.Status, x.Header, x.Body, now)
	var c completion
	var finish string // why there is no answer to be read
	if x.Streamed() {
		var broken []byte
		if c, finish, broken = assemble(x.Body); broken != nil {
			r.Failure = failure.ClassifyEvent(failure.OpenAI, broken, x.Header, now)
		}
	} else if json.Unmarshal(x.Body, &c) != nil {
		finish = failure.FinishUnreadable
	}
	r.Usage, r.UsageKnown = c.usage()
	c.fill(&r)
	if r.Failure.Class != failure.None {
		r.FinishReason = ""
		return r
	}
	if x.TooLong {
		finish = failure.FinishTooLong
	}
	r.FinishReason = cmp.Or(finish, r.FinishReason)
	r.Failure = failure.Finish(failure.OpenAI, r.FinishReason)
	if r.Failure.Class == failure.None && r.Text == "" && len(r.ToolCalls) == 0 && len(r.Embeddings) == 0 {
		r.FinishReason = failure.FinishEmpty
		r.Failure = failure.Finish(failure.OpenAI, r.FinishReason)
	}
	return r
}

// fill takes over what the model has written, and how it ended.
func (c completion) fill(r *provider.Reading) {
	if len(c.Data) > 0 {
		var ok bool
		r.FinishReason = "stop"
		if r.Embeddings, ok = vectors(c.Data); !ok {
			r.FinishReason = failure.FinishUnreadable
		}
		return
	}
	r.Text, r.FinishReason = c.read()
	if len(c.Choices) == 0 {
		return
	}
	for _, call := range c.Choices[0].Message.ToolCalls {
		r.ToolCalls = append(r.ToolCalls, &systemv1.ToolCall{
			Id: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments,
		})
	}
}

// read gives the first choice's text and how it ended.
func (c completion) read() (text, finish string) {
	if c.IncompleteDetails != nil {
		return "", c.IncompleteDetails.Reason
	}
	if len(c.Choices) == 0 {
		return "", failure.FinishEmpty
	}
	first := c.Choices[0]
	if first.Message.Refusal != "" {
		return "", failure.FinishRefusal
	}
	return string(first.Message.Content), cmp.Or(first.FinishReason, "stop")
}

// content is a message's text: a string, or a list of parts of which the texts count and the thoughts do not.
type content string

// UnmarshalJSON reads either form.
func (c *content) UnmarshalJSON(raw []byte) error {
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
		return json.Unmarshal(raw, (*string)(c))
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	var all strings.Builder
	for _, p := range parts {
		all.WriteString(p.Text)
	}
	*c = content(all.String())
	return nil
}
