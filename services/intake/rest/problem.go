package rest

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/rpc"
)

const (
	contentProblem = "application/problem+json"
	// problemBase begins the type of every problem. It is a name, not a place: .internal is reserved for private use.
	problemBase = "https://pawl.internal/problems/"
)

// problem is the body of an error (RFC 9457). The members after instance are extensions of ours.
type problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
	Instance string `json:"instance"`
	// Code is the canonical name of the gRPC code, Reason the stable reason within it.
	Code     string            `json:"code"`
	Reason   string            `json:"reason"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Errors   []problemField    `json:"errors,omitempty"`
	// Violated names the limits in the way, as the header RateLimit-Policy does.
	Violated   []string `json:"violated-policies,omitempty"`
	RetryAfter *int64   `json:"retry_after_s,omitempty"`
	RequestID  string   `json:"request_id"`
}

// problemField is one rule that the request breaks.
type problemField struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// handleError answers a call that failed; grpc-gateway calls it.
func (a *api) handleError(
	ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error,
) {
	f := faultOf(err)
	setLimits(ctx, w)
	a.writeProblem(ctx, w, r, f, fault.Lookup(f.Reason).HTTP)
}

// handleRouting answers a request that matches no route; grpc-gateway calls it.
func (a *api) handleRouting(
	ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, status int,
) {
	const reason = faultv1.ErrorReason_ERROR_REASON_NO_SUCH_ENDPOINT
	if allowed := a.routes.methods(r.URL.Path); status == http.StatusMethodNotAllowed && len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		f := fault.New(reason, "%s is not a method of %s: use %s", r.Method, r.URL.Path, strings.Join(allowed, " or "))
		a.writeProblem(ctx, w, r, f, status)
		return
	}
	a.writeProblem(ctx, w, r, fault.New(reason, "there is no %s %s", r.Method, r.URL.Path), http.StatusNotFound)
}

func (a *api) writeProblem(ctx context.Context, w http.ResponseWriter, r *http.Request, f *fault.Error, status int) {
	body := problem{
		Type:      problemBase + strings.ToLower(strings.ReplaceAll(fault.Name(f.Reason), "_", "-")),
		Title:     fault.Lookup(f.Reason).Title,
		Status:    status,
		Detail:    f.Message,
		Instance:  r.URL.Path,
		Code:      fault.CodeName(f.Code),
		Reason:    fault.Name(f.Reason),
		Metadata:  f.Meta,
		RequestID: rpc.RequestID(ctx),
	}
	for _, v := range f.Violations {
		body.Errors = append(body.Errors, problemField(v))
	}
	for _, q := range f.Quotas {
		body.Violated = append(body.Violated, q.Policy)
	}
	if f.RetryAfter > 0 {
		seconds := int64(math.Ceil(f.RetryAfter.Seconds()))
		body.RetryAfter = &seconds
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	text, err := json.Marshal(body)
	if err != nil { // texts and numbers always encode
		text = nil
	}
	w.Header().Set("Content-Type", contentProblem)
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the caller went away: nobody is left to tell
}
