package simulated

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"

	"pawl.internal/services/llmgateway/provider/simulated/extract"
)

// Who says a turn of a dialogue, whatever the format calls it.
const (
	roleSystem    = "system"
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool" // the result of a tool
)

// What a question says about its tools. Any other choice is the name of the tool that must be called.
const (
	choiceAuto = ""
	choiceNone = "\x00none"
	choiceAny  = "\x00any"
)

// question is a request in the terms of no format.
type question struct {
	model    string // as asked for, with the faults in its name
	turns    []turn
	schema   json.RawMessage // of the answer; nil: none
	object   bool            // any JSON object is wanted
	tools    []tool
	choice   string
	limit    int // of the answer, in tokens; 0: none
	thinking int // tokens that it may think before it answers; 0: it does not
	stream   bool
	listed   bool     // the stream is a list of JSON, and not of events
	inputs   []string // to embed; nil: the question is a dialogue
	// dimensions is the length of the vectors to embed them in.
	dimensions int
	writer     writer
}

// writer gives an answer the form in which the question was asked.
type writer interface {
	// whole returns the answer as one document.
	whole(q *question, a *answer) []byte
	// pieces returns the answer as a stream's events.
	pieces(q *question, a *answer) []piece
}

// piece is a part of an answer that is sent at once.
type piece struct {
	data  []byte
	delta bool // it carries a part of the text
}

// turn is one message.
type turn struct {
	role   string
	text   string
	images int
	more   bool      // it goes on with the message of the turn before
	cache  cacheMark // what of the dialogue up to here is to be cached
}

// tool is a function that the caller offers.
type tool struct {
	name, description string
	schema            json.RawMessage // of its arguments; nil: none
}

// imageTokens is what an image counts as, whatever its size.
const imageTokens = 258

// promptTokens returns the size of the question.
func (q *question) promptTokens() int {
	size := tokens(string(q.schema))
	for _, t := range q.turns {
		size += tokens(t.text) + t.images*imageTokens
	}
	for _, t := range q.tools {
		size += tokens(t.name + t.description + string(t.schema))
	}
	for _, text := range q.inputs {
		size += tokens(text)
	}
	return size
}

// prompt returns what the turns say, by who says it. Answers that came before are not facts; what tools found is.
func (q *question) prompt() extract.Prompt {
	var instructions, text []string
	for _, t := range q.turns {
		switch t.role {
		case roleSystem:
			instructions = append(instructions, t.text)
		case roleUser, roleTool:
			text = append(text, t.text)
		}
	}
	return extract.Prompt{Instructions: strings.Join(instructions, "\n\n"), Text: strings.Join(text, "\n\n")}
}

// called returns the tool that the answer calls, nil if it calls none. Left to itself it calls one whenever the user spoke last:
// the first that is named in what was said, or else the first.
func (q *question) called() *tool {
	if len(q.tools) == 0 || q.choice == choiceNone {
		return nil
	}
	if q.choice == choiceAuto && !q.userSpokeLast() {
		return nil
	}
	said := q.prompt().Text
	for i, t := range q.tools {
		if t.name == q.choice || (q.choice == choiceAuto || q.choice == choiceAny) && strings.Contains(said, t.name) {
			return &q.tools[i]
		}
	}
	return &q.tools[0]
}

// userSpokeLast reports whether the last message is the user's, and brings no result of a tool.
func (q *question) userSpokeLast() bool {
	for _, t := range slices.Backward(q.turns) {
		if t.role != roleUser || !t.more {
			return t.role == roleUser
		}
	}
	return false
}

// says reports whether a text stands in the question.
func (q *question) says(text string) bool {
	return slices.ContainsFunc(q.turns, func(t turn) bool { return strings.Contains(t.text, text) }) ||
		slices.ContainsFunc(q.inputs, func(input string) bool { return strings.Contains(input, text) })
}

// conversation identifies a dialogue: its model and its turns up to the end of the first message of the user's.
func (q *question) conversation() [sha256.Size]byte {
	h := sha256.New()
	h.Write([]byte(q.model)) // never fails
	for i, t := range q.turns {
		h.Write([]byte("\x00" + t.role + "\x00" + t.text))
		if t.role == roleUser && (i+1 == len(q.turns) || !q.turns[i+1].more) {
			break
		}
	}
	for _, input := range q.inputs {
		h.Write([]byte("\x00" + input))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// check refuses what no format can ask for.
func (q *question) check(models []string, model string) *failure {
	if !slices.Contains(models, model) {
		return noModel(model, models)
	}
	if q.limit < 0 {
		return invalid("max_tokens", "max_tokens must not be negative")
	}
	for _, t := range q.tools {
		if t.name == "" {
			return invalid("tools", "every tool must have a name")
		}
	}
	named := func(t tool) bool { return t.name == q.choice }
	if q.choice == choiceAuto || q.choice == choiceNone || slices.ContainsFunc(q.tools, named) {
		return nil
	}
	if q.choice == choiceAny && len(q.tools) > 0 {
		return nil
	}
	return invalid("tool_choice", "tool_choice asks for a tool that is not among tools")
}
