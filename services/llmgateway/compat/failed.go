package compat

import (
	"net/http"
	"time"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/llmgateway/failure"
)

// statusCancelled is what a question is answered with whose call was cancelled.
const statusCancelled = statusClientGone

// failed is the problem that a failure amounts to. The reasons that clients have types for come first; what remains follows
// from the class.
func failed(f *systemv1.CallFailure) *problem {
	p := &problem{message: f.GetMessage(), wait: f.GetRetryAfter().AsDuration(), kind: kindServer, code: f.GetReason()}
	if p.message == "" {
		p.message = "the question was not answered: " + f.GetReason()
	}
	switch f.GetReason() {
	case failure.ReasonInput:
		p.status, p.kind, p.code = http.StatusBadRequest, kindInvalid, "invalid_request"
	case "context_too_long":
		p.status, p.kind, p.code, p.param = http.StatusBadRequest, kindInvalid, "context_length_exceeded", "messages"
	case "content_refused":
		p.status, p.kind, p.code = http.StatusBadRequest, kindInvalid, "content_filter"
	case failure.ReasonUnavailable:
		p.status, p.kind, p.code, p.param = http.StatusNotFound, kindInvalid, "model_not_found", "model"
	case "quota_exhausted":
		p.status, p.kind, p.code, p.final = http.StatusTooManyRequests, kindQuota, kindQuota, true
	case failure.ReasonDeadline:
		p.status, p.kind, p.code, p.wait = http.StatusTooManyRequests, kindRate, "rate_limit_exceeded", max(p.wait, time.Second)
		p.message = "no permit came in time; nothing was sent, and nothing is paid"
	case failure.ReasonCancelled:
		p.status, p.final = statusCancelled, true
	case failure.ReasonTimeout: // here and below the message has the provider's address, which is not the client's business
		p.status, p.message = http.StatusGatewayTimeout, "the model's provider did not answer in time"
	case failure.ReasonNetwork:
		p.message = "the connection to the model's provider failed"
		p.fromClass(f)
	default:
		p.fromClass(f)
	}
	if f.GetClass() == systemv1.Outcome_FAILURE_CLASS_AMBIGUOUS {
		p.ambiguous(f)
	}
	return p
}

func (p *problem) fromClass(f *systemv1.CallFailure) {
	switch f.GetClass() {
	case systemv1.Outcome_FAILURE_CLASS_BUDGET:
		p.status, p.kind, p.code, p.final = http.StatusTooManyRequests, kindQuota, kindQuota, true
	case systemv1.Outcome_FAILURE_CLASS_TRANSIENT:
		p.status = http.StatusBadGateway
		switch {
		case f.GetReason() == "provider_429", f.GetPark():
			p.status, p.kind, p.code = http.StatusTooManyRequests, kindRate, "rate_limit_exceeded"
			p.wait = max(p.wait, time.Second)
		case f.GetReason() == "provider_503", f.GetReason() == "provider_529":
			p.status = http.StatusServiceUnavailable
		}
	default:
		// Another try would fail alike: our key is wrong, the region is not served, the answer is too long to be read.
		p.status, p.final = http.StatusBadGateway, true
	}
}

// ambiguous: a request was sent, and nobody knows what came of it. The first time its own reason says what went wrong; from
// then on the key stands for a question that may be paid already.
func (p *problem) ambiguous(f *systemv1.CallFailure) {
	p.final = true
	if f.GetReason() == failure.ReasonAmbiguous {
		p.status, p.kind = http.StatusConflict, kindServer
	} else {
		p.status = http.StatusGatewayTimeout
	}
	p.message += "; the request may have been answered and charged, so it is not sent again under the same Idempotency-Key " +
		"unless the header X-Pawl-Ambiguous: retry allows it"
}
