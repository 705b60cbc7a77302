package compat

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/money"
)

// The headers of this endpoint's own, beside Idempotency-Key.
const (
	headerKey       = "Idempotency-Key"
	headerClass     = "X-Pawl-Class"
	headerBudget    = "X-Pawl-Budget-Usd"
	headerTimeout   = "X-Pawl-Timeout"
	headerAmbiguous = "X-Pawl-Ambiguous"

	headerReplayed = "X-Pawl-Replayed"
	headerCost     = "X-Pawl-Cost-Usd"
	headerCall     = "X-Pawl-Call"
)

const (
	// mostKey is the longest idempotency key, in characters.
	mostKey = 255
	// leastTimeout and mostTimeout bound what a request may ask for.
	leastTimeout = time.Second
	mostTimeout  = time.Hour
	// callsLeft is how many requests one request may make the gateway send, over all targets.
	callsLeft = 8
	// anyNumber of requests of unknown fate are no hindrance for a client that says so.
	anyNumber = 1 << 20
)

// terms are what a request says beside its question.
type terms struct {
	// key is the idempotency key; empty for none.
	key string
	// timeout bounds the whole request.
	timeout time.Duration
}

// readTerms reads the headers of a request, and puts into the question what it must know of them.
func (e *endpoint) readTerms(h http.Header, q *systemv1.GenerateRequest) (terms, error) {
	t := terms{timeout: e.Timeout}
	llm := e.LLMTimeout
	q.CallsLeft, q.FallbackAfter, q.Origin = callsLeft, 1, Origin
	var err error
	if t.key, err = idempotencyKey(h); err != nil {
		return t, err
	}
	switch class := h.Get(headerClass); class {
	case "", "interactive":
		q.Class = pawlv1.RunClass_RUN_CLASS_INTERACTIVE
	case "batch":
		q.Class = pawlv1.RunClass_RUN_CLASS_BATCH
	default:
		return t, wrong(headerClass, "must be interactive or batch")
	}
	if text := h.Get(headerBudget); text != "" {
		amount, err := money.Parse(text)
		if err != nil || amount < 0 {
			return t, wrong(headerBudget, "must be an amount in US dollars such as 0.25")
		}
		budget := int64(amount)
		q.BudgetPicoUsd = &budget
	}
	if text := h.Get(headerTimeout); text != "" {
		stated, ok := parseTimeout(text)
		if !ok {
			return t, wrong(headerTimeout, "must be 1s to 1h, such as 90s, or a number of seconds")
		}
		t.timeout, llm = stated, stated
	}
	switch h.Get(headerAmbiguous) {
	case "":
	case "retry":
		q.AmbiguousOk = anyNumber
	default:
		return t, wrong(headerAmbiguous, "must be retry")
	}
	q.DeadlineIn, q.LlmTimeout = durationpb.New(t.timeout), durationpb.New(min(llm, t.timeout))
	return t, nil
}

// parseTimeout reads a duration such as 90s, or a number of seconds.
func parseTimeout(text string) (time.Duration, bool) {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= leastTimeout && d <= mostTimeout
}

// idempotencyKey returns the request's key; empty for none. It may stand in quotes (RFC 9651).
func idempotencyKey(h http.Header) (string, error) {
	values := h.Values(headerKey)
	if len(values) == 0 {
		return "", nil
	}
	key := strings.TrimSpace(values[0])
	if len(key) > 1 && strings.HasPrefix(key, `"`) && strings.HasSuffix(key, `"`) {
		key = key[1 : len(key)-1]
	}
	strange := func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }
	if len(values) > 1 || key == "" || len(key) > mostKey || strings.ContainsFunc(key, strange) {
		return "", wrong(headerKey, "must be given once, as 1 to 255 printable ASCII characters without quotes inside")
	}
	return key, nil
}
