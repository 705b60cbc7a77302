// Package simulated is a model provider without a model: a server of the OpenAI form for development, tests and benchmarks.
//
// It answers POST /v1/chat/completions, whole and streamed, and GET /v1/models. Answers are deterministic and drawn from the
// prompt's own text (package extract); tokens are an estimate of four bytes each. Whatever it says names it "simulated".
// It enforces limits of concurrency, requests and tokens per minute when given some, as a real account does.
//
// # Faults
//
// It fails on request, in every way that providers are known to fail; Fault lists the kinds. A caller that can only choose a
// model asks for faults in the model's name:
//
//	name?fault,fault,…     with each fault   kind[=argument][*count]
//
//	sim-small?429=1s*1,429=5s*1   the first try gets 429 with Retry-After 1, the second with 5, the third an answer
//	sim-small?latency=50ms~2s     slow, always: half of the answers within 50 ms, 99 % within 2 s
//	sim-large?bad_schema*1        the first answer breaks the schema, the repaired one does not
//	sim-small?503                 never an answer
//
// Faults with a count hit the first tries of every conversation, one after the other; the next try is answered, and then it
// begins anew. A conversation is known by its messages up to the first user message, so that a repair, which appends to them,
// goes on with it. latency and drip go beside the others.
//
// # Administration
//
// Any process can steer and watch it:
//
//	GET    /admin/faults          the faults that are asked for and not used up
//	POST   /admin/faults          asks for a Fault; answers its id
//	DELETE /admin/faults[/{id}]   takes one back, or all, and lets go of what it holds
//	GET    /admin/requests        the Report: counts by call and outcome, requests in flight, busiest minute; ?last=N requests
//	DELETE /admin/requests        forgets them
//	GET    /admin/limits          the Limits
//	PUT    /admin/limits          sets them
//
// This part has no authentication: serve it on loopback only. In its own process a Provider is steered by its methods.
package simulated

import (
	"net/http"
	"slices"
	"time"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/llmgateway/provider/simulated/extract"
)

// Config says how the provider behaves. The zero value answers at once, without limits, to any key.
type Config struct {
	// Models are the names it serves; empty means sim-small and sim-large.
	Models []string
	// APIKeys are the bearer tokens it accepts; empty accepts every request, also one without a key.
	APIKeys []string
	// Latency is how long it takes to begin an answer.
	Latency Latency
	// Limits are what it enforces.
	Limits Limits
	// Seed decides the latencies that are drawn.
	Seed uint64
	// Remember is how many requests it can report on, the newest ones; 0 means 10 000.
	Remember int
}

const defaultRemember = 10_000

// Provider is an http.Handler. It is safe for concurrent use and starts no goroutines.
type Provider struct {
	cfg     Config
	clock   clock.Clock
	started time.Time
	engine  *extract.Engine
	limiter *limiter
	faults  *faults
	ledger  *ledger
	mux     *http.ServeMux
}

// New returns a Provider that takes its time from c.
func New(cfg Config, c clock.Clock) *Provider {
	if len(cfg.Models) == 0 {
		cfg.Models = []string{"sim-small", "sim-large"}
	}
	if cfg.Remember <= 0 {
		cfg.Remember = defaultRemember
	}
	p := &Provider{
		cfg: cfg, clock: c, started: c.Now(), engine: extract.New(), limiter: newLimiter(c, cfg.Limits), faults: newFaults(),
		ledger: newLedger(c, cfg.Remember), mux: http.NewServeMux(),
	}
	p.mux.HandleFunc("POST /v1/chat/completions", p.chat)
	p.mux.HandleFunc("GET /v1/models", p.models)
	p.registerAdmin()
	return p
}

// ServeHTTP implements http.Handler.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

func (p *Provider) models(w http.ResponseWriter, r *http.Request) {
	if err := p.authenticate(r); err != nil {
		err.write(w)
		return
	}
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	list := make([]model, len(p.cfg.Models))
	for i, name := range p.cfg.Models {
		list[i] = model{ID: name, Object: "model", Created: p.started.Unix(), OwnedBy: "simulated"}
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
}

// authenticate refuses a request without one of the configured keys.
func (p *Provider) authenticate(r *http.Request) *apiError {
	if len(p.cfg.APIKeys) == 0 || slices.Contains(p.cfg.APIKeys, bearer(r)) {
		return nil
	}
	return &apiError{
		status: http.StatusUnauthorized, Type: "invalid_request_error", Code: "invalid_api_key",
		Message: "the simulated provider does not accept this API key",
	}
}
