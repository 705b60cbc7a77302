package provider

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
)

// Sign is what an event of a stream means for the exchange. Only the format's own package can tell.
type Sign uint8

// The signs.
const (
	// Alive: the event keeps the connection open and is no progress, such as Anthropic's ping.
	Alive Sign = iota
	// Progress: a part of the answer.
	Progress
	// Complete: the answer is whole; what may still follow, such as its usage, is welcome. If the connection breaks from here
	// on, that is no failure.
	Complete
	// Last: nothing that matters follows.
	Last
)

// Stream sends the body once and reads an answer that comes in events, each of which is told to heard as soon as it is
// whole, in the goroutine of the caller. Only events that are Progress or better count for the time limits: comments, blank
// lines, and halves of an event do not. The raw answer is kept as Post keeps it.
//
// An answer that is no success, or that the server sends as one JSON document because it does not stream, is read as Post
// does, and Exchange.Stream is false.
//
// Where the connection ends before the answer is Complete, Err says so. A server that ends a stream early in due form leaves
// no trace but the missing end: the format's Read finds that.
func (c *Client) Stream(ctx context.Context, url string, header http.Header, body []byte, heard func(Event) Sign) Exchange {
	timeouts := c.timeouts
	if timeouts.FirstEvent > 0 {
		timeouts.FirstByte = timeouts.FirstEvent
	}
	return c.send(ctx, url, header, body, timeouts, func(resp *http.Response, dog *watchdog, x *Exchange) {
		if x.Stream = streams(resp); !x.Stream {
			readWhole(resp, dog, x)
			return
		}
		l := listener{dog: dog, heard: heard}
		x.Body, x.TooLong, x.Err = readBody(resp.Body, &l)
		l.parser.end(l.tell)
		if l.whole {
			x.Err = nil
		}
	})
}

// streams reports whether the answer comes in events.
func streams(resp *http.Response) bool {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return resp.StatusCode < http.StatusMultipleChoices && (err != nil || kind != "application/json")
}

// listener hears the events of an answer as they come. As a writer it sees the bytes.
type listener struct {
	dog    *watchdog
	heard  func(Event) Sign
	parser eventParser
	// whole: the answer is complete; over: nothing that matters follows.
	whole, over bool
}

// Write takes the next piece of the answer.
func (l *listener) Write(p []byte) (int, error) {
	l.parser.feed(p, l.tell)
	return len(p), nil
}

func (l *listener) tell(e Event) {
	if l.over {
		return
	}
	switch sign := l.heard(e); sign {
	case Alive:
	case Progress, Complete:
		l.whole = l.whole || sign == Complete
		l.dog.enter(phaseIdle)
	case Last:
		l.whole, l.over = true, true
		l.dog.enter(phaseEnd)
	}
}

// readWhole reads an answer that is one document.
func readWhole(resp *http.Response, dog *watchdog, x *Exchange) {
	x.Body, x.TooLong, x.Err = readBody(resp.Body, dog)
}

// readBody reads at most MaxBody, and tells the listener of every piece.
func readBody(r io.Reader, listener io.Writer) (body []byte, tooLong bool, err error) {
	var all bytes.Buffer
	_, err = all.ReadFrom(io.LimitReader(io.TeeReader(r, listener), MaxBody+1))
	if all.Len() > MaxBody {
		return all.Bytes()[:MaxBody], true, nil
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", errCut, err)
	}
	return all.Bytes(), false, err
}
