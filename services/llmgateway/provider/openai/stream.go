package openai

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/provider"
)

// chunk is an event of a streamed answer, as far as it matters here.
type chunk struct {
	Choices []struct {
		Index        int    `json:"index"`
		FinishReason string `json:"finish_reason"`
		Delta        struct {
			Content   content    `json:"content"`
			Refusal   string     `json:"refusal"`
			ToolCalls []toolCall `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
	Usage       json.RawMessage `json:"usage"`
	ServiceTier string          `json:"service_tier"`
}

// listen returns what tells the events of a live stream to heard, and finds its end: an error ends it as surely as [DONE].
func listen(heard func(provider.Delta)) func(provider.Event) provider.Sign {
	return func(e provider.Event) provider.Sign {
		var c chunk
		if e.Ends() || isError(e.Data) {
			return provider.Last
		}
		if json.Unmarshal(e.Data, &c) != nil {
			return provider.Alive
		}
		sign := provider.Progress
		for _, choice := range c.Choices {
			if choice.Index != 0 {
				continue
			}
			if choice.FinishReason != "" {
				sign = provider.Complete
			}
			tell(heard, string(choice.Delta.Content), choice.Delta.Refusal, choice.Delta.ToolCalls)
		}
		return sign
	}
}

func tell(heard func(provider.Delta), text, refusal string, calls []toolCall) {
	if heard == nil {
		return
	}
	if text != "" || refusal != "" {
		heard(provider.Delta{Text: text, Refusal: refusal})
	}
	for _, call := range calls {
		heard(provider.Delta{Tool: &provider.ToolDelta{
			Index: call.Index, ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments,
		}})
	}
}

// tellWhole tells of an answer that came in one piece, since the server does not stream.
func tellWhole(heard func(provider.Delta), x provider.Exchange) {
	var c completion
	if x.Status >= http.StatusMultipleChoices || json.Unmarshal(x.Body, &c) != nil || len(c.Choices) == 0 {
		return
	}
	m := c.Choices[0].Message
	for i := range m.ToolCalls {
		m.ToolCalls[i].Index = i
	}
	tell(heard, string(m.Content), m.Refusal, m.ToolCalls)
}

// isError reports whether an event says that the answer has failed.
func isError(event []byte) bool {
	return bytes.Contains(event, []byte("error")) &&
		failure.ClassifyEvent(failure.OpenAI, event, nil, time.Time{}).Class != failure.None
}

// assembly is an answer that is put together from its pieces.
type assembly struct {
	text, refusal strings.Builder
	calls         []*pieces
	byIndex       map[int]*pieces
	finish        string
	usage         json.RawMessage
	tier          string

	ended      bool // the stream has said so
	unreadable bool
}

// pieces are those of one tool call.
type pieces struct {
	id, name  string
	arguments strings.Builder
}

// assemble makes of a stream the answer that the server would have sent in one piece. Finish says why it is none: it is
// unreadable, or it was cut off, since neither a finish reason nor [DONE] came. Broken is the event that says that the
// answer has failed; nil if there is none. What came before is returned all the same.
func assemble(body []byte) (c completion, finish string, broken []byte) {
	a := assembly{byIndex: map[int]*pieces{}}
	for e := range provider.Events(body) {
		if a.ended = e.Ends(); a.ended {
			break
		}
		if isError(e.Data) {
			broken = e.Data
			break
		}
		a.add(e.Data)
	}
	switch {
	case a.unreadable:
		finish = failure.FinishUnreadable
	case a.finish == "" && !a.ended:
		finish = failure.FinishCut
	}
	return a.completion(), finish, broken
}

func (a *assembly) add(event []byte) {
	var c chunk
	if json.Unmarshal(event, &c) != nil {
		a.unreadable = true
		return
	}
	if len(c.Usage) > 0 && string(c.Usage) != "null" {
		a.usage = c.Usage
	}
	if c.ServiceTier != "" {
		a.tier = c.ServiceTier
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		a.text.WriteString(string(choice.Delta.Content))
		a.refusal.WriteString(choice.Delta.Refusal)
		for _, call := range choice.Delta.ToolCalls {
			a.addCall(call)
		}
		if choice.FinishReason != "" {
			a.finish = choice.FinishReason
		}
	}
}

// addCall goes on with a tool call. Some servers give every call the index 0, and tell them apart by their ids.
func (a *assembly) addCall(call toolCall) {
	p := a.byIndex[call.Index]
	if p == nil || call.ID != "" && p.id != "" && call.ID != p.id {
		p = &pieces{}
		a.calls, a.byIndex[call.Index] = append(a.calls, p), p
	}
	if call.ID != "" {
		p.id = call.ID
	}
	if call.Function.Name != "" {
		p.name = call.Function.Name
	}
	p.arguments.WriteString(call.Function.Arguments)
}

func (a *assembly) completion() completion {
	one := choice{FinishReason: a.finish}
	one.Message.Content, one.Message.Refusal = content(a.text.String()), a.refusal.String()
	for i, p := range a.calls {
		call := toolCall{Index: i, ID: p.id}
		call.Function.Name, call.Function.Arguments = p.name, p.arguments.String()
		one.Message.ToolCalls = append(one.Message.ToolCalls, call)
	}
	return completion{Choices: []choice{one}, Usage: a.usage, ServiceTier: a.tier}
}
