package compat

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/llmgateway/provider"
)

// writeTime is how long one piece may take to be sent. A client that reads more slowly loses its stream; the answer goes on.
const writeTime = 30 * time.Second

// speaker writes server-sent events in OpenAI's form.
type speaker struct {
	w     http.ResponseWriter
	conn  *http.ResponseController
	clock clock.Clock
	scope uuid.UUID
	// usage: the counts are asked for.
	usage bool

	begun bool
	model string
	// text and refusal are what was said, tools how many pieces of tool calls.
	text, refusal strings.Builder
	spoke         bool
	tools         int
}

func newSpeaker(w http.ResponseWriter, c clock.Clock, scope uuid.UUID, includeUsage bool) *speaker {
	return &speaker{w: w, conn: http.NewResponseController(w), clock: c, scope: scope, usage: includeUsage}
}

// chunk is an event of the stream.
type chunk struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"`
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Choices []chunkChoice `json:"choices"`
	// Usage is null but for the last chunk, and absent where it was not asked for.
	Usage json.RawMessage `json:"usage,omitempty"`
}

type chunkChoice struct {
	Index        int     `json:"index"`
	Delta        delta   `json:"delta"`
	Logprobs     *string `json:"logprobs"`
	FinishReason *string `json:"finish_reason"`
}

type delta struct {
	Role      string      `json:"role,omitempty"`
	Content   *string     `json:"content,omitempty"`
	Refusal   *string     `json:"refusal,omitempty"`
	ToolCalls []toolDelta `json:"tool_calls,omitempty"`
}

type toolDelta struct {
	Index    int           `json:"index"`
	ID       string        `json:"id,omitempty"`
	Type     string        `json:"type,omitempty"`
	Function functionDelta `json:"function"`
}

type functionDelta struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// say tells pieces. Those of one kind that follow each other are told as one, so that a slow client catches up.
func (s *speaker) say(model string, pieces []provider.Delta) error {
	if s.model == "" {
		s.model = model
	}
	for len(pieces) > 0 {
		var d delta
		d, pieces = s.next(pieces)
		if err := s.tell(d, nil); err != nil {
			return err
		}
	}
	return nil
}

// next turns the first pieces into one, and returns the others.
func (s *speaker) next(pieces []provider.Delta) (delta, []provider.Delta) {
	first := pieces[0]
	switch {
	case first.Tool != nil:
		s.tools++
		d := toolDelta{Index: first.Tool.Index, ID: first.Tool.ID, Function: functionDelta{first.Tool.Name, first.Tool.Arguments}}
		if d.ID != "" || d.Function.Name != "" {
			d.Type = "function"
		}
		return delta{ToolCalls: []toolDelta{d}}, pieces[1:]
	case first.Refusal != "":
		var said string
		said, pieces = join(pieces, func(d provider.Delta) string { return d.Refusal })
		s.refusal.WriteString(said)
		return delta{Refusal: &said}, pieces
	default:
		var said string
		said, pieces = join(pieces, func(d provider.Delta) string { return d.Text })
		s.text.WriteString(said)
		return delta{Content: &said}, pieces
	}
}

// join joins the first pieces that have a part, and returns the others. The first piece is taken in any case.
func join(pieces []provider.Delta, part func(provider.Delta) string) (string, []provider.Delta) {
	var all strings.Builder
	all.WriteString(part(pieces[0]))
	pieces = pieces[1:]
	for len(pieces) > 0 && pieces[0].Tool == nil && part(pieces[0]) != "" {
		all.WriteString(part(pieces[0]))
		pieces = pieces[1:]
	}
	return all.String(), pieces
}

// tell writes a chunk; before the first one goes one that says who speaks.
func (s *speaker) tell(d delta, finish *string) error {
	if !s.spoke {
		s.spoke = true
		empty := ""
		if err := s.write(s.chunk(delta{Role: roleOfTheAnswer, Content: &empty}, nil)); err != nil {
			return err
		}
	}
	return s.write(s.chunk(d, finish))
}

func (s *speaker) chunk(d delta, finish *string) chunk {
	c := s.emptyChunk()
	c.Choices = []chunkChoice{{Delta: d, FinishReason: finish}}
	return c
}

func (s *speaker) emptyChunk() chunk {
	c := chunk{ID: completionID(s.scope), Object: objectChunk, Created: created(s.scope), Model: s.model, Choices: []chunkChoice{}}
	if s.usage {
		c.Usage = json.RawMessage("null")
	}
	return c
}

// finish tells how the answer ended, the counts if they were asked for, and that nothing follows.
func (s *speaker) finish(result Result) error {
	if s.model == "" {
		s.model = result.Answer.GetModel()
	}
	finish := finishOf(result)
	if err := s.tell(delta{}, &finish); err != nil {
		return err
	}
	if s.usage {
		c := s.emptyChunk()
		counts, err := json.Marshal(usageOf(result.Answer))
		if err != nil { // numbers always encode
			return err
		}
		c.Usage = counts
		if err := s.write(c); err != nil {
			return err
		}
	}
	return s.event([]byte("[DONE]"))
}

// fail tells a failure: as an answer of its own while nothing was said, or else as the last event.
func (s *speaker) fail(r *http.Request, err error) error {
	if !s.begun || isGone(err) {
		return err
	}
	exchangeOf(r.Context()).err = err
	return s.event(problemOf(err).body())
}

func (s *speaker) write(c chunk) error {
	text, err := json.Marshal(c)
	if err != nil { // texts and numbers always encode
		return err
	}
	return s.event(text)
}

func (s *speaker) event(data []byte) error {
	return s.send(append(append([]byte("data: "), data...), "\n\n"...))
}

// comment keeps the connection open while there is nothing to say.
func (s *speaker) comment() error { return s.send([]byte(": waiting\n\n")) }

// send writes and flushes. A client that cannot be reached any more counts as gone.
func (s *speaker) send(text []byte) error {
	if !s.begun {
		s.begun = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // proxies must not hold pieces back
	}
	_ = s.conn.SetWriteDeadline(s.clock.Now().Add(writeTime)) // a recorder of a test has none
	if _, err := s.w.Write(text); err != nil {
		return gone(err)
	}
	if err := s.conn.Flush(); err != nil {
		return gone(err)
	}
	return nil
}
