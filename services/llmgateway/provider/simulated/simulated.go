// Package simulated is a model provider without a model: a server of the OpenAI form for development, tests and benchmarks.
//
// It answers POST /v1/chat/completions (whole and streamed) and GET /v1/models. Answers are deterministic and drawn from the
// prompt's own text (package extract); tokens are an estimate of four bytes each. Whatever it says names it "simulated".
//
// Its other job is to fail on request, in every way that providers are known to fail. A fault is asked for in the model's
// name, such as sim-small?429=2s*2 (see Fault and the file script.go), or through POST /admin/faults, which any process can reach.
// GET /admin/requests tells what it has seen: how often each request came, how many were in flight at once, and the busiest
// minute. It enforces limits of concurrency, requests and tokens per minute when given some, as a real account does.
//
// The admin part has no authentication: serve it on loopback only.
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
