package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/llmgateway/provider"
)

const (
	// batchWindow is how long the provider may take; it offers no other.
	batchWindow = "24h"
	// ourName is the member of a batch's metadata that has our name for it.
	ourName = "pawl_job"
	// pageSize is how many batches are listed at a time, and mostPages how many pages are looked through.
	pageSize  = 100
	mostPages = 10
)

// Batches asks one server's batch API with one key. It is safe for concurrent use.
type Batches struct {
	http       *provider.Client
	base       *url.URL
	key        config.Secret
	tokenLimit string
}

// NewBatches returns the batch API at base; see New.
func NewBatches(client *provider.Client, base string, key config.Secret) (*Batches, error) {
	address, err := provider.ParseBase(base)
	if err != nil {
		return nil, err
	}
	return &Batches{http: client, base: address, key: key, tokenLimit: tokenLimitFor(address)}, nil
}

// EncodeItem makes the body of a request that goes with a batch.
func (c *Batches) EncodeItem(r provider.Request) ([]byte, error) {
	r.Stream = false
	return encode(r, c.tokenLimit)
}

// Size is the most requests and bytes that a batch may have.
func (c *Batches) Size() (items int, size int64) { return 50_000, 150 << 20 }

// batchState is what the provider says of a batch.
type batchState struct {
	ID         string            `json:"id"`
	Status     string            `json:"status"`
	OutputFile string            `json:"output_file_id"`
	ErrorFile  string            `json:"error_file_id"`
	Metadata   map[string]string `json:"metadata"`
}

// Submit uploads the requests and makes a batch of them. It returns the provider's name for it.
func (c *Batches) Submit(ctx context.Context, b provider.Batch) (string, error) {
	file, err := c.upload(ctx, b)
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(map[string]any{
		"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": batchWindow,
		"metadata": map[string]string{ourName: b.ID.String()},
	})
	if err != nil {
		return "", err
	}
	var made batchState
	if err := c.manage(ctx, http.MethodPost, "batches", "application/json", body).Decode("make a batch", &made); err != nil {
		return "", err
	}
	return made.ID, nil
}

// upload sends the requests as a file of lines.
func (c *Batches) upload(ctx context.Context, b provider.Batch) (string, error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	if err := form.WriteField("purpose", "batch"); err != nil {
		return "", err
	}
	part, err := form.CreateFormFile("file", b.ID.String()+".jsonl")
	if err != nil {
		return "", err
	}
	lines := json.NewEncoder(part)
	lines.SetEscapeHTML(false)
	for _, item := range b.Items {
		if err := lines.Encode(map[string]any{
			"custom_id": item.CustomID, "method": http.MethodPost, "url": "/v1/chat/completions", "body": json.RawMessage(item.Body),
		}); err != nil {
			return "", fmt.Errorf("encode a batch: %w", err)
		}
	}
	if err := form.Close(); err != nil {
		return "", err
	}
	var file struct {
		ID string `json:"id"`
	}
	return file.ID, c.manage(ctx, http.MethodPost, "files", form.FormDataContentType(), body.Bytes()).Decode("upload a batch", &file)
}

// FindBatch looks for a batch whose making nobody has noted. It returns provider.ErrNoBatch when there is none.
func (c *Batches) FindBatch(ctx context.Context, b provider.Batch, _ []string) (string, error) {
	after := ""
	for range mostPages {
		var page struct {
			Data    []batchState `json:"data"`
			HasMore bool         `json:"has_more"`
		}
		query := url.Values{"limit": {strconv.Itoa(pageSize)}}
		if after != "" {
			query.Set("after", after)
		}
		if err := c.manage(ctx, http.MethodGet, "batches?"+query.Encode(), "", nil).Decode("list batches", &page); err != nil {
			return "", err
		}
		for _, found := range page.Data {
			if found.Metadata[ourName] == b.ID.String() {
				return found.ID, nil
			}
			after = found.ID
		}
		if !page.HasMore {
			break
		}
	}
	return "", provider.ErrNoBatch
}

// LookAtBatch says how far a batch is.
func (c *Batches) LookAtBatch(ctx context.Context, id string) (provider.BatchStatus, error) {
	var b batchState
	if err := c.manage(ctx, http.MethodGet, "batches/"+url.PathEscape(id), "", nil).Decode("look at a batch", &b); err != nil {
		return provider.BatchStatus{}, err
	}
	status := provider.BatchStatus{}
	switch b.Status {
	case "completed", "failed", "expired", "cancelled":
		status.Ended = true
	}
	for _, file := range []string{b.OutputFile, b.ErrorFile} {
		if file != "" {
			status.Results = append(status.Results, file)
		}
	}
	return status, nil
}

// CancelBatch asks for a batch to be stopped. What is answered by then stays.
func (c *Batches) CancelBatch(ctx context.Context, id string) error {
	return c.manage(ctx, http.MethodPost, "batches/"+url.PathEscape(id)+"/cancel", "", nil).Decode("cancel a batch", nil)
}

// batchLine is a line of a file of results.
type batchLine struct {
	CustomID string `json:"custom_id"`
	Response *struct {
		StatusCode int             `json:"status_code"`
		RequestID  string          `json:"request_id"`
		Body       json.RawMessage `json:"body"`
	} `json:"response"`
	Error *struct {
		Code string `json:"code"`
	} `json:"error"`
}

// BatchResults reads what came of the requests of a batch that has ended.
func (c *Batches) BatchResults(ctx context.Context, status provider.BatchStatus, heard func(provider.BatchResult) error) error {
	for _, file := range status.Results {
		address := c.base.JoinPath("files", file, "content").String()
		x := c.http.Lines(ctx, address, c.header(""), func(line []byte) error {
			var l batchLine
			if err := json.Unmarshal(line, &l); err != nil {
				return fmt.Errorf("a line of the results cannot be read: %w", err)
			}
			return heard(l.result().Without(c.key))
		})
		if err := x.Without(c.key).Decode("read a batch's results", nil); err != nil {
			return err
		}
	}
	return nil
}

// result is the line as an exchange. A line without a response was never answered: its batch has expired or was cancelled.
func (l batchLine) result() provider.BatchResult {
	if l.Response == nil || l.Response.StatusCode == 0 {
		return provider.BatchResult{CustomID: l.CustomID, Unfinished: true}
	}
	return provider.BatchResult{CustomID: l.CustomID, Exchange: provider.Exchange{
		Status: l.Response.StatusCode, Header: http.Header{"X-Request-Id": {l.Response.RequestID}},
		Body: bytes.Clone(l.Response.Body), Sent: true,
	}}
}

// manage asks the API for something that is no answer of a model.
func (c *Batches) manage(ctx context.Context, method, path, contentType string, body []byte) provider.Exchange {
	path, query, _ := strings.Cut(path, "?")
	address := c.base.JoinPath(path)
	address.RawQuery = query
	return c.http.Do(ctx, method, address.String(), c.header(contentType), body).Without(c.key)
}

func (c *Batches) header(contentType string) http.Header {
	h := http.Header{"Accept": {"application/json"}, "User-Agent": {"pawl"}}
	if contentType != "" {
		h.Set("Content-Type", contentType)
	}
	if !c.key.IsZero() {
		h.Set("Authorization", "Bearer "+strings.TrimSpace(c.key.Reveal()))
	}
	return h
}
