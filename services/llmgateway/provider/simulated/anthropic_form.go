package simulated

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// anthropic is the form of Anthropic's API.
type anthropic struct{ now func() time.Time }

func (anthropic) name() string { return formAnthropic }

func (anthropic) key(r *http.Request) string {
	if key := r.Header.Get("X-Api-Key"); key != "" {
		return key
	}
	return bearer(r)
}

// headerVersion names the version of the API that the caller speaks; it must be there.
const headerVersion = "Anthropic-Version"

func (anthropic) check(r *http.Request) *failure {
	if r.Header.Get(headerVersion) == "" {
		return invalid("", "anthropic-version: header is required")
	}
	return nil
}

func anthropicRequestID(number int) string { return fmt.Sprintf("req_simulated_%d", number) }

func (anthropic) announce(h http.Header, number int) { h.Set("Request-Id", anthropicRequestID(number)) }

func (anthropic) standing(h http.Header, s standing) {
	for kind, g := range map[string]gauge{
		"Requests": s.requests, "Tokens": s.tokens, "Input-Tokens": s.input, "Output-Tokens": s.output,
	} {
		if g.limit == 0 {
			continue
		}
		h.Set("Anthropic-Ratelimit-"+kind+"-Limit", strconv.Itoa(g.limit))
		h.Set("Anthropic-Ratelimit-"+kind+"-Remaining", strconv.Itoa(g.left))
		h.Set("Anthropic-Ratelimit-"+kind+"-Reset", s.now.Add(g.reset).UTC().Format(time.RFC3339))
	}
}

func (a anthropic) status(f *failure) int {
	status, _ := a.sort(f)
	return status
}

// sort returns the status and the type of a failure.
func (anthropic) sort(f *failure) (status int, kind string) {
	switch f.kind {
	case failKey:
		return http.StatusUnauthorized, "authentication_error"
	case failModel, failMissing:
		return http.StatusNotFound, "not_found_error"
	case failTooLong:
		return http.StatusBadRequest, "invalid_request_error"
	case failRequests, failTokens, failConnected, failDaily, failQuota:
		return http.StatusTooManyRequests, "rate_limit_error"
	case failInvalid, failStatus:
	}
	kinds := map[int]string{
		http.StatusUnauthorized: "authentication_error", http.StatusPaymentRequired: "billing_error",
		http.StatusForbidden: "permission_error", http.StatusNotFound: "not_found_error", http.StatusConflict: "conflict_error",
		http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error",
		http.StatusGatewayTimeout: "timeout_error", statusOverloaded: "overloaded_error",
	}
	switch kind := kinds[f.status]; {
	case kind != "":
		return f.status, kind
	case f.status >= http.StatusInternalServerError:
		return f.status, "api_error"
	}
	return f.status, "invalid_request_error"
}

func (a anthropic) refuse(w http.ResponseWriter, number int, f *failure) int {
	f.setWait(w.Header(), a.now(), waitSeconds)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status(f))
	_, _ = w.Write(a.body(number, f)) // a caller that is gone does not read it
	return a.status(f)
}

// anthropicError is what an error's body says in its member error.
type anthropicError struct {
	Type    string            `json:"type"`
	Message string            `json:"message"`
	Details map[string]string `json:"details,omitempty"`
}

func (a anthropic) body(number int, f *failure) []byte {
	_, kind := a.sort(f)
	e := anthropicError{Type: kind, Message: f.message}
	switch f.kind {
	case failTooLong:
		e.Message = "prompt is too long: 8193 tokens > 8192 maximum (simulated)"
	case failModel:
		e.Message = "model: " + f.model
	case failQuota:
		e.Details = map[string]string{"error_code": "enforced_spend_limit_reached"}
	case failStatus, failInvalid, failKey, failMissing, failRequests, failTokens, failConnected, failDaily:
	}
	whole := map[string]any{"type": "error", "error": e}
	if number > 0 {
		whole["request_id"] = anthropicRequestID(number)
	}
	return marshal(whole)
}

func (a anthropic) event(number int, f *failure) []byte { return event("error", a.body(number, f)) }

func (anthropic) cachesOnDemand() bool { return true }
