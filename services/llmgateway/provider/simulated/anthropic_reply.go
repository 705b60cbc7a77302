package simulated

import "encoding/json"

// messagesUsage is what an answer costs, as Anthropic says it: the input is what neither came from the cache nor went there.
type messagesUsage struct {
	Input         int            `json:"input_tokens"`
	CacheCreation int            `json:"cache_creation_input_tokens"`
	CacheRead     int            `json:"cache_read_input_tokens"`
	CacheSplit    map[string]int `json:"cache_creation"`
	Output        int            `json:"output_tokens"`
	Tier          string         `json:"service_tier,omitempty"`
}

func newMessagesUsage(u usage) *messagesUsage {
	if u.unsaid {
		return nil
	}
	return &messagesUsage{
		Input: u.fresh(), CacheCreation: u.write5m + u.write1h, CacheRead: u.cached,
		CacheSplit: map[string]int{"ephemeral_5m_input_tokens": u.write5m, "ephemeral_1h_input_tokens": u.write1h},
		Output:     u.output, Tier: "standard",
	}
}

// anthropicMessage is an answer as Anthropic writes it.
type anthropicMessage struct {
	ID         string         `json:"id"`
	Type       string         `json:"type"`
	Role       string         `json:"role"`
	Model      string         `json:"model"`
	Content    []any          `json:"content"`
	StopReason any            `json:"stop_reason"` // null at the start of a stream
	StopAt     any            `json:"stop_sequence"`
	Usage      *messagesUsage `json:"usage,omitempty"`
}

func (a *answer) message() anthropicMessage {
	return anthropicMessage{
		ID: "msg_simulated_" + a.id, Type: "message", Role: "assistant", Model: a.model, Content: []any{}, Usage: newMessagesUsage(a.usage),
	}
}

func (a *answer) stopReason() string {
	return map[ending]string{
		endStop: "end_turn", endLength: "max_tokens", endFilter: "refusal", endRefusal: "refusal", endTool: "tool_use",
	}[a.end]
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type thinkingBlock struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}

type toolBlock struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// signature stands under what it thinks.
const signature = "c2ltdWxhdGVk"

func (a *answer) toolID() string { return "toolu_simulated_" + a.id }

// messagesWriter writes answers as messages.
type messagesWriter struct{}

func (messagesWriter) whole(_ *question, a *answer) []byte {
	m := a.message()
	m.StopReason = a.stopReason()
	if a.empty {
		return marshal(m)
	}
	if a.thought != "" {
		m.Content = append(m.Content, thinkingBlock{"thinking", a.thought, signature})
	}
	if a.text != "" {
		m.Content = append(m.Content, textBlock{"text", a.text})
	}
	if a.call != nil {
		m.Content = append(m.Content, toolBlock{"tool_use", a.toolID(), a.call.name, a.call.object()})
	}
	return marshal(m)
}
