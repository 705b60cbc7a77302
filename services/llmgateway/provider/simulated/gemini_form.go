package simulated

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// gemini is the form of Google's Gemini API.
type gemini struct{ now func() time.Time }

func (gemini) name() string { return formGemini }

func (gemini) key(r *http.Request) string {
	if key := r.Header.Get("X-Goog-Api-Key"); key != "" {
		return key
	}
	return r.URL.Query().Get("key")
}

func (gemini) check(*http.Request) *failure { return nil }

func (gemini) announce(h http.Header, number int) {
	h.Set("X-Goog-Request-Id", fmt.Sprintf("simulated-%d", number))
}

// standing says nothing: Gemini does not tell what is left.
func (gemini) standing(http.Header, standing) {}

func (g gemini) status(f *failure) int {
	status, _ := g.sort(f)
	return status
}

// sort returns the HTTP status and the status's name.
func (gemini) sort(f *failure) (status int, name string) {
	switch f.kind {
	case failKey, failTooLong:
		return http.StatusBadRequest, "INVALID_ARGUMENT"
	case failModel, failMissing:
		return http.StatusNotFound, "NOT_FOUND"
	case failRequests, failTokens, failConnected, failDaily, failQuota:
		return http.StatusTooManyRequests, "RESOURCE_EXHAUSTED"
	case failInvalid, failStatus:
	}
	names := map[int]string{
		http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusPaymentRequired: "RESOURCE_EXHAUSTED",
		http.StatusForbidden: "PERMISSION_DENIED", http.StatusNotFound: "NOT_FOUND", http.StatusConflict: "ABORTED",
		http.StatusTooManyRequests: "RESOURCE_EXHAUSTED", 499: "CANCELLED", http.StatusInternalServerError: "INTERNAL",
		http.StatusServiceUnavailable: "UNAVAILABLE", http.StatusGatewayTimeout: "DEADLINE_EXCEEDED", statusOverloaded: "UNAVAILABLE",
	}
	switch name := names[f.status]; {
	case name != "":
		return f.status, name
	case f.status >= http.StatusInternalServerError:
		return f.status, "UNKNOWN"
	}
	return f.status, "INVALID_ARGUMENT"
}

// Names of the types of details.
const (
	typeErrorInfo    = "type.googleapis.com/google.rpc.ErrorInfo"
	typeQuotaFailure = "type.googleapis.com/google.rpc.QuotaFailure"
	typeRetryInfo    = "type.googleapis.com/google.rpc.RetryInfo"
)

// details is what machines can read of a failure.
func (gemini) details(f *failure) []any {
	quota := func(id string) map[string]any {
		return map[string]any{"@type": typeQuotaFailure, "violations": []any{
			map[string]string{"quotaMetric": "generativelanguage.googleapis.com/simulated", "quotaId": id},
		}}
	}
	var details []any
	switch f.kind {
	case failKey:
		return []any{map[string]any{"@type": typeErrorInfo, "reason": "API_KEY_INVALID", "domain": "googleapis.com"}}
	case failRequests, failConnected:
		details = append(details, quota("GenerateRequestsPerMinutePerProjectPerModel"))
	case failTokens:
		details = append(details, quota("GenerateContentInputTokensPerModelPerMinute"))
	case failDaily:
		details = append(details, quota("GenerateRequestsPerDayPerProjectPerModel"))
	case failStatus, failInvalid, failModel, failMissing, failTooLong, failQuota:
	}
	if f.wait > 0 && f.waitAs == waitUsual {
		seconds := strconv.FormatFloat(f.wait.Seconds(), 'f', -1, 64)
		details = append(details, map[string]any{"@type": typeRetryInfo, "retryDelay": seconds + "s"})
	}
	return details
}

// refuse says how long to wait in the body, and in a header only if a fault asks for one.
func (g gemini) refuse(w http.ResponseWriter, number int, f *failure) int {
	f.setWait(w.Header(), g.now())
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(g.status(f))
	_, _ = w.Write(g.body(number, f)) // a caller that is gone does not read it
	return g.status(f)
}

// geminiError is what an error's body says in its member error.
type geminiError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Status  string `json:"status"`
	Details []any  `json:"details,omitempty"`
}

func (g gemini) body(_ int, f *failure) []byte {
	status, name := g.sort(f)
	e := geminiError{Code: status, Message: f.message, Status: name, Details: g.details(f)}
	switch f.kind {
	case failKey:
		e.Message = "API key not valid. Please pass a valid API key. " + f.message
	case failTooLong:
		e.Message = "The input token count (8193) exceeds the maximum number of tokens allowed (8192). (simulated)"
	case failQuota:
		e.Message = "Your project has exceeded its monthly spending cap. (simulated)"
	case failModel:
		e.Message = "models/" + f.model + " is not found for API version v1beta. (simulated)"
	case failStatus, failInvalid, failMissing, failRequests, failTokens, failConnected, failDaily:
	}
	return marshal(map[string]any{"error": e})
}

func (g gemini) event(number int, f *failure) []byte { return event("", g.body(number, f)) }

func (gemini) cachesOnDemand() bool { return false }
