package simulated

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// Inject asks for a fault and returns its id. An error says what is wrong with it.
func (p *Provider) Inject(f Fault) (id string, err error) { return p.faults.inject(f) }

// Faults returns the faults that are asked for and not used up, in the order in which they apply.
func (p *Provider) Faults() []PendingFault { return p.faults.list() }

// DeleteFault takes a fault back and lets go of the requests that it holds. It reports whether there was one with this id.
func (p *Provider) DeleteFault(id string) bool { return id != "" && p.faults.remove(id) }

// DeleteFaults takes all faults back and lets go of the requests that they hold.
func (p *Provider) DeleteFaults() { p.faults.remove("") }

// Report tells what the provider has seen, with at most the last newest requests.
func (p *Provider) Report(last int) Report {
	r := p.ledger.report(last)
	r.PeakRequestsPerMinute, r.PeakTokensPerMinute = p.limiter.peaks()
	return r
}

// Forget sets all counts to what is in flight now.
func (p *Provider) Forget() {
	p.ledger.forget()
	p.limiter.resetPeaks()
}

// SetLimits changes what the provider enforces, for the requests to come.
func (p *Provider) SetLimits(l Limits) { p.limiter.set(l) }

// defaultLast is how many requests GET /admin/requests lists unless it is asked for another number with ?last=.
const defaultLast = 100

func (p *Provider) registerAdmin() {
	p.mux.HandleFunc("GET /admin/faults", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"faults": p.Faults()})
	})
	p.mux.HandleFunc("POST /admin/faults", p.postFault)
	p.mux.HandleFunc("DELETE /admin/faults", func(w http.ResponseWriter, _ *http.Request) {
		p.DeleteFaults()
		w.WriteHeader(http.StatusNoContent)
	})
	p.mux.HandleFunc("DELETE /admin/faults/{id}", p.deleteFault)
	p.mux.HandleFunc("GET /admin/requests", p.getRequests)
	p.mux.HandleFunc("DELETE /admin/requests", func(w http.ResponseWriter, _ *http.Request) {
		p.Forget()
		w.WriteHeader(http.StatusNoContent)
	})
	p.mux.HandleFunc("GET /admin/limits", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, p.limiter.get())
	})
	p.mux.HandleFunc("PUT /admin/limits", p.putLimits)
}

func (p *Provider) postFault(w http.ResponseWriter, r *http.Request) {
	var f Fault
	if err := decode(r, &f); err != nil {
		err.write(w)
		return
	}
	id, err := p.Inject(f)
	if err != nil {
		invalid("", err.Error()).write(w)
		return
	}
	writeJSON(w, http.StatusCreated, map[string]string{"id": id})
}

func (p *Provider) deleteFault(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if !p.DeleteFault(id) {
		e := invalid("id", fmt.Sprintf("there is no fault %q: it was never asked for, is used up, or was deleted", id))
		e.status = http.StatusNotFound
		e.write(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (p *Provider) getRequests(w http.ResponseWriter, r *http.Request) {
	last := defaultLast
	if asked := r.URL.Query().Get("last"); asked != "" {
		n, err := strconv.Atoi(asked)
		if err != nil || n < 0 {
			invalid("last", fmt.Sprintf("last is %q: write how many requests to list", asked)).write(w)
			return
		}
		last = n
	}
	writeJSON(w, http.StatusOK, p.Report(last))
}

func (p *Provider) putLimits(w http.ResponseWriter, r *http.Request) {
	var l Limits
	if err := decode(r, &l); err != nil {
		err.write(w)
		return
	}
	if min(l.Concurrency, l.RequestsPerMinute, l.TokensPerMinute) < 0 {
		invalid("", "a limit must not be negative; 0 means no limit").write(w)
		return
	}
	p.SetLimits(l)
	writeJSON(w, http.StatusOK, l)
}

// decode reads a JSON body strictly.
func decode(r *http.Request, into any) *apiError {
	dec := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return invalid("", "the body is not what this takes: "+err.Error())
	}
	if _, err := dec.Token(); err != io.EOF {
		return invalid("", "the body must be one JSON object and nothing after it")
	}
	return nil
}
