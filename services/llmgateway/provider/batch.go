package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/config"
)

// Batch is a set of requests to one model that a provider answers when it finds the time, at a discount.
type Batch struct {
	// ID names it. A provider that keeps such things is told, so that the batch is found again.
	ID        uuid.UUID
	CreatedAt time.Time
	Items     []BatchItem
}

// BatchItem is a request of a batch.
type BatchItem struct {
	// CustomID names it within the batch: up to 64 letters, digits, hyphens and underscores.
	CustomID string
	// Body is the request's body.
	Body []byte
}

// BatchStatus is how far a batch is at its provider.
type BatchStatus struct {
	// Ended says that nothing more comes of it: its results can be read.
	Ended bool
	// Results are where they are, in the provider's words.
	Results []string
}

// BatchResult is what came of one request of a batch.
type BatchResult struct {
	CustomID string
	// Unfinished says that the provider did not get to it, or was told not to: it costs nothing.
	Unfinished bool
	// Exchange is the answer as if the request had been sent alone.
	Exchange Exchange
}

// Without returns the result with every occurrence of the secret blotted out.
func (r BatchResult) Without(secret config.Secret) BatchResult {
	r.Exchange = r.Exchange.Without(secret)
	return r
}

// ErrNoBatch says that there is no such batch at the provider.
var ErrNoBatch = errors.New("the provider has no such batch")

// BatchError is the answer of a provider that did not do what was asked about a batch.
type BatchError struct {
	What   string
	Status int
	Body   []byte
}

// Error gives the status. The body may repeat prompts, so it is not part of it.
func (e *BatchError) Error() string {
	return fmt.Sprintf("%s: the provider answered with status %d", e.What, e.Status)
}

// Refused reports whether asking again would be refused again.
func (e *BatchError) Refused() bool {
	passing := e.Status == http.StatusRequestTimeout || e.Status == http.StatusConflict || e.Status == http.StatusTooManyRequests
	return e.Status >= http.StatusBadRequest && e.Status < http.StatusInternalServerError && !passing
}

// Decode reads the answer to a question about a batch.
func (x Exchange) Decode(what string, into any) error {
	switch {
	case x.Err != nil:
		return fmt.Errorf("%s: %w", what, x.Err)
	case x.Status == http.StatusNotFound:
		return fmt.Errorf("%s: %w", what, ErrNoBatch)
	case x.Status >= http.StatusMultipleChoices:
		return &BatchError{What: what, Status: x.Status, Body: x.Body}
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(x.Body, into); err != nil {
		return fmt.Errorf("%s: the provider's answer cannot be read: %w", what, err)
	}
	return nil
}
