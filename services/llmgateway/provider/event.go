package provider

import (
	"bytes"
	"encoding/json"
	"iter"
	"net/http"
)

// Event is one event of a streamed answer: a server-sent event, or a line that is a JSON document by itself, which is how
// some servers write an error into a stream that has begun.
type Event struct {
	// Name is the event's type; empty where the stream names none.
	Name string
	// Data is what the event carries, its lines joined by newlines; never empty. It is the listener's own.
	Data []byte
}

// streamEnd is the data by which OpenAI and those who are like it say that a stream is whole.
const streamEnd = "[DONE]"

// Ends reports whether the event is the mark at the end of a stream.
func (e Event) Ends() bool { return string(e.Data) == streamEnd }

// Events returns the events of a body that was read to its end. They are those that Stream has told, however the network
// had cut the body into pieces.
func Events(body []byte) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		p, more := eventParser{}, true
		tell := func(e Event) {
			more = more && yield(e)
		}
		for rest := body; more && len(rest) > 0; {
			end := bytes.IndexAny(rest, "\r\n") + 1
			if end == 0 {
				end = len(rest)
			}
			p.feed(rest[:end], tell)
			rest = rest[end:]
		}
		if more {
			p.end(tell)
		}
	}
}

// IsStream reports whether a body is the text of a stream, and not one document: its first line is a field or a comment of a
// server-sent event, or it begins with a JSON document and goes on after it. Stored bodies are read by it, so it depends on
// nothing else.
func IsStream(body []byte) bool {
	text := bytes.TrimLeft(bytes.TrimPrefix(body, byteOrderMark()), "\r\n\t ")
	for _, field := range []string{":", "data:", "event:", "id:", "retry:"} {
		if bytes.HasPrefix(text, []byte(field)) {
			return true
		}
	}
	first, rest, more := bytes.Cut(text, []byte("\n"))
	return more && len(bytes.TrimSpace(rest)) > 0 && isDocument(bytes.TrimSpace(first)) && !json.Valid(text)
}

// Streamed reports whether an answer is to be read as a stream: it is the text of one, or came as one and broke off so early
// that it could be anything but a document, or a page of some server in between.
func (x Exchange) Streamed() bool {
	if x.Status >= http.StatusMultipleChoices {
		return false
	}
	text := bytes.TrimSpace(x.Body)
	return IsStream(x.Body) || x.Stream && (len(text) == 0 || !bytes.ContainsRune([]byte("<{["), rune(text[0])))
}

func byteOrderMark() []byte { return []byte("\ufeff") }

// isDocument reports whether the text is a JSON object.
func isDocument(text []byte) bool { return len(text) > 0 && text[0] == '{' && json.Valid(text) }

// eventParser finds the events in a body that comes in pieces. The zero value is at the beginning of a body.
type eventParser struct {
	line    []byte // of the body, as far as it has come
	begun   bool   // the first line is over
	afterCR bool   // a newline that comes next belongs to the line before

	name string
	data []byte
}

// feed takes the next piece of the body.
func (p *eventParser) feed(piece []byte, tell func(Event)) {
	for len(piece) > 0 {
		if p.afterCR && piece[0] == '\n' {
			piece = piece[1:]
		}
		p.afterCR = false
		end := bytes.IndexAny(piece, "\r\n")
		if end < 0 {
			p.line = append(p.line, piece...)
			return
		}
		p.line = append(p.line, piece[:end]...)
		p.afterCR = piece[end] == '\r'
		piece = piece[end+1:]
		p.endLine(tell)
	}
}

// end takes note that the body is over. An event that lacks only its blank line counts if its data are whole; where the
// stream was cut in the middle of them, they are not.
func (p *eventParser) end(tell func(Event)) {
	if len(p.line) > 0 {
		p.endLine(tell)
	}
	if string(p.data) == streamEnd || json.Valid(p.data) {
		p.endEvent(tell)
	}
}

func (p *eventParser) endLine(tell func(Event)) {
	line := p.line
	p.line = p.line[:0]
	if !p.begun {
		p.begun = true
		line = bytes.TrimPrefix(line, byteOrderMark())
	}
	switch {
	case len(line) == 0:
		p.endEvent(tell)
	case line[0] == ':': // a comment keeps the connection open, and says nothing
	case isDocument(line):
		p.endEvent(tell)
		tell(Event{Data: bytes.Clone(line)})
	default:
		p.field(line)
	}
}

func (p *eventParser) field(line []byte) {
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "event":
		p.name = string(value)
	case "data":
		if len(p.data) > 0 {
			p.data = append(p.data, '\n')
		}
		p.data = append(p.data, value...)
	}
}

func (p *eventParser) endEvent(tell func(Event)) {
	e := Event{Name: p.name, Data: p.data}
	p.name, p.data = "", nil
	if len(e.Data) > 0 {
		tell(e)
	}
}
