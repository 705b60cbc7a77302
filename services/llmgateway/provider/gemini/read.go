package gemini

import (
	"encoding/json"
	"strings"
	"time"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/provider"
)

// Format is the name under which answers of this form are stored, so that they can be read again.
const Format = "gemini"

// answer is the body of an answer, as far as it matters here. Each event of a stream has this form too.
type answer struct {
	Candidates     []candidate `json:"candidates"`
	PromptFeedback struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	// Usage is read apart, so that odd counts do not make an answer unreadable.
	Usage      json.RawMessage `json:"usageMetadata"`
	ResponseID string          `json:"responseId"`
	Embeddings []struct {
		Values []float32 `json:"values"`
	} `json:"embeddings"`
}

type candidate struct {
	Content      content `json:"content"`
	FinishReason string  `json:"finishReason"`
	Grounding    struct {
		Searches []string `json:"webSearchQueries"`
	} `json:"groundingMetadata"`
}

// Read says what an answer means that was read to its end, in one document or in events. It needs status and body only, so
// that a stored answer can be read again; the header adds waits.
func Read(x provider.Exchange, now time.Time) provider.Reading {
	if x.Streamed() {
		return readStream(x, now)
	}
	r := provider.Reading{Failure: failure.Classify(failure.Gemini, x.Status, x.Header, x.Body, now)}
	var a answer
	err := json.Unmarshal(x.Body, &a)
	r.RequestID = a.ResponseID
	r.Usage, r.UsageKnown = a.usage()
	switch {
	case r.Failure.Class != failure.None:
		return r
	case x.TooLong:
		return end(r, failure.FinishTooLong)
	case err != nil:
		return end(r, failure.FinishUnreadable)
	case len(a.Embeddings) > 0:
		return a.readEmbeddings(r)
	}
	return a.read(r)
}

// end makes the reading one of an answer that ended with the word.
func end(r provider.Reading, word string) provider.Reading {
	r.FinishReason = word
	r.Failure = failure.Finish(failure.Gemini, word)
	return r
}

func (a answer) readEmbeddings(r provider.Reading) provider.Reading {
	vectors := make([]*systemv1.Embedding, len(a.Embeddings))
	for i, e := range a.Embeddings {
		if len(e.Values) == 0 {
			return end(r, failure.FinishUnreadable)
		}
		vectors[i] = &systemv1.Embedding{Values: e.Values}
	}
	r.Embeddings = vectors
	return end(r, "STOP")
}

// read adds what the first candidate says. One that does not say why it ended is not known to be whole.
func (a answer) read(r provider.Reading) provider.Reading {
	switch reason := a.PromptFeedback.BlockReason; {
	case len(a.Candidates) == 0 && reason != "":
		return end(r, failure.FinishBlocked+reason)
	case len(a.Candidates) == 0:
		return end(r, failure.FinishEmpty)
	case a.Candidates[0].FinishReason == "":
		return end(r, failure.FinishUnreadable)
	}
	r.Text, r.ToolCalls = a.Candidates[0].Content.say()
	r = end(r, a.Candidates[0].FinishReason)
	if r.Failure.Class == failure.None && r.Text == "" && len(r.ToolCalls) == 0 {
		return end(r, failure.FinishEmpty)
	}
	return r
}

// say gives the text and the calls of tools. Thoughts are no part of it.
func (c content) say() (string, []*systemv1.ToolCall) {
	var text strings.Builder
	var calls []*systemv1.ToolCall
	for _, p := range c.Parts {
		if p.Thought {
			continue
		}
		text.WriteString(p.Text)
		if p.FunctionCall != nil {
			calls = append(calls, p.call(len(calls)))
		}
	}
	return text.String(), calls
}

// call is the call of a tool in the part, which is the one at the place.
func (p part) call(place int) *systemv1.ToolCall {
	c := p.FunctionCall
	args := "{}"
	if len(c.Args) > 0 && string(c.Args) != "null" {
		args = provider.Compact(c.Args)
	}
	return &systemv1.ToolCall{Id: joinID(c.ID, place, p.ThoughtSignature), Name: c.Name, Arguments: args}
}
