package gemini

import (
	"encoding/json"
	"time"

	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/provider"
)

// add goes on with the answer by what an event brings. Counts are from the answer's beginning: the last ones hold.
func (a *answer) add(next answer) {
	if next.ResponseID != "" {
		a.ResponseID = next.ResponseID
	}
	if len(next.Usage) > 0 {
		a.Usage = next.Usage
	}
	if next.PromptFeedback.BlockReason != "" {
		a.PromptFeedback = next.PromptFeedback
	}
	if len(next.Candidates) == 0 {
		return
	}
	if len(a.Candidates) == 0 {
		a.Candidates = []candidate{{}}
	}
	first, more := &a.Candidates[0], next.Candidates[0]
	first.Content.Parts = append(first.Content.Parts, more.Content.Parts...)
	if more.FinishReason != "" {
		first.FinishReason = more.FinishReason
	}
	if len(more.Grounding.Searches) > 0 {
		first.Grounding = more.Grounding
	}
}

// whole reports whether the answer has said why it ended, or the prompt was blocked.
func (a *answer) whole() bool {
	return a.PromptFeedback.BlockReason != "" || len(a.Candidates) > 0 && a.Candidates[0].FinishReason != ""
}

// readStream reads an answer that came in events. What does not say why it ended broke off.
func readStream(x provider.Exchange, now time.Time) provider.Reading {
	var a answer
	var r provider.Reading
	broken := false
	for e := range provider.Events(x.Body) {
		if r.Failure = failure.ClassifyEvent(failure.Gemini, e.Data, x.Header, now); r.Failure.Class != failure.None {
			return r
		}
		var next answer
		broken = json.Unmarshal(e.Data, &next) != nil || broken
		a.add(next)
	}
	r.RequestID = a.ResponseID
	switch {
	case x.TooLong && !a.whole():
		return end(r, failure.FinishTooLong)
	case !a.whole(): // what it has counted until then is not all
		return end(r, failure.FinishCut)
	}
	r.Usage, r.UsageKnown = a.usage()
	if broken {
		return end(r, failure.FinishUnreadable)
	}
	return a.read(r)
}

// listener tells the asker what is said, as it comes.
type listener struct {
	heard func(provider.Delta)
	calls int
}

// hear says what an event means for the exchange. What comes after an error does not matter; after the last part of an
// answer its counts may still come.
func (l *listener) hear(e provider.Event) provider.Sign {
	var next struct {
		answer
		Error json.RawMessage `json:"error"`
	}
	_ = json.Unmarshal(e.Data, &next) // Read says what is wrong with it
	if len(next.Error) > 0 {
		return provider.Last
	}
	if len(next.Candidates) > 0 {
		l.tell(next.Candidates[0].Content)
	}
	if next.whole() {
		return provider.Complete
	}
	return provider.Progress
}

func (l *listener) tell(c content) {
	for _, p := range c.Parts {
		if l.heard == nil || p.Thought {
			continue
		}
		if p.Text != "" {
			l.heard(provider.Delta{Text: p.Text})
		}
		if p.FunctionCall != nil {
			call := p.call(l.calls)
			l.heard(provider.Delta{Tool: &provider.ToolDelta{Index: l.calls, ID: call.GetId(), Name: call.GetName(), Arguments: call.GetArguments()}})
			l.calls++
		}
	}
}
