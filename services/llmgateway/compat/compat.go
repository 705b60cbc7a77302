// Package compat is the OpenAI-compatible endpoint: chat completions (also streamed), embeddings and the list of models, in
// the form that OpenAI's own clients speak, so that a program needs another base URL and nothing else.
//
// It translates and decides nothing: a request becomes a question to the gateway of the same process, which answers it under
// the same limits, routes, prices and log as those of pipelines. What is asked here belongs to no run, so each request has a
// scope of its own in the run's place: with an Idempotency-Key the same one each time, so that the stored answer is replayed
// and nothing is bought twice.
//
// A request ends with its client, the question does not: its answer is stored and booked.
package compat

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/llmgateway/provider"
)

// Origin is what the books call questions that were asked here.
const Origin = "openai-endpoint"

// ErrKeyReused says that an idempotency key came with another request before.
var ErrKeyReused = errors.New("the idempotency key was used for another request")

// Gateway answers questions.
type Gateway interface {
	// Models lists what may be asked: the routes, and the models of their targets.
	Models() []Model
	// Knows reports whether a question to the name would go anywhere.
	Knows(name string) bool
	// Scope returns the scope of the questions that a tenant asks under an idempotency key: that of the first one, or else the
	// fresh one. ErrKeyReused says that the first one was another question.
	Scope(ctx context.Context, key Key, question *systemv1.GenerateRequest, fresh uuid.UUID) (uuid.UUID, error)
	// Ask begins to answer a question, or joins those who wait for its answer. Live asks for the pieces of the answer as they
	// come. The question does not end with ctx.
	Ask(ctx context.Context, question *systemv1.GenerateRequest, live bool) (Call, error)
}

// Key is an idempotency key of a tenant.
type Key struct {
	Tenant, Text string
}

// Model is a name that may be asked.
type Model struct {
	ID string
	// Owner is the provider; "pawl" for a route.
	Owner string
}

// Call is a question on its way, as one caller follows it.
type Call interface {
	// Said returns what the model has said from the n-th piece on, which model it is (empty as long as nothing was asked), and a
	// channel that is closed when there is more.
	Said(n int) (pieces []provider.Delta, model string, more <-chan struct{})
	// Done is closed when the question is answered or given up.
	Done() <-chan struct{}
	// Result is how it ended; only after Done. The error is one of the gateway's own: the question may be repeated.
	Result() (Result, error)
	// Replayed reports whether somebody else had asked before. It is final after Done.
	Replayed() bool
}

// Result is how a question ended: with an answer, a failure, or both, where an answer came that is of little use: cut off,
// refused or empty.
type Result struct {
	Answer  *systemv1.Answer
	Failure *systemv1.CallFailure
}

// Config is what the endpoint needs; every field is required.
type Config struct {
	Gateway Gateway
	Access  systemv1.AccessServiceClient
	// Admin answers /livez, /readyz and /healthz.
	Admin   http.Handler
	Clock   clock.Clock
	IDs     *ids.Source
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// MaxBodyBytes bounds a request's body.
	MaxBodyBytes int64
	// Timeout bounds a request that states no time of its own: the wait for a permit and the answer together.
	Timeout time.Duration
	// LLMTimeout bounds the answer of such a request, from the permit on.
	LLMTimeout time.Duration
}

// endpoint is the handler.
type endpoint struct {
	Config
	metrics *metrics
	keys    *keyring
	started time.Time
}

// New returns the handler of the endpoint.
func New(cfg Config) http.Handler {
	e := &endpoint{
		Config: cfg, metrics: newMetrics(cfg.Metrics), keys: newKeyring(cfg.Access, cfg.Clock), started: cfg.Clock.Now(),
	}
	return e.observe(http.HandlerFunc(e.dispatch))
}
