package simulated

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// openAI is the form of OpenAI and of all that are compatible with it.
type openAI struct{ now func() time.Time }

func (openAI) name() string { return formOpenAI }

func (openAI) key(r *http.Request) string { return bearer(r) }

// bearer returns the API key of a request.
func bearer(r *http.Request) string {
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return key
}

func (openAI) check(*http.Request) *failure { return nil }

func (openAI) announce(h http.Header, number int) {
	h.Set("X-Request-Id", fmt.Sprintf("simulated-%d", number))
}

func (openAI) standing(h http.Header, s standing) {
	for kind, g := range map[string]gauge{"Requests": s.requests, "Tokens": s.tokens} {
		if g.limit == 0 {
			continue
		}
		h.Set("X-Ratelimit-Limit-"+kind, strconv.Itoa(g.limit))
		h.Set("X-Ratelimit-Remaining-"+kind, strconv.Itoa(g.left))
		h.Set("X-Ratelimit-Reset-"+kind, g.reset.String())
	}
}

// openAIError is an error in the form that OpenAI answers with.
type openAIError struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   any    `json:"param"` // a string, or null
	Code    any    `json:"code"`  // a string, or null
}

// openAISort is what OpenAI says of a sort of failure.
type openAISort struct {
	status     int
	kind, code string
}

func (openAI) sort(f *failure) openAISort {
	switch f.kind {
	case failKey:
		return openAISort{http.StatusUnauthorized, "invalid_request_error", "invalid_api_key"}
	case failModel:
		return openAISort{http.StatusNotFound, "invalid_request_error", "model_not_found"}
	case failTooLong:
		return openAISort{http.StatusBadRequest, "invalid_request_error", "context_length_exceeded"}
	case failRequests, failConnected, failDaily:
		return openAISort{http.StatusTooManyRequests, "requests", "rate_limit_exceeded"}
	case failTokens:
		return openAISort{http.StatusTooManyRequests, "tokens", "rate_limit_exceeded"}
	case failQuota:
		return openAISort{http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota"}
	case failInvalid, failMissing, failStatus:
	}
	switch {
	case f.status == http.StatusUnauthorized:
		return openAISort{f.status, "invalid_request_error", "invalid_api_key"}
	case f.status == http.StatusServiceUnavailable:
		return openAISort{f.status, "service_unavailable_error", "server_is_overloaded"}
	case f.status == statusOverloaded:
		return openAISort{f.status, "overloaded_error", ""}
	case f.status >= http.StatusInternalServerError:
		return openAISort{f.status, "server_error", ""}
	}
	return openAISort{f.status, "invalid_request_error", ""}
}

func (o openAI) status(f *failure) int { return o.sort(f).status }

func (o openAI) error(f *failure) openAIError {
	sort := o.sort(f)
	e := openAIError{Message: f.message, Type: sort.kind}
	if f.param != "" {
		e.Param = f.param
	}
	if sort.code != "" {
		e.Code = sort.code
	}
	return e
}

func (o openAI) refuse(w http.ResponseWriter, number int, f *failure) int {
	f.setWait(w.Header(), o.now(), waitSeconds, waitMillis)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(o.status(f))
	_, _ = w.Write(o.body(number, f)) // a caller that is gone does not read it
	return o.status(f)
}

func (o openAI) body(_ int, f *failure) []byte { return marshal(map[string]any{"error": o.error(f)}) }

func (o openAI) event(number int, f *failure) []byte { return event("", o.body(number, f)) }

func (openAI) cachesOnDemand() bool { return false }
