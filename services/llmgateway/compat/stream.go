package compat

import (
	"net/http"
	"strings"
	"time"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/llmgateway/provider"
)

const (
	// firstComment is how long a stream may be silent before it begins with a comment, which keeps the connection open. Until
	// then a failure still has a status of its own.
	firstComment = 10 * time.Second
	// nextComment is the time between two comments.
	nextComment = 10 * time.Second
)

// stream answers with the pieces of the answer as they come. What was said already is told at once, in one piece.
func (e *endpoint) stream(w http.ResponseWriter, r *http.Request, a *asked, includeUsage bool) error {
	s := newSpeaker(w, e.Clock, a.scope, includeUsage)
	silence := e.Clock.NewTimer(firstComment)
	defer silence.Stop()
	for n := 0; ; {
		done := isDone(a.call)
		pieces, model, more := a.call.Said(n)
		n += len(pieces)
		if len(pieces) > 0 {
			e.mark(w, r, a, s)
			if err := s.say(model, pieces); err != nil {
				return err
			}
			silence.Reset(nextComment)
		}
		if done {
			return e.endStream(w, r, a, s)
		}
		select {
		case <-more:
		case <-a.call.Done():
		case <-silence.C():
			e.mark(w, r, a, s)
			if err := s.comment(); err != nil {
				return err
			}
			silence.Reset(nextComment)
		case <-a.until.Done():
			return s.fail(r, a.gaveUp())
		}
	}
}

func isDone(c Call) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

// mark sets the headers of a stream that is about to begin.
func (e *endpoint) mark(w http.ResponseWriter, r *http.Request, a *asked, s *speaker) {
	if !s.begun && a.call.Replayed() {
		w.Header().Set(headerReplayed, "true")
		exchangeOf(r.Context()).replayed = true
	}
}

// endStream tells what is left of the answer, how it ended, and what it cost.
func (e *endpoint) endStream(w http.ResponseWriter, r *http.Request, a *asked, s *speaker) error {
	result, err := a.call.Result()
	if err != nil {
		return s.fail(r, err)
	}
	if !s.begun {
		e.describe(w, r, a, result)
	}
	if !isAnswer(result) {
		return s.fail(r, failed(result.Failure))
	}
	if err := s.say(result.Answer.GetModel(), s.rest(result)); err != nil {
		return err
	}
	if err := s.finish(result); err != nil {
		return err
	}
	w.Header().Set(http.TrailerPrefix+headerCost, money.Pico(result.Answer.GetCostPicoUsd()).String())
	return nil
}

// rest is what of an answer was not told yet: all of it, when the provider did not stream, the answer was stored before, or
// another replica has it.
func (s *speaker) rest(result Result) []provider.Delta {
	var rest []provider.Delta
	a := result.Answer
	if isRefusal(result) {
		if s.refusal.Len() == 0 {
			rest = append(rest, provider.Delta{Refusal: refusalOf(a)})
		}
		return rest
	}
	if text, goesOn := strings.CutPrefix(a.GetText(), s.text.String()); goesOn && text != "" {
		rest = append(rest, provider.Delta{Text: text})
	}
	if s.tools > 0 {
		return rest
	}
	for i, t := range a.GetToolCalls() {
		rest = append(rest, provider.Delta{Tool: &provider.ToolDelta{
			Index: i, ID: t.GetId(), Name: t.GetName(), Arguments: t.GetArguments(),
		}})
	}
	return rest
}
