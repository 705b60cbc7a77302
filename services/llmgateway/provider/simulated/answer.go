package simulated

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
)

// ending is why an answer ends.
type ending int

const (
	endStop ending = iota
	endLength
	endFilter
	endTool
	endRefusal
)

// answer is what a question gets, in no format's terms.
type answer struct {
	id      string // hexadecimal; the same question has the same
	at      time.Time
	model   string // as asked for
	text    string
	thought string
	call    *toolCall
	refusal string
	vectors [][]float32
	end     ending
	empty   bool // there is no answer inside
	usage   usage
}

// toolCall is a call of one of the caller's functions.
type toolCall struct {
	name      string
	arguments string // JSON, unless it was cut
}

// object returns the arguments for formats that carry them as JSON and not as a string.
func (t *toolCall) object() json.RawMessage {
	if json.Valid([]byte(t.arguments)) {
		return json.RawMessage(t.arguments)
	}
	return json.RawMessage("{}")
}

// thought is what it thinks, to whom thinking is allowed.
const (
	thought       = "Simulated thought: the answer is drawn from the text itself."
	thoughtTokens = 32
)

// answer makes the answer to a call. The failure is about the schema.
func (p *Provider) answer(c *call) (*answer, *failure) {
	a := &answer{id: hex.EncodeToString(c.fingerprint[:8]), at: p.clock.Now(), model: c.model}
	if c.inputs != nil {
		p.embed(c, a)
	} else if bad := p.speak(c, a); bad != nil {
		return nil, bad
	}
	if f := c.plan.outcome; f != nil {
		f.alter(a)
	}
	a.bound(c.limit)
	c.cached = p.cache.use(c.question, c.form.cachesOnDemand(), a.at)
	a.usage = c.used(a)
	c.plan.alterUsage(&a.usage)
	return a, nil
}

// speak makes the answer of a dialogue.
func (p *Provider) speak(c *call, a *answer) *failure {
	if c.thinking > 0 {
		a.thought = thought
	}
	if t := c.called(); t != nil {
		return p.callTool(c, t, a)
	}
	switch {
	case c.schema != nil:
		found, err := p.engine.Answer(c.prompt(), c.schema)
		if err != nil {
			return invalid("response_format", err.Error())
		}
		a.text = string(found)
	case c.object:
		a.text = string(trimmed(map[string]string{"answer": p.engine.Say(c.prompt())}))
	default:
		a.text = p.engine.Say(c.prompt())
	}
	return nil
}

// callTool makes an answer that calls a tool, with arguments of its schema drawn from the text.
func (p *Provider) callTool(c *call, t *tool, a *answer) *failure {
	a.call, a.end = &toolCall{name: t.name, arguments: "{}"}, endTool
	if t.schema == nil {
		return nil
	}
	found, err := p.engine.Answer(c.prompt(), t.schema)
	if err != nil {
		return invalid("tools", "tool "+t.name+": "+err.Error())
	}
	if found[0] == '{' { // a schema that says nothing may be answered with anything, but arguments have names
		a.call.arguments = string(found)
	}
	return nil
}

// said returns the part of the answer that faults and limits cut.
func (a *answer) said() *string {
	if a.call != nil {
		return &a.call.arguments
	}
	return &a.text
}

// cut leaves the first n tokens.
func (a *answer) cut(n int, end ending) {
	said := a.said()
	*said, a.end = firstTokens(*said, n), end
}

// bound cuts an answer that is longer than asked for.
func (a *answer) bound(limit int) {
	if limit > 0 && tokens(*a.said()) > limit {
		a.cut(limit, endLength)
	}
}

// alter makes the answer a bad one, if that is the fault's kind.
func (f *Fault) alter(a *answer) {
	half := tokens(*a.said()) / 2
	switch f.Kind {
	case kindEmpty:
		a.empty = true
	case kindTruncated:
		a.cut(half, endLength)
	case kindContentFilter:
		a.cut(half, endFilter)
	case kindRefusal:
		a.text, a.call, a.end, a.refusal = "", nil, endRefusal, "I'm sorry, I can't help with that. (simulated)"
	case kindBadSchema:
		if a.call != nil {
			a.call.arguments = `{"simulated":"this breaks the schema"}`
			return
		}
		a.text = `["simulated: this breaks the schema"]`
	}
}

// used counts what the answer costs.
func (c *call) used(a *answer) usage {
	u := usage{prompt: c.promptTokens(), cached: c.cached.read, write5m: c.cached.write5m, write1h: c.cached.write1h}
	u.output = tokens(a.text + a.refusal)
	if a.call != nil {
		u.output = tokens(a.call.name) + tokens(a.call.arguments)
	}
	if a.thought != "" {
		u.reasoning = min(c.thinking, thoughtTokens)
		u.output += u.reasoning
	}
	return u
}

// trimmed encodes v without the newline at the end.
func trimmed(v any) []byte { return []byte(strings.TrimSuffix(string(marshal(v)), "\n")) }
