package openai

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/llmgateway/provider"
)

// DefaultBase is the address of OpenAI's own API.
const DefaultBase = "https://api.openai.com/v1"

// Client asks one server with one key. It is safe for concurrent use.
type Client struct {
	http       *provider.Client
	base       *url.URL
	key        config.Secret
	tokenLimit string
}

// New returns a Client of the API at base, such as https://api.openai.com/v1. The key may be empty: local servers need none.
func New(client *provider.Client, base string, key config.Secret) (*Client, error) {
	address, err := provider.ParseBase(base)
	if err != nil {
		return nil, err
	}
	return &Client{http: client, base: address, key: key, tokenLimit: tokenLimitFor(address)}, nil
}

// Check returns a provider.RequestError if the question cannot be asked in this format.
func (c *Client) Check(r provider.Request) error {
	if _, err := messages(r.Messages); err != nil {
		return err
	}
	_, _, err := r.Choice()
	return err
}

// Send asks once. Nothing of the key is left in what it returns.
func (c *Client) Send(ctx context.Context, r provider.Request) provider.Exchange {
	body, err := encode(r, c.tokenLimit)
	if err != nil {
		return provider.Exchange{Err: err}
	}
	header := http.Header{
		"Content-Type":        {"application/json"},
		"Accept":              {"application/json"},
		"User-Agent":          {"pawl"},
		"X-Client-Request-Id": {r.ID}, // not Idempotency-Key: net/http repeats requests that have one
	}
	if !c.key.IsZero() {
		header.Set("Authorization", "Bearer "+strings.TrimSpace(c.key.Reveal()))
	}
	endpoint := c.endpoint(r)
	x := c.send(ctx, r, endpoint, header, body)
	if x.Err != nil {
		x.Err = fmt.Errorf("post to %s: %w", endpoint, x.Err)
	}
	return x.Without(c.key)
}

// endpoint is the address that answers the question.
func (c *Client) endpoint(r provider.Request) string {
	if len(r.Embed) > 0 {
		return c.base.JoinPath("embeddings").String()
	}
	return c.base.JoinPath("chat", "completions").String()
}

func (c *Client) send(ctx context.Context, r provider.Request, endpoint string, header http.Header, body []byte) provider.Exchange {
	if !r.Stream || len(r.Embed) > 0 {
		return c.http.Post(ctx, endpoint, header, body)
	}
	header.Set("Accept", "text/event-stream")
	x := c.http.Stream(ctx, endpoint, header, body, listen(r.Heard))
	if !x.Stream && x.Err == nil {
		tellWhole(r.Heard, x)
	}
	return x
}
