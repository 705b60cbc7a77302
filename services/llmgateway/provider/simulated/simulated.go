// Package simulated is model providers without a model, for development, tests and benchmarks: a server of three formats.
//
//	OpenAI     POST /v1/chat/completions whole and streamed, with tools, images and structured output; POST /v1/embeddings;
//	           /v1/files and /v1/batches; GET /v1/models
//	Anthropic  POST /v1/messages whole and streamed, with tools, images and structured output; /v1/messages/batches;
//	           GET /v1/models, when the header anthropic-version is there
//	Gemini     POST /v1beta/models/{model}: generateContent, streamGenerateContent, embedContent and batchEmbedContents;
//	           GET /v1beta/models
//
// Answers are deterministic and drawn from the prompt's own text (package extract); tokens are an estimate of four bytes each.
// Whatever it says names it "simulated". Left to choose, it calls a tool whenever the user spoke last: the first whose name
// stands in the text, or else the first; after the tool's result it answers. It enforces limits of concurrency, requests and
// tokens per minute when given some, over all formats together, for all keys together or each of them, as real accounts do.
//
// A request goes through a core that knows no format: question, limiter, faults, answer, ledger. Each format has a parser
// that makes a question, a form that writes errors and headers, and a writer that writes answers.
//
// # Faults
//
// It fails on request, in every way that providers are known to fail, as each format writes it. The kinds are:
//
//	400 … 599        an error with this status; argument: the wait it tells of, a duration such as 2s. OpenAI's form tells it
//	                 in Retry-After and Retry-After-Ms, Anthropic's in Retry-After, Gemini's in RetryInfo. With :seconds,
//	                 :ms or :date after the duration it is that header alone
//	quota            the account has no money left: 429, without a wait
//	daily            429 for a limit of the day; argument: the wait, as above
//	context_length   400, the prompt is too long
//	model_not_found  404, there is no such model
//	echo_key         the key is refused, with the caller's API key in the message
//	echo_prompt      400 with the prompt in the message
//	error_in_200     status 200 with an error as the body, or as a stream's first event
//	error_event      an error event in the middle of a stream; argument: after so many deltas
//	hang             no answer until the caller goes away
//	hang_headers     headers, and then nothing until the caller goes away
//	hang_body        the answer stops in its middle until the caller goes away; argument: after so many deltas
//	hold             as hang, but deleting the fault lets the request go on to its answer (not in a model's name)
//	keep_alive       blank lines or comments at this interval, and no answer; argument: the interval, a duration
//	cut              the connection is closed before the answer begins
//	cut_headers      the connection is closed after the headers
//	cut_body         the connection is closed in the middle of the answer; argument: after so many deltas
//	unfinished       the answer ends properly in its middle: half a document, or a stream without its end; argument: as above
//	not_json         status 200 with plain text
//	html             a page of HTML; argument: its status, 200 if it is none
//	empty            an answer with nothing inside: no choices, no content, no candidates
//	truncated        half of the answer, cut by a limit of tokens
//	content_filter   half of the answer, cut by a filter
//	refusal          a refusal in place of content
//	bad_schema       JSON that breaks the schema that was asked for
//	no_usage         an answer that does not say what it cost
//	wrong_usage      an answer with a usage that cannot be: more cached than prompt, and sums that do not add up
//	reply            the fault's reply, as it is (not in a model's name)
//	latency          the answer begins late; argument: a Latency such as 80ms or 80ms~400ms
//	drip             the answer comes in small pieces; argument: the pause between them, a duration
//	usage            the answer is said to cost exactly this; argument: prompt:120+cached:100+completion:7, and also
//	                 cache_write_5m, cache_write_1h and reasoning. prompt counts all input and completion the reasoning,
//	                 from which each format says what it says
//
// The last three change how an answer comes or what it costs, and go together with any other. Without an argument, what breaks
// off does so in the middle. A caller that can only choose a model asks for faults in the model's name:
//
//	name?fault,fault,…     with each fault   kind[=argument][*count]
//
//	sim-small?429=1s*1,429=5s*1   the first try gets 429 with Retry-After 1, the second with 5, the third an answer
//	sim-small?429=2s:date         429 with Retry-After as a date
//	sim-small?latency=50ms~2s     slow, always: half of the answers within 50 ms, 99 % within 2 s
//	sim-large?bad_schema*1        the first answer breaks the schema, the repaired one does not
//	sim-small?cut_body=40         a stream of 40 deltas whose connection is then cut
//	sim-small?503                 never an answer
//
// Faults with a count hit the first tries of every conversation, one after the other; the next try is answered, and then it
// begins anew. A conversation is known by its messages up to the first user message, so that a repair, which appends to them,
// goes on with it. In the path of a Gemini request the question mark is %3F.
//
// # Batches
//
// Batches of both formats go through their stages by the clock, when they are looked at; BatchPace says how fast. No limit
// applies to their requests, and of the faults those of the model's name: what needs a connection is an error 500 there.
//
// # Administration
//
// Any process can steer and watch it:
//
//	GET    /admin/faults                 the faults that are asked for and not used up
//	POST   /admin/faults                 asks for a Fault; answers its id
//	DELETE /admin/faults[/{id}]          takes one back, or all, and lets go of what it holds
//	GET    /admin/requests               the Report: counts by outcome, key, model, format and call, requests in flight, peaks
//	                                     of any 60 seconds; ?last=N requests
//	DELETE /admin/requests               forgets them
//	GET    /admin/admissions             the Admissions, with their times: what no limit refused
//	GET    /admin/limits                 the Limits
//	PUT    /admin/limits                 sets them
//	GET    /admin/cache                  {"on": whether prompts are cached}
//	PUT    /admin/cache                  switches that; off, it forgets
//	GET    /admin/batches                the batches, as BatchStatus
//	GET    /admin/batches/pace           the BatchPace
//	PUT    /admin/batches/pace           sets it, also for the batches that are going on
//	POST   /admin/batches/{id}/complete  ends a batch at once, all of it done
//	POST   /admin/batches/{id}/expire    ends it at once with {"done": its first so many requests} done
//	POST   /admin/batches/{id}/fail      makes {"custom_ids": requests not yet done} fail with {"status": 500}
//
// This part has no authentication: serve it on loopback only. In its own process a Provider is steered by its methods; Start
// serves one for a test.
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
	// APIKeys are the keys it accepts, in the header of each format; empty accepts every request, also one without a key.
	APIKeys []string
	// Latency is how long it takes to begin an answer.
	Latency Latency
	// Limits are what it enforces.
	Limits Limits
	// Seed decides the latencies that are drawn.
	Seed uint64
	// Cache makes it count the beginning of a prompt, from 1024 tokens on, as cached if it was asked before.
	Cache bool
	// Batches is how fast batches go; the zero value answers them when they are first looked at.
	Batches BatchPace
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
	cache   *cache
	files   *files
	batches *batches
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
		ledger: newLedger(c, cfg.Remember), cache: newCache(cfg.Cache), files: &files{}, mux: http.NewServeMux(),
	}
	p.batches = &batches{clock: c, answer: p.answerItem, closed: p.closeBatch, pace: cfg.Batches}
	o := openAI{c.Now}
	p.mux.HandleFunc("POST /v1/chat/completions", p.ask(o, parseChat))
	p.mux.HandleFunc("POST /v1/embeddings", p.ask(o, parseEmbedding))
	p.mux.HandleFunc("POST /v1/messages", p.ask(anthropic{c.Now}, parseMessages))
	p.registerModels()
	p.registerFiles()
	p.registerBatches()
	p.registerMessageBatches()
	p.registerGemini()
	p.registerAdmin()
	return p
}

// ServeHTTP implements http.Handler.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// accepts reports whether a key is one of those that may ask.
func (p *Provider) accepts(key string) bool {
	return len(p.cfg.APIKeys) == 0 || slices.Contains(p.cfg.APIKeys, key)
}
