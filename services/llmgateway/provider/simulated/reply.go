package simulated

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// apiError is an error in the form that OpenAI answers with.
type apiError struct {
	status     int
	retryAfter time.Duration // 0: no such header

	Message string `json:"message"`
	Type    string `json:"type"`
	Param   any    `json:"param"`
	Code    any    `json:"code"` // a string, or null
}

// invalid returns an error of the caller; param is the member that is wrong, "" if it is none in particular.
func invalid(param, message string) *apiError {
	e := &apiError{status: http.StatusBadRequest, Type: "invalid_request_error", Message: message}
	if param != "" {
		e.Param = param
	}
	return e
}

func (e *apiError) write(w http.ResponseWriter) {
	if e.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatFloat(math.Ceil(e.retryAfter.Seconds()), 'f', 0, 64))
		w.Header().Set("Retry-After-Ms", strconv.FormatInt(e.retryAfter.Milliseconds(), 10))
	}
	writeJSON(w, e.status, map[string]any{"error": e})
}

// writeJSON answers with v. A caller that is gone does not read it; nobody else has to know.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(marshal(v))
}

// marshal encodes v, which cannot fail: it is made here of plain values. Text is left readable.
func marshal(v any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return out.Bytes()
}

// bearer returns the API key of a request.
func bearer(r *http.Request) string {
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return key
}

// completion is an answer before it is put into a form.
type completion struct {
	id      string
	created int64
	model   string
	content string
	refusal string
	finish  string // stop, length or content_filter
	usage   usage
	empty   bool // no choices
}

// usage is what the answer costs, in tokens.
type usage struct {
	Prompt           int            `json:"prompt_tokens"`
	Completion       int            `json:"completion_tokens"`
	Total            int            `json:"total_tokens"`
	PromptDetails    map[string]int `json:"prompt_tokens_details"`
	CompletionDetail map[string]int `json:"completion_tokens_details"`
}

func newUsage(prompt, completion int) usage {
	return usage{
		Prompt: prompt, Completion: completion, Total: prompt + completion,
		PromptDetails: map[string]int{"cached_tokens": 0}, CompletionDetail: map[string]int{"reasoning_tokens": 0},
	}
}

// envelope is what whole answers and pieces of streamed ones have in common.
type envelope struct {
	ID          string   `json:"id"`
	Object      string   `json:"object"`
	Created     int64    `json:"created"`
	Model       string   `json:"model"`
	Fingerprint string   `json:"system_fingerprint"`
	Choices     []choice `json:"choices"`
	Usage       *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index    int      `json:"index"`
	Message  *message `json:"message,omitempty"`
	Delta    *delta   `json:"delta,omitempty"`
	Logprobs any      `json:"logprobs"`
	Finish   any      `json:"finish_reason"` // a string; null while a stream goes on
}

type message struct {
	Role    string  `json:"role"`
	Content *string `json:"content"` // null beside a refusal
	Refusal *string `json:"refusal"`
}

type delta struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content,omitempty"`
	Refusal string `json:"refusal,omitempty"`
}

func (c completion) envelope(object string) envelope {
	return envelope{ID: c.id, Object: object, Created: c.created, Model: c.model, Fingerprint: "simulated", Choices: []choice{}}
}

// whole returns the answer as one JSON document.
func (c completion) whole() []byte {
	e := c.envelope("chat.completion")
	e.Usage = &c.usage
	if !c.empty {
		m := &message{Role: "assistant", Content: &c.content}
		if c.refusal != "" {
			m.Content, m.Refusal = nil, &c.refusal
		}
		e.Choices = []choice{{Message: m, Finish: c.finish}}
	}
	return marshal(e)
}

// wordsPerDelta is how much of an answer a piece of a stream carries.
const wordsPerDelta = 8

// events returns the answer as the events of a stream, the last of them [DONE].
func (c completion) events(withUsage bool) [][]byte {
	var events [][]byte
	add := func(choices []choice, u *usage) {
		e := c.envelope("chat.completion.chunk")
		e.Choices, e.Usage = choices, u
		events = append(events, event(marshal(e)))
	}
	if !c.empty {
		add([]choice{{Delta: &delta{Role: "assistant"}}}, nil)
		for piece := range pieces(c.content) {
			add([]choice{{Delta: &delta{Content: piece}}}, nil)
		}
		if c.refusal != "" {
			add([]choice{{Delta: &delta{Refusal: c.refusal}}}, nil)
		}
		add([]choice{{Delta: &delta{}, Finish: c.finish}}, nil)
	}
	if withUsage {
		add([]choice{}, &c.usage)
	}
	return append(events, event([]byte("[DONE]\n")))
}

// event frames data, which ends with a newline, as one server-sent event.
func event(data []byte) []byte { return append(append([]byte("data: "), data...), '\n') }

// pieces yields a text in runs of a few words.
func pieces(s string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		words := 0
		start := 0
		for i := range len(s) {
			if s[i] != ' ' {
				continue
			}
			if words++; words == wordsPerDelta {
				if !yield(s[start:i]) {
					return
				}
				start, words = i, 0
			}
		}
		if start < len(s) {
			yield(s[start:])
		}
	}
}
