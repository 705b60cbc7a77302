package anthropic

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/llmgateway/provider"
)

const (
	// listed is how many batches are listed, newest first.
	listed = 100
	// clockSkew is how much earlier than we think the provider may say that a batch was made.
	clockSkew = 5 * time.Minute
)

// Batches asks the Message Batches API with one key. It is safe for concurrent use.
type Batches struct {
	http *provider.Client
	base *url.URL
	key  config.Secret
}

// NewBatches returns the batch API at base; see New.
func NewBatches(client *provider.Client, base string, key config.Secret) (*Batches, error) {
	address, err := provider.ParseBase(base)
	if err != nil {
		return nil, err
	}
	return &Batches{http: client, base: address, key: key}, nil
}

// EncodeItem makes the body of a request that goes with a batch. It is never streamed.
func (b *Batches) EncodeItem(r provider.Request) ([]byte, error) {
	body, err := newBody(r)
	if err != nil {
		return nil, err
	}
	return provider.Marshal(body)
}

// Size is the most requests and bytes that a batch may have.
func (b *Batches) Size() (items int, size int64) { return 100_000, 200 << 20 }

// batchState is what the provider says of a batch.
type batchState struct {
	ID               string    `json:"id"`
	ProcessingStatus string    `json:"processing_status"`
	CreatedAt        time.Time `json:"created_at"`
	ResultsURL       string    `json:"results_url"`
	Counts           struct {
		Processing, Succeeded, Errored, Canceled, Expired int
	} `json:"request_counts"`
}

func (s batchState) requests() int {
	c := s.Counts
	return c.Processing + c.Succeeded + c.Errored + c.Canceled + c.Expired
}

// Submit makes a batch and returns the provider's name for it.
func (b *Batches) Submit(ctx context.Context, batch provider.Batch) (string, error) {
	type request struct {
		CustomID string          `json:"custom_id"`
		Params   json.RawMessage `json:"params"`
	}
	requests := make([]request, len(batch.Items))
	for i, item := range batch.Items {
		requests[i] = request{item.CustomID, item.Body}
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(map[string]any{"requests": requests}); err != nil {
		return "", fmt.Errorf("encode a batch: %w", err)
	}
	var made batchState
	if err := b.ask(ctx, http.MethodPost, "", body.Bytes()).Decode("make a batch", &made); err != nil {
		return "", err
	}
	return made.ID, nil
}

// FindBatch looks for a batch whose making nobody has noted. The provider keeps no names for us, so it is the one of the
// right size, made since, that is not known; its results tell whether it is ours, by their custom ids.
func (b *Batches) FindBatch(ctx context.Context, batch provider.Batch, known []string) (string, error) {
	var page struct {
		Data []batchState `json:"data"`
	}
	if err := b.ask(ctx, http.MethodGet, "?limit="+strconv.Itoa(listed), nil).Decode("list batches", &page); err != nil {
		return "", err
	}
	for _, found := range page.Data {
		since := !found.CreatedAt.Before(batch.CreatedAt.Add(-clockSkew))
		if since && found.requests() == len(batch.Items) && !slices.Contains(known, found.ID) {
			return found.ID, nil
		}
	}
	return "", provider.ErrNoBatch
}

// LookAtBatch says how far a batch is.
func (b *Batches) LookAtBatch(ctx context.Context, id string) (provider.BatchStatus, error) {
	var state batchState
	if err := b.ask(ctx, http.MethodGet, "/"+url.PathEscape(id), nil).Decode("look at a batch", &state); err != nil {
		return provider.BatchStatus{}, err
	}
	status := provider.BatchStatus{Ended: state.ProcessingStatus == "ended"}
	if status.Ended && state.ResultsURL != "" {
		// The address that the provider names is not followed: a key is sent to no other server than the configured one.
		status.Results = []string{state.ID}
	}
	return status, nil
}

// CancelBatch asks for a batch to be stopped. What is answered by then stays.
func (b *Batches) CancelBatch(ctx context.Context, id string) error {
	return b.ask(ctx, http.MethodPost, "/"+url.PathEscape(id)+"/cancel", nil).Decode("cancel a batch", nil)
}

// batchLine is a line of the results.
type batchLine struct {
	CustomID string `json:"custom_id"`
	Result   struct {
		Type    string          `json:"type"`
		Message json.RawMessage `json:"message"`
		Error   json.RawMessage `json:"error"`
	} `json:"result"`
}

// BatchResults reads what came of the requests of a batch that has ended.
func (b *Batches) BatchResults(ctx context.Context, status provider.BatchStatus, heard func(provider.BatchResult) error) error {
	for _, id := range status.Results {
		address := b.address("/" + url.PathEscape(id) + "/results")
		x := b.http.Lines(ctx, address, b.header(), func(line []byte) error {
			var l batchLine
			if err := json.Unmarshal(line, &l); err != nil {
				return fmt.Errorf("a line of the results cannot be read: %w", err)
			}
			return heard(l.result().Without(b.key))
		})
		if err := x.Without(b.key).Decode("read a batch's results", nil); err != nil {
			return err
		}
	}
	return nil
}

// result is the line as an exchange. What was canceled or has expired was never answered.
func (l batchLine) result() provider.BatchResult {
	r := provider.BatchResult{CustomID: l.CustomID}
	switch l.Result.Type {
	case "succeeded":
		r.Exchange = provider.Exchange{Status: http.StatusOK, Body: bytes.Clone(l.Result.Message), Sent: true}
	case "errored":
		r.Exchange = provider.Exchange{Status: statusOf(l.Result.Error), Body: bytes.Clone(l.Result.Error), Sent: true}
	default:
		r.Unfinished = true
	}
	return r
}

// statusOf is the HTTP status with which the provider answers a single request that fails like this.
func statusOf(answer json.RawMessage) int {
	var e struct {
		Error struct {
			Type string `json:"type"`
		} `json:"error"`
	}
	if json.Unmarshal(answer, &e) != nil {
		return http.StatusInternalServerError
	}
	status := map[string]int{
		"invalid_request_error": http.StatusBadRequest, "authentication_error": http.StatusUnauthorized,
		"billing_error": http.StatusPaymentRequired, "permission_error": http.StatusForbidden, "not_found_error": http.StatusNotFound,
		"request_too_large": http.StatusRequestEntityTooLarge, "rate_limit_error": http.StatusTooManyRequests,
		"timeout_error": http.StatusGatewayTimeout, "overloaded_error": 529,
	}[e.Error.Type]
	if status == 0 {
		return http.StatusInternalServerError
	}
	return status
}

func (b *Batches) ask(ctx context.Context, method, path string, body []byte) provider.Exchange {
	return b.http.Do(ctx, method, b.address(path), b.header(), body).Without(b.key)
}

func (b *Batches) address(path string) string {
	path, query, _ := strings.Cut(path, "?")
	address := b.base.JoinPath("messages", "batches", path)
	address.RawQuery = query
	return address.String()
}

func (b *Batches) header() http.Header {
	return http.Header{
		"Accept": {"application/json"}, "Content-Type": {"application/json"}, "User-Agent": {"pawl"},
		"Anthropic-Version": {version}, "X-Api-Key": {strings.TrimSpace(b.key.Reveal())},
	}
}
