package anthropic

import (
	"encoding/json"
	"time"

	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/provider"
)

// The types of events that matter.
const (
	eventStart      = "message_start"
	eventBlockStart = "content_block_start"
	eventBlockDelta = "content_block_delta"
	eventBlockStop  = "content_block_stop"
	eventDelta      = "message_delta"
	eventStop       = "message_stop"
	eventPing       = "ping"
	eventError      = "error"
)

// event is an event of a stream.
type event struct {
	Type    string `json:"type"`
	Message answer `json:"message"`
	Index   int    `json:"index"`
	Block   piece  `json:"content_block"`
	Delta   struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
		StopDetails struct {
			Category string `json:"category"`
		} `json:"stop_details"`
	} `json:"delta"`
	Usage json.RawMessage `json:"usage"`
}

// parse reads an event. Its type stands in its data, and beside it as its name.
func parse(e provider.Event) (event, bool) {
	var parsed event
	err := json.Unmarshal(e.Data, &parsed)
	if parsed.Type == "" {
		parsed.Type = e.Name
	}
	return parsed, err == nil
}

// assembly puts the events of a stream together to the answer that would have come as one document.
type assembly struct {
	answer answer
	counts counts
	// texts and inputs grow with each block.
	texts, inputs [][]byte
	// whole: the stream has said its last; broken: it has said something that it cannot.
	whole, broken bool
}

func (a *assembly) take(e event) {
	switch e.Type {
	case eventStart:
		a.answer.Type = e.Message.Type
		a.count(e.Message.Usage)
	case eventBlockStart:
		a.begin(e)
	case eventBlockDelta:
		a.grow(e)
	case eventDelta:
		if e.Delta.StopReason != "" {
			a.answer.StopReason, a.answer.StopDetails = e.Delta.StopReason, e.Delta.StopDetails
		}
		a.count(e.Usage)
	case eventStop:
		a.whole = true
	}
}

func (a *assembly) count(raw json.RawMessage) {
	if a.counts.add(raw) != nil {
		a.counts = counts{} // odd counts are none
	}
}

// begin adds a block. Blocks come one after the other.
func (a *assembly) begin(e event) {
	if e.Index != len(a.answer.Content) {
		a.broken = true
		return
	}
	a.answer.Content = append(a.answer.Content, e.Block)
	a.texts = append(a.texts, []byte(e.Block.Text))
	a.inputs = append(a.inputs, nil)
}

func (a *assembly) grow(e event) {
	if e.Index < 0 || e.Index >= len(a.answer.Content) {
		a.broken = true
		return
	}
	a.texts[e.Index] = append(a.texts[e.Index], e.Delta.Text...)
	a.inputs[e.Index] = append(a.inputs[e.Index], e.Delta.PartialJSON...)
}

// finished returns the answer.
func (a *assembly) finished() answer {
	for i := range a.answer.Content {
		a.answer.Content[i].Text = string(a.texts[i])
		if len(a.inputs[i]) > 0 {
			a.answer.Content[i].Input = a.inputs[i]
		}
	}
	return a.answer
}

// readStream reads an answer that came in events. What has no message_stop broke off, whatever it says until there.
func readStream(x provider.Exchange, now time.Time) provider.Reading {
	r := provider.Reading{RequestID: requestID(x)}
	var a assembly
	for raw := range provider.Events(x.Body) {
		e, ok := parse(raw)
		if e.Type == eventError || e.Type == "" {
			if r.Failure = failure.ClassifyEvent(failure.Anthropic, raw.Data, x.Header, now); r.Failure.Class != failure.None {
				return r
			}
		}
		a.broken = a.broken || !ok
		if a.take(e); a.whole {
			break
		}
	}
	switch {
	case x.TooLong && !a.whole:
		return end(r, failure.FinishTooLong)
	case !a.whole: // what it has counted until then is not all
		return end(r, failure.FinishCut)
	}
	r.Usage, r.UsageKnown = a.counts.usage()
	if a.broken {
		return end(r, failure.FinishUnreadable)
	}
	return a.finished().read(r)
}

// listener tells the asker what is said, as it comes.
type listener struct {
	heard func(provider.Delta)
	// byTool: the answer comes by the tool for answers, so that what the model says beside it is no part of it.
	byTool bool
	// blocks are those that have begun, and calls how many calls of tools are among them.
	blocks []spoken
	calls  int
}

// spoken is a block as the asker sees it: a call of a tool, a part of the text, or nothing to be heard of, as thoughts are.
type spoken struct {
	isCall, isText bool
	call           int
	// argued: the call has arguments.
	argued bool
}

// hear says what an event means for the exchange. After an error nothing follows that matters.
func (l *listener) hear(raw provider.Event) provider.Sign {
	e, _ := parse(raw)
	switch e.Type {
	case eventPing:
		return provider.Alive
	case eventStop, eventError:
		return provider.Last
	case eventBlockStart:
		l.begin(e)
	case eventBlockDelta, eventBlockStop:
		l.grow(e)
	}
	return provider.Progress
}

func (l *listener) begin(e event) {
	s := spoken{call: l.calls}
	switch {
	case e.Block.Type == "tool_use" && e.Block.Name != answerTool:
		s.isCall = true
		l.calls++
		l.tell(provider.Delta{Tool: &provider.ToolDelta{Index: s.call, ID: e.Block.ID, Name: e.Block.Name}})
	case e.Block.Type == "tool_use", e.Block.Type == "text" && !l.byTool:
		s.isText = true
		l.text(e.Block.Text)
	}
	l.blocks = append(l.blocks, s)
}

func (l *listener) grow(e event) {
	if e.Index < 0 || e.Index >= len(l.blocks) {
		return
	}
	switch s := &l.blocks[e.Index]; {
	case s.isCall && e.Type == eventBlockStop && !s.argued:
		l.tell(provider.Delta{Tool: &provider.ToolDelta{Index: s.call, Arguments: "{}"}})
	case s.isCall && e.Delta.PartialJSON != "":
		s.argued = true
		l.tell(provider.Delta{Tool: &provider.ToolDelta{Index: s.call, Arguments: e.Delta.PartialJSON}})
	case s.isText: // the arguments of the tool for answers are the text
		l.text(e.Delta.Text + e.Delta.PartialJSON)
	}
}

func (l *listener) text(text string) {
	if text != "" {
		l.tell(provider.Delta{Text: text})
	}
}

func (l *listener) tell(d provider.Delta) {
	if l.heard != nil {
		l.heard(d)
	}
}
