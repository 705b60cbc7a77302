package simulated

import "encoding/json"

// messageStream gathers the events of a streamed message.
type messageStream struct {
	events []piece
	block  int
}

func (s *messageStream) add(name string, carries bool, members map[string]any) {
	members["type"] = name
	s.events = append(s.events, piece{event(name, marshal(members)), carries})
}

// content adds one block of content: how it begins, and its deltas.
func (s *messageStream) content(begins any, deltas ...map[string]any) {
	s.add("content_block_start", false, map[string]any{"index": s.block, "content_block": begins})
	for _, d := range deltas {
		s.add("content_block_delta", true, map[string]any{"index": s.block, "delta": d})
	}
	s.add("content_block_stop", false, map[string]any{"index": s.block})
	s.block++
}

// partial cuts a text into deltas of a type with one member.
func partial(kind, member, text string) []map[string]any {
	var all []map[string]any
	for run := range runs(text) {
		all = append(all, map[string]any{"type": kind, member: run})
	}
	return all
}

func (messagesWriter) pieces(_ *question, a *answer) []piece {
	s := &messageStream{}
	m := a.message()
	if m.Usage != nil {
		m.Usage.Output = min(1, a.usage.output) // the first word; the rest comes at the end
	}
	s.add("message_start", false, map[string]any{"message": m})
	s.add("ping", false, map[string]any{})
	if !a.empty {
		a.stream(s)
	}
	end := map[string]any{"delta": map[string]any{"stop_reason": a.stopReason(), "stop_sequence": nil}}
	if u := newMessagesUsage(a.usage); u != nil {
		u.Tier = "" // which only the start tells
		end["usage"] = u
	}
	s.add("message_delta", false, end)
	s.add("message_stop", false, map[string]any{})
	return s.events
}

// stream adds the answer's content.
func (a *answer) stream(s *messageStream) {
	if a.thought != "" {
		deltas := append(partial("thinking_delta", "thinking", a.thought), map[string]any{"type": "signature_delta", "signature": signature})
		s.content(thinkingBlock{Type: "thinking"}, deltas...)
	}
	if a.text != "" {
		s.content(textBlock{Type: "text"}, partial("text_delta", "text", a.text)...)
	}
	if a.call != nil {
		s.content(toolBlock{"tool_use", a.toolID(), a.call.name, json.RawMessage("{}")}, partial("input_json_delta", "partial_json", a.call.arguments)...)
	}
}
