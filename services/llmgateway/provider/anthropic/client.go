// Package anthropic speaks the Messages format of Anthropic.
//
// A question goes into it as follows. What the system says is taken out of the conversation; what one side says in several
// messages becomes one turn; the results of tools are the user's. A structured answer is asked for by output_config where its
// schema is of the kind that this takes, and otherwise as the arguments of a tool that must be called. Seeds, and how closely
// an image is looked at, cannot be said and are left out, since they are wishes anywhere; embeddings, images that the system
// shows, temperatures above 1 and arguments of tools that are no JSON objects are refused before anything is sent. Thoughts
// are not kept, so a conversation that goes on after a tool's call goes on without them.
package anthropic

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/llmgateway/provider"
)

// DefaultBase is the address of Anthropic's own API.
const DefaultBase = "https://api.anthropic.com/v1"

// version is that of the format; it is the only one there is.
const version = "2023-06-01"

// The time that an answer may take: Anthropic reckons an hour for 128 000 tokens, and wants answers streamed that may take
// longer than ten minutes, since connections without a byte do not live so long.
const (
	timePerToken = time.Hour / 128_000
	longestWhole = 10 * time.Minute
)

// Client asks one server with one key. It is safe for concurrent use.
type Client struct {
	http     *provider.Client
	endpoint string
	key      config.Secret
}

// New returns a Client of the API at base, such as DefaultBase.
func New(client *provider.Client, base string, key config.Secret) (*Client, error) {
	address, err := provider.ParseBase(base)
	if err != nil {
		return nil, err
	}
	return &Client{http: client, endpoint: address.JoinPath("messages").String(), key: key}, nil
}

// Check returns a provider.RequestError if the question cannot be asked in this format.
func (c *Client) Check(r provider.Request) error {
	_, err := newBody(r)
	return err
}

// streams reports whether the answer is to come in events: because the asker listens, or because it may take longer to
// write than anybody waits for the first byte of a whole answer. What it reads as is the same.
func (c *Client) streams(r provider.Request) bool {
	patience := longestWhole
	if limit := c.http.Timeouts().FirstByte; limit > 0 {
		patience = min(patience, limit)
	}
	return r.Stream || time.Duration(r.MaxOutputTokens)*timePerToken > patience
}

// Send asks once. Nothing of the key is left in what it returns.
func (c *Client) Send(ctx context.Context, r provider.Request) provider.Exchange {
	b, err := newBody(r)
	if err != nil {
		return provider.Exchange{Err: err}
	}
	b.Stream = c.streams(r)
	body, err := provider.Marshal(b)
	if err != nil {
		return provider.Exchange{Err: err}
	}
	header := http.Header{
		"Content-Type":      {"application/json"},
		"Accept":            {"application/json"},
		"User-Agent":        {"pawl"},
		"Anthropic-Version": {version},
	}
	if !c.key.IsZero() {
		header.Set("X-Api-Key", strings.TrimSpace(c.key.Reveal()))
	}
	var x provider.Exchange
	if b.Stream {
		header.Set("Accept", "text/event-stream")
		l := listener{heard: r.Heard, byTool: b.hasAnswerTool()}
		x = c.http.Stream(ctx, c.endpoint, header, body, l.hear)
		if !x.Stream && x.Err == nil {
			provider.TellWhole(r.Heard, Read(x, time.Time{}))
		}
	} else {
		x = c.http.Post(ctx, c.endpoint, header, body)
	}
	if x.Err != nil {
		x.Err = fmt.Errorf("post to %s: %w", c.endpoint, x.Err)
	}
	return x.Without(c.key)
}
