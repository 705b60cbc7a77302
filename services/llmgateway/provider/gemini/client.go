// Package gemini speaks the generateContent format of Google's Gemini API.
//
// A question goes into it as follows. What the system says is taken out of the conversation; what one side says in several
// messages becomes one content; the results of tools are the user's, under the names of the calls that they belong to. How
// closely an image is looked at, and whether arguments must fit their schema exactly, cannot be said and are left out.
// Images elsewhere than in the question or in Google's own file store, results of tools with images, results without a call,
// seeds of more than 32 bits, more than five stops and arguments of tools that are no JSON objects are refused before
// anything is sent.
//
// Gemini may sign a call of a tool, and wants the signature back with it when the conversation goes on. It travels in the
// call's id, which nobody else reads.
package gemini

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/llmgateway/provider"
)

// DefaultBase is the address of Google's own API.
const DefaultBase = "https://generativelanguage.googleapis.com/v1beta"

// Client asks one server with one key. It is safe for concurrent use.
type Client struct {
	http *provider.Client
	base *url.URL
	key  config.Secret
}

// New returns a Client of the API at base, such as DefaultBase.
func New(client *provider.Client, base string, key config.Secret) (*Client, error) {
	address, err := provider.ParseBase(base)
	if err != nil {
		return nil, err
	}
	return &Client{http: client, base: address, key: key}, nil
}

// Check returns a provider.RequestError if the question cannot be asked in this format.
func (c *Client) Check(r provider.Request) error {
	_, err := newBody(r)
	return err
}

// Send asks once. Nothing of the key is left in what it returns.
func (c *Client) Send(ctx context.Context, r provider.Request) provider.Exchange {
	b, err := newBody(r)
	if err != nil {
		return provider.Exchange{Err: err}
	}
	body, err := provider.Marshal(b)
	if err != nil {
		return provider.Exchange{Err: err}
	}
	header := http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json"},
		"User-Agent":   {"pawl"},
	}
	if !c.key.IsZero() {
		header.Set("X-Goog-Api-Key", strings.TrimSpace(c.key.Reveal())) // never in the address, which stands in logs
	}
	endpoint := c.endpoint(r)
	var x provider.Exchange
	if streams(r) {
		header.Set("Accept", "text/event-stream")
		l := listener{heard: r.Heard}
		x = c.http.Stream(ctx, endpoint, header, body, l.hear)
		if !x.Stream && x.Err == nil {
			provider.TellWhole(r.Heard, Read(x, time.Time{}))
		}
	} else {
		x = c.http.Post(ctx, endpoint, header, body)
	}
	if x.Err != nil {
		x.Err = fmt.Errorf("post to %s: %w", endpoint, x.Err)
	}
	return x.Without(c.key)
}

// streams reports whether the answer is to come in events.
func streams(r provider.Request) bool { return r.Stream && len(r.Embed) == 0 }

// endpoint is the address of the method that answers the question.
func (c *Client) endpoint(r provider.Request) string {
	path := c.base.JoinPath(modelPath(r.Model)).String()
	switch {
	case len(r.Embed) > 0:
		return path + ":batchEmbedContents"
	case streams(r):
		return path + ":streamGenerateContent?alt=sse"
	default:
		return path + ":generateContent"
	}
}

// modelPath is the name of a model as the API has it: tuned models bring their own collection.
func modelPath(model string) string {
	if strings.Contains(model, "/") {
		return model
	}
	return "models/" + model
}
