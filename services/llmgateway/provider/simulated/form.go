package simulated

import (
	"net/http"
)

// The names of the formats.
const (
	formOpenAI    = "openai"
	formAnthropic = "anthropic"
	formGemini    = "gemini"
)

func formats() []string { return []string{formOpenAI, formAnthropic, formGemini} }

// form is what one format says in its own way, beside questions and answers.
type form interface {
	name() string
	// key returns the API key of a request, "" if it has none.
	key(r *http.Request) string
	// check refuses a request whose header is not as the format wants it.
	check(r *http.Request) *failure
	// announce sets the headers of every answer to request number.
	announce(h http.Header, number int)
	// standing sets the headers that tell how much of the limits is left.
	standing(h http.Header, s standing)
	// refuse writes the failure as the answer to request number, and returns the status.
	refuse(w http.ResponseWriter, number int, f *failure) (status int)
	// status is the status of a failure.
	status(f *failure) int
	// body is a failure as it stands in a body, without its status and headers.
	body(number int, f *failure) []byte
	// event is a failure in the middle of a stream.
	event(number int, f *failure) []byte
	// cachesOnDemand tells that only what is marked is cached, and that writing is counted.
	cachesOnDemand() bool
}

// parser makes a question of a request.
type parser func(r *http.Request, body []byte) (*question, *failure)

// authenticate refuses a request without one of the configured keys.
func (p *Provider) authenticate(f form, r *http.Request) *failure {
	if bad := f.check(r); bad != nil {
		return bad
	}
	if p.accepts(f.key(r)) {
		return nil
	}
	return &failure{kind: failKey, message: "the simulated provider does not accept this API key"}
}

// handle serves what is no question to a model; name is what it is counted as.
func (p *Provider) handle(pattern, name string, f form, serve func(w http.ResponseWriter, r *http.Request) *failure) {
	p.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { p.other(w, r, name, f, serve) })
}

func (p *Provider) other(
	w http.ResponseWriter, r *http.Request, name string, f form, serve func(w http.ResponseWriter, r *http.Request) *failure,
) {
	p.ledger.other(name)
	bad := p.authenticate(f, r)
	if bad == nil {
		bad = serve(w, r)
	}
	if bad != nil {
		f.refuse(w, 0, bad)
	}
}
