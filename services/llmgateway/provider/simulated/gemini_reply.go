package simulated

import "encoding/json"

// generateUsage is what an answer costs, as Gemini says it: thoughts are not among the candidates' tokens.
type generateUsage struct {
	Prompt     int `json:"promptTokenCount"`
	Candidates int `json:"candidatesTokenCount"`
	Thoughts   int `json:"thoughtsTokenCount,omitempty"`
	Cached     int `json:"cachedContentTokenCount,omitempty"`
	Total      int `json:"totalTokenCount"`
}

func newGenerateUsage(u usage) *generateUsage {
	if u.unsaid {
		return nil
	}
	return &generateUsage{
		Prompt: u.prompt, Candidates: u.output - u.reasoning, Thoughts: u.reasoning, Cached: u.cached, Total: u.total(),
	}
}

// generated is an answer, or a part of a streamed one.
type generated struct {
	Candidates []candidate    `json:"candidates,omitempty"`
	Feedback   any            `json:"promptFeedback,omitempty"`
	Usage      *generateUsage `json:"usageMetadata,omitempty"`
	Version    string         `json:"modelVersion"`
	ID         string         `json:"responseId"`
}

type candidate struct {
	Content geminiAnswer `json:"content"`
	Finish  string       `json:"finishReason,omitempty"`
	Index   int          `json:"index"`
}

type geminiAnswer struct {
	Role  string       `json:"role"`
	Parts []answerPart `json:"parts"`
}

type answerPart struct {
	Text    string        `json:"text,omitempty"`
	Thought bool          `json:"thought,omitempty"`
	Call    *functionCall `json:"functionCall,omitempty"`
}

type functionCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"args"`
}

// generateWriter writes answers of generateContent.
type generateWriter struct{ thoughts bool }

// with returns a part of the answer; without parts it is the end of a stream.
func (a *answer) with(parts []answerPart, finish string) generated {
	if parts == nil {
		parts = []answerPart{}
	}
	return generated{
		Candidates: []candidate{{Content: geminiAnswer{Role: "model", Parts: parts}, Finish: finish}},
		Usage:      newGenerateUsage(a.usage), Version: a.model, ID: "simulated-" + a.id,
	}
}

func (a *answer) finishReason() string {
	return map[ending]string{endStop: "STOP", endTool: "STOP", endLength: "MAX_TOKENS", endFilter: "SAFETY", endRefusal: "SAFETY"}[a.end]
}

// none returns an answer without candidates, as there is for a blocked prompt, and whether the answer is one.
func (a *answer) none() (generated, bool) {
	g := a.with(nil, "")
	g.Candidates = nil
	if a.refusal != "" {
		g.Feedback = map[string]string{"blockReason": "SAFETY"}
	}
	return g, a.empty || a.refusal != ""
}

// parts is all that the answer says, a text in one part.
func (w generateWriter) parts(a *answer) []answerPart {
	var parts []answerPart
	if w.thoughts && a.thought != "" {
		parts = append(parts, answerPart{Text: a.thought, Thought: true})
	}
	if a.text != "" {
		parts = append(parts, answerPart{Text: a.text})
	}
	if a.call != nil {
		parts = append(parts, answerPart{Call: &functionCall{"simulated-" + a.id, a.call.name, a.call.object()}})
	}
	return parts
}

func (w generateWriter) whole(_ *question, a *answer) []byte {
	if blocked, is := a.none(); is {
		return marshal(blocked)
	}
	return marshal(a.with(w.parts(a), a.finishReason()))
}

func (w generateWriter) pieces(q *question, a *answer) []piece {
	var chunks []generated
	if blocked, is := a.none(); is {
		chunks = []generated{blocked}
	} else {
		for _, part := range w.parts(a) {
			chunks = append(chunks, a.chunks(part)...)
		}
		chunks = append(chunks, a.with(nil, a.finishReason()))
	}
	var all []piece
	said := 0
	for i, chunk := range chunks {
		last := i == len(chunks)-1
		if u := chunk.Usage; u != nil && !last { // what it costs so far
			if part := chunk.Candidates[0].Content.Parts[0]; !part.Thought {
				said += tokens(part.Text)
			}
			u.Candidates = min(u.Candidates, said)
			u.Total = u.Prompt + u.Candidates + u.Thoughts
		}
		all = append(all, piece{q.frame(marshal(chunk), i, len(chunks)), !last})
	}
	return all
}

// chunks cuts a part into those of a stream.
func (a *answer) chunks(part answerPart) []generated {
	if part.Text == "" {
		return []generated{a.with([]answerPart{part}, "")}
	}
	var chunks []generated
	for run := range runs(part.Text) {
		chunks = append(chunks, a.with([]answerPart{{Text: run, Thought: part.Thought}}, ""))
	}
	return chunks
}

// frame writes chunk i of n.
func (q *question) frame(chunk []byte, i, n int) []byte {
	if !q.listed {
		return event("", chunk)
	}
	before, after := ",", ""
	if i == 0 {
		before = "["
	}
	if i == n-1 {
		after = "]\n"
	}
	return []byte(before + string(chunk) + after)
}
