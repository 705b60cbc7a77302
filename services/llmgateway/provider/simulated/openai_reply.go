package simulated

// chatUsage is what an answer costs, as OpenAI says it.
type chatUsage struct {
	Prompt           int            `json:"prompt_tokens"`
	Completion       int            `json:"completion_tokens"`
	Total            int            `json:"total_tokens"`
	PromptDetails    map[string]int `json:"prompt_tokens_details"`
	CompletionDetail map[string]int `json:"completion_tokens_details"`
}

func newChatUsage(u usage) *chatUsage {
	if u.unsaid {
		return nil
	}
	prompt := map[string]int{"cached_tokens": u.cached}
	if written := u.write5m + u.write1h; written > 0 {
		prompt["cache_write_tokens"] = written
	}
	return &chatUsage{
		Prompt: u.prompt, Completion: u.output, Total: u.total(),
		PromptDetails: prompt, CompletionDetail: map[string]int{"reasoning_tokens": u.reasoning},
	}
}

// envelope is what whole answers and pieces of streamed ones have in common.
type envelope struct {
	ID          string     `json:"id"`
	Object      string     `json:"object"`
	Created     int64      `json:"created"`
	Model       string     `json:"model"`
	Fingerprint string     `json:"system_fingerprint"`
	Choices     []choice   `json:"choices"`
	Usage       *chatUsage `json:"usage,omitempty"`
}

type choice struct {
	Index    int      `json:"index"`
	Message  *message `json:"message,omitempty"`
	Delta    *delta   `json:"delta,omitempty"`
	Logprobs any      `json:"logprobs"`
	Finish   any      `json:"finish_reason"` // a string; null while a stream goes on
}

type message struct {
	Role    string         `json:"role"`
	Content *string        `json:"content"` // null beside a refusal or a call
	Refusal *string        `json:"refusal"`
	Calls   []chatToolCall `json:"tool_calls,omitempty"`
}

type delta struct {
	Role    string         `json:"role,omitempty"`
	Content string         `json:"content,omitempty"`
	Refusal string         `json:"refusal,omitempty"`
	Calls   []chatToolCall `json:"tool_calls,omitempty"`
}

type chatToolCall struct {
	Index    *int             `json:"index,omitempty"` // only in streams
	ID       string           `json:"id,omitempty"`
	Type     string           `json:"type,omitempty"`
	Function chatToolFunction `json:"function"`
}

type chatToolFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// chatWriter writes answers as chat completions.
type chatWriter struct{ usageInStream bool }

func (a *answer) envelope(object string) envelope {
	return envelope{
		ID: "chatcmpl-simulated-" + a.id, Object: object, Created: a.at.Unix(), Model: a.model, Fingerprint: "simulated", Choices: []choice{},
	}
}

func (a *answer) finish() string {
	return map[ending]string{
		endStop: "stop", endRefusal: "stop", endLength: "length", endFilter: "content_filter", endTool: "tool_calls",
	}[a.end]
}

func (a *answer) callID() string { return "call_simulated_" + a.id }

func (chatWriter) whole(_ *question, a *answer) []byte {
	e := a.envelope("chat.completion")
	e.Usage = newChatUsage(a.usage)
	if a.empty {
		return marshal(e)
	}
	m := &message{Role: "assistant", Content: &a.text}
	switch {
	case a.refusal != "":
		m.Content, m.Refusal = nil, &a.refusal
	case a.call != nil:
		m.Content = nil
		m.Calls = []chatToolCall{{ID: a.callID(), Type: "function", Function: chatToolFunction{a.call.name, a.call.arguments}}}
	}
	e.Choices = []choice{{Message: m, Finish: a.finish()}}
	return marshal(e)
}

func (w chatWriter) pieces(_ *question, a *answer) []piece {
	var all []piece
	add := func(choices []choice, u *chatUsage, carries bool) {
		e := a.envelope("chat.completion.chunk")
		e.Choices, e.Usage = choices, u
		all = append(all, piece{event("", marshal(e)), carries})
	}
	if !a.empty {
		add([]choice{{Delta: &delta{Role: "assistant"}}}, nil, false)
		for _, d := range a.deltas() {
			add([]choice{{Delta: &d}}, nil, true)
		}
		add([]choice{{Delta: &delta{}, Finish: a.finish()}}, nil, false)
	}
	if u := newChatUsage(a.usage); w.usageInStream && u != nil {
		add([]choice{}, u, false)
	}
	return append(all, piece{data: event("", []byte("[DONE]\n"))})
}

// deltas is what the pieces of a streamed answer carry.
func (a *answer) deltas() []delta {
	var all []delta
	for run := range runs(a.text) {
		all = append(all, delta{Content: run})
	}
	if a.refusal != "" {
		all = append(all, delta{Refusal: a.refusal})
	}
	if a.call == nil {
		return all
	}
	first := 0
	all = append(all, delta{Calls: []chatToolCall{{
		Index: &first, ID: a.callID(), Type: "function", Function: chatToolFunction{Name: a.call.name},
	}}})
	for run := range runs(a.call.arguments) {
		all = append(all, delta{Calls: []chatToolCall{{Index: &first, Function: chatToolFunction{Arguments: run}}}})
	}
	return all
}
