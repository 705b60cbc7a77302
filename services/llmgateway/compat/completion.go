package compat

import (
	"encoding/json"
	"net/http"

	"github.com/google/uuid"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/llmgateway/failure"
)

// The ends of an answer, in OpenAI's words.
const (
	finishStop      = "stop"
	finishLength    = "length"
	finishTools     = "tool_calls"
	finishFiltered  = "content_filter"
	contentRefused  = "content_refused"
	objectAnswer    = "chat.completion"
	objectChunk     = "chat.completion.chunk"
	roleOfTheAnswer = "assistant"
)

// completion is an answer that is whole.
type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   usage    `json:"usage"`
}

type choice struct {
	Index        int     `json:"index"`
	Message      message `json:"message"`
	Logprobs     *string `json:"logprobs"`
	FinishReason string  `json:"finish_reason"`
}

type message struct {
	Role        string     `json:"role"`
	Content     *string    `json:"content"`
	Refusal     *string    `json:"refusal"`
	ToolCalls   []toolCall `json:"tool_calls,omitempty"`
	Annotations []string   `json:"annotations"`
}

type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function calledByName `json:"function"`
}

type calledByName struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type usage struct {
	Prompt            int64             `json:"prompt_tokens"`
	Completion        int64             `json:"completion_tokens"`
	Total             int64             `json:"total_tokens"`
	PromptDetails     promptDetails     `json:"prompt_tokens_details"`
	CompletionDetails completionDetails `json:"completion_tokens_details"`
}

type promptDetails struct {
	Cached int64 `json:"cached_tokens"`
}

type completionDetails struct {
	Reasoning int64 `json:"reasoning_tokens"`
}

func usageOf(a *systemv1.Answer) usage {
	return usage{
		Prompt: a.GetInputTokens(), Completion: a.GetOutputTokens(), Total: a.GetInputTokens() + a.GetOutputTokens(),
		PromptDetails:     promptDetails{a.GetCachedInputTokens()},
		CompletionDetails: completionDetails{a.GetReasoningTokens()},
	}
}

// chat answers a request for a completion.
func (e *endpoint) chat(w http.ResponseWriter, r *http.Request) error {
	h, err := e.authenticate(r, mayAsk)
	if err != nil {
		return err
	}
	body, err := e.readBody(w, r)
	if err != nil {
		return err
	}
	c, err := readChat(body)
	if err != nil {
		return err
	}
	a, end, err := e.ask(r, h, "chat", c.question, c.stream)
	if err != nil {
		return err
	}
	defer end()
	if c.stream {
		return e.stream(w, r, a, c.includeUsage)
	}
	result, err := a.await()
	if err != nil {
		return err
	}
	e.describe(w, r, a, result)
	if !isAnswer(result) {
		return failed(result.Failure)
	}
	writeJSON(w, completionOf(a.scope, result))
	return nil
}

// isAnswer reports whether there is something to answer with: also an answer that was cut off, refused or is empty is one to
// clients of this form, and says so itself.
func isAnswer(result Result) bool {
	return result.Answer != nil && (result.Failure == nil || finishOf(result) != "")
}

// finishOf says how the answer ended; empty where OpenAI has no word for it.
func finishOf(result Result) string {
	switch {
	case result.Failure == nil && len(result.Answer.GetToolCalls()) > 0:
		return finishTools
	case result.Failure == nil:
		return finishStop
	case result.Failure.GetReason() == failure.ReasonTruncated:
		return finishLength
	case isRefusal(result), result.Failure.GetReason() == failure.ReasonEmpty:
		return finishStop
	case result.Failure.GetReason() == contentRefused:
		return finishFiltered
	default:
		return ""
	}
}

// isRefusal reports whether the model declined in so many words. A filter says nothing.
func isRefusal(result Result) bool {
	return result.Failure.GetReason() == contentRefused && result.Answer.GetFinishReason() == failure.FinishRefusal
}

func completionID(scope uuid.UUID) string { return "chatcmpl-" + scope.String() }

func completionOf(scope uuid.UUID, result Result) completion {
	a := result.Answer
	m := message{Role: roleOfTheAnswer, Annotations: []string{}}
	for _, t := range a.GetToolCalls() {
		m.ToolCalls = append(m.ToolCalls, toolCall{ID: t.GetId(), Type: "function", Function: calledByName{t.GetName(), t.GetArguments()}})
	}
	switch text := a.GetText(); {
	case isRefusal(result):
		words := refusalOf(a)
		m.Refusal = &words
	case text != "" || len(m.ToolCalls) == 0:
		m.Content = &text
	}
	return completion{
		ID: completionID(scope), Object: objectAnswer, Created: created(scope), Model: a.GetModel(),
		Choices: []choice{{Message: m, FinishReason: finishOf(result)}}, Usage: usageOf(a),
	}
}

// refusalOf is what the model said when it declined.
func refusalOf(a *systemv1.Answer) string {
	if text := a.GetText(); text != "" {
		return text
	}
	return "The model declined to answer."
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", contentJSON)
	text, err := json.Marshal(value)
	if err != nil { // texts, numbers that are finite, and lists of them always encode
		writeProblem(w, problemOf(err))
		return
	}
	_, _ = w.Write(append(text, '\n')) // the client went away: nobody is left to tell
}
