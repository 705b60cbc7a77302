package anthropic

import (
	"encoding/json"
	"strings"
	"time"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/provider"
)

// Format is the name under which answers of this form are stored, so that they can be read again.
const Format = "anthropic"

// answer is the body of an answer, as far as it matters here.
type answer struct {
	Type        string  `json:"type"`
	Content     []piece `json:"content"`
	StopReason  string  `json:"stop_reason"`
	StopDetails struct {
		Category string `json:"category"`
	} `json:"stop_details"`
	// Usage is read apart, so that odd counts do not make an answer unreadable.
	Usage json.RawMessage `json:"usage"`
}

// piece is a block of an answer. Thoughts, and what the provider's own tools did, are of other types, and no part of what
// was asked for.
type piece struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// Read says what an answer means that was read to its end, in one document or in events. It needs status and body only, so
// that a stored answer can be read again; the header adds the request's id and waits.
func Read(x provider.Exchange, now time.Time) provider.Reading {
	if x.Streamed() {
		return readStream(x, now)
	}
	r := provider.Reading{RequestID: requestID(x)}
	r.Failure = failure.Classify(failure.Anthropic, x.Status, x.Header, x.Body, now)
	var a answer
	err := json.Unmarshal(x.Body, &a)
	r.Usage, r.UsageKnown = readUsage(a.Usage)
	switch {
	case r.Failure.Class != failure.None:
		return r
	case x.TooLong:
		return end(r, failure.FinishTooLong)
	case err != nil:
		return end(r, failure.FinishUnreadable)
	}
	return a.read(r)
}

func requestID(x provider.Exchange) string { return x.Header.Get("Request-Id") }

// end makes the reading one of an answer that ended with the word.
func end(r provider.Reading, word string) provider.Reading {
	r.FinishReason = word
	r.Failure = failure.Finish(failure.Anthropic, word)
	return r
}

// read adds what the answer says. One that does not say why it ended is not known to be whole.
func (a answer) read(r provider.Reading) provider.Reading {
	if a.StopReason == "" {
		return end(r, failure.FinishUnreadable)
	}
	r.Text, r.ToolCalls = a.say()
	r = end(r, a.StopReason)
	if r.Failure.Class == failure.Content && a.StopDetails.Category != "" {
		r.Failure.Message += " (" + a.StopDetails.Category + ")"
	}
	if r.Failure.Class == failure.None && r.Text == "" && len(r.ToolCalls) == 0 {
		return end(r, failure.FinishEmpty)
	}
	return r
}

// say gives the text and the calls of tools. An answer that came by the tool for answers is the text, and what the model
// said beside it is not.
func (a answer) say() (string, []*systemv1.ToolCall) {
	var text strings.Builder
	var calls []*systemv1.ToolCall
	var structured *string
	for _, p := range a.Content {
		switch p.Type {
		case "text":
			text.WriteString(p.Text)
		case "tool_use":
			input := provider.Compact(p.Input)
			if p.Name == answerTool {
				structured = &input
				continue
			}
			calls = append(calls, &systemv1.ToolCall{Id: p.ID, Name: p.Name, Arguments: input})
		}
	}
	if structured != nil {
		return *structured, calls
	}
	return text.String(), calls
}
