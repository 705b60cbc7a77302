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
	r.Peaks, r.PeaksByKey = p.limiter.peaks()
	r.PeakRequestsPerMinute, r.PeakTokensPerMinute = r.Peaks.RequestsPerMinute, r.Peaks.TokensPerMinute
	r.AdmittedInFlight = p.limiter.inFlight()
	return r
}

// Forget sets all counts to what is in flight now.
func (p *Provider) Forget() {
	p.ledger.forget()
	p.limiter.resetPeaks()
}

// SetLimits changes what the provider enforces, for the requests to come.
func (p *Provider) SetLimits(l Limits) { p.limiter.set(l) }

// Admissions returns the requests that no limit refused, oldest first: the newest 200 000 since it was told to forget.
func (p *Provider) Admissions() []Admission { return p.ledger.series() }

// SetCache switches on or off that the beginnings of prompts are cached. Off, it forgets them.
func (p *Provider) SetCache(on bool) { p.cache.turn(on) }

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
	p.mux.HandleFunc("GET /admin/admissions", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"admissions": p.Admissions()})
	})
	p.registerCacheAdmin()
	p.registerBatchAdmin()
}

func (p *Provider) postFault(w http.ResponseWriter, r *http.Request) {
	var f Fault
	if err := decode(r, &f); err != nil {
		refuseAdmin(w, err)
		return
	}
	id, err := p.Inject(f)
	if err != nil {
		refuseAdmin(w, invalid("", err.Error()))
		return
	}
	writeJSON(w, http.StatusCreated, map[string]string{"id": id})
}

func (p *Provider) deleteFault(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if !p.DeleteFault(id) {
		e := invalid("id", fmt.Sprintf("there is no fault %q: it was never asked for, is used up, or was deleted", id))
		e.status = http.StatusNotFound
		refuseAdmin(w, e)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (p *Provider) getRequests(w http.ResponseWriter, r *http.Request) {
	last := defaultLast
	if asked := r.URL.Query().Get("last"); asked != "" {
		n, err := strconv.Atoi(asked)
		if err != nil || n < 0 {
			refuseAdmin(w, invalid("last", fmt.Sprintf("last is %q: write how many requests to list", asked)))
			return
		}
		last = n
	}
	writeJSON(w, http.StatusOK, p.Report(last))
}

func (p *Provider) putLimits(w http.ResponseWriter, r *http.Request) {
	var l Limits
	if err := decode(r, &l); err != nil {
		refuseAdmin(w, err)
		return
	}
	if err := l.check(); err != nil {
		refuseAdmin(w, invalid("", err.Error()))
		return
	}
	p.SetLimits(l)
	writeJSON(w, http.StatusOK, l)
}

// cacheSwitch is whether prompts are cached.
type cacheSwitch struct {
	On bool `json:"on"`
}

func (p *Provider) registerCacheAdmin() {
	show := func(w http.ResponseWriter) { writeJSON(w, http.StatusOK, cacheSwitch{p.cache.isOn()}) }
	p.mux.HandleFunc("GET /admin/cache", func(w http.ResponseWriter, _ *http.Request) { show(w) })
	p.mux.HandleFunc("PUT /admin/cache", func(w http.ResponseWriter, r *http.Request) {
		var s cacheSwitch
		if err := decode(r, &s); err != nil {
			refuseAdmin(w, err)
			return
		}
		p.SetCache(s.On)
		show(w)
	})
}

// refuseAdmin answers with an error in the form of OpenAI.
func refuseAdmin(w http.ResponseWriter, f *failure) {
	writeJSON(w, f.status, map[string]any{"error": openAI{}.error(f)})
}

// decode reads a JSON body strictly.
func decode(r *http.Request, into any) *failure {
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
