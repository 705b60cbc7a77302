// Package provider carries requests to model providers and brings back what came of them, byte for byte.
//
// It knows HTTP and nothing of any provider's format; the packages below it know one format each. A request is sent once:
// nothing here retries, follows redirects, or decides what a failure means for the call. What it does settle is the one
// fact that only the transport can tell: whether the whole request had been written when something went wrong, so that
// nobody can say whether it was charged.
package provider

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/price"
)

// Request is a question to one model.
type Request struct {
	// ID names the request for the provider's and our logs.
	ID       string
	Model    string
	Messages []*systemv1.Message
	// Schema is the JSON Schema that the answer must fit; empty for text.
	Schema []byte
	// Tools are the functions that the model may ask to be called, and ToolChoice how freely; see GenerateRequest.
	Tools      []*systemv1.Tool
	ToolChoice string
	// Embed are texts to embed, as vectors of Dimensions components (0: as long as the model makes them). Then there are no
	// Messages.
	Embed      []string
	Dimensions int
	// Params shape the answer; may be nil.
	Params *systemv1.SamplingParams
	// MaxOutputTokens bounds the answer. It is always sent, so that a request's worst case is known before it begins.
	MaxOutputTokens int64
	// Stream asks for the answer in pieces. What comes of it is the same: Read makes one Reading of them.
	Stream bool
	// Heard is told of every piece of a streamed answer as it comes, in the goroutine of the sender, which it must not hold up;
	// may be nil. What it is told is not yet known to be a good answer.
	Heard func(Delta)
}

// Delta is a piece of an answer. Of its parts at least one is set.
type Delta struct {
	// Text goes on with the answer's text.
	Text string
	// Refusal goes on with the model's words of refusal.
	Refusal string
	// Tool goes on with a call of a tool; nil for none.
	Tool *ToolDelta
}

// ToolDelta is a piece of a tool call.
type ToolDelta struct {
	// Index says which of the answer's calls it belongs to, from 0.
	Index int
	// ID and Name come with the call's first piece.
	ID, Name string
	// Arguments goes on with the arguments, which are JSON when they are whole.
	Arguments string
}

// TellWhole tells somebody who listens of an answer that came in one piece, since the server does not stream.
func TellWhole(heard func(Delta), r Reading) {
	if heard == nil || r.Failure.Class != failure.None {
		return
	}
	if r.Text != "" {
		heard(Delta{Text: r.Text})
	}
	for i, c := range r.ToolCalls {
		heard(Delta{Tool: &ToolDelta{Index: i, ID: c.GetId(), Name: c.GetName(), Arguments: c.GetArguments()}})
	}
}

// Exchange is what came of one HTTP request.
type Exchange struct {
	// Status is the HTTP status; 0 when no answer began.
	Status int
	Header http.Header
	// Body is what was read of the answer, also when it broke off.
	Body []byte
	// Sent is true once the whole request was written.
	Sent bool
	// Stream is true when the answer came in events, so that Body is the text of a stream.
	Stream bool
	// TooLong is true when the answer was longer than we read.
	TooLong bool
	// FirstByte is the time from sending to the first byte, or event, of the answer that says something; 0 when none came.
	FirstByte time.Duration
	// TimedOut is true when the exchange was given up because a time limit passed.
	TimedOut bool
	// Err is why the answer is missing or broke off; nil when it was read to its end. A cause that the caller gave its
	// context is returned as it is.
	Err error
}

// Reading is what an exchange means.
type Reading struct {
	Text         string
	FinishReason string
	// ToolCalls are the calls that the model asks for.
	ToolCalls []*systemv1.ToolCall
	// Embeddings are the vectors, in the order of the texts.
	Embeddings []*systemv1.Embedding
	// Usage is what the provider counted; only if UsageKnown.
	Usage      price.Usage
	UsageKnown bool
	// RequestID is the provider's id of the request, if it gave one.
	RequestID string
	// Failure is none when Text is the answer that was asked for.
	Failure failure.Failure
}

// telling is the length from which on a key does not stand in an answer by chance. Servers without keys are given words
// such as EMPTY, which answers may well contain.
const telling = 16

// Without returns the exchange with every occurrence of the secret blotted out: providers echo keys in their errors. The
// body of a success is left alone where a short key might be a word of the answer.
func (x Exchange) Without(secret config.Secret) Exchange {
	const blot = "[key]"
	key := secret.Reveal()
	if key == "" {
		return x
	}
	if len(key) >= telling || x.Status >= http.StatusBadRequest {
		x.Body = bytes.ReplaceAll(x.Body, []byte(key), []byte(blot))
	}
	for name, values := range x.Header {
		for i, value := range values {
			x.Header[name][i] = strings.ReplaceAll(value, key, blot)
		}
	}
	if x.Err != nil && strings.Contains(x.Err.Error(), key) {
		x.Err = errEchoedKey
	}
	return x
}
