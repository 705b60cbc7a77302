package simulated

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fault is something that goes wrong on request. In JSON it is what POST /admin/faults takes, for example
//
//	{"kind": "429", "argument": "2s", "count": 3, "model": "sim-small"}
//
// The kinds are:
//
//	400 … 599        an error with this status; argument: Retry-After as a duration (429, 503 and 529 mostly)
//	quota            429 insufficient_quota, without Retry-After
//	context_length   400 context_length_exceeded
//	echo_key         401 with the caller's API key in the message
//	error_in_200     status 200 with an error as the body
//	hang             no answer until the caller goes away
//	hold             as hang, but deleting the fault lets the request go on to its answer (not in a model's name)
//	keep_alive       blank lines or comments at this interval, and no answer; argument: the interval, a duration
//	cut              the connection is closed before the answer begins
//	cut_body         the connection is closed in the middle of the answer
//	unfinished       the answer ends properly in its middle: half a JSON document, or a stream without its end
//	not_json         status 200 with a page of HTML
//	empty            no choices
//	truncated        half of the answer, finish_reason length
//	content_filter   half of the answer, finish_reason content_filter
//	refusal          a refusal in place of content
//	bad_schema       JSON that breaks the schema that was asked for
//	reply            the fault's reply, as it is
//	latency          the answer begins late; argument: a Latency such as 80ms or 80ms~400ms
//	drip             the answer comes in small pieces; argument: the pause between them, a duration
//
// The last two change how an answer comes and go together with any other.
type Fault struct {
	// ID names the fault in DELETE /admin/faults/{id}. The provider gives it.
	ID string `json:"id,omitempty"`
	// Kind is one of the above.
	Kind string `json:"kind"`
	// Argument is what the kind says; empty means its default.
	Argument string `json:"argument,omitempty"`
	// Count is how many requests it hits; 0 means all until it is deleted.
	Count int `json:"count,omitempty"`
	// Model restricts it to requests to this model.
	Model string `json:"model,omitempty"`
	// Contains restricts it to requests with this text in a message.
	Contains string `json:"contains,omitempty"`
	// Reply is the answer of kind reply.
	Reply *Reply `json:"reply,omitempty"`

	status  int           // of an error
	wait    time.Duration // the argument of all kinds but latency
	latency Latency
}

// Reply is an answer given byte by byte.
type Reply struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header,omitempty"`
	Body   string            `json:"body"`
	// Raw is a body that no JSON text can hold, in base64: bytes that are not UTF-8. It goes before Body.
	Raw []byte `json:"raw,omitempty"`
}

// content is the body to send.
func (r *Reply) content() []byte {
	if len(r.Raw) > 0 {
		return r.Raw
	}
	return []byte(r.Body)
}

const (
	kindQuota         = "quota"
	kindContextLength = "context_length"
	kindEchoKey       = "echo_key"
	kindErrorIn200    = "error_in_200"
	kindHang          = "hang"
	kindHold          = "hold"
	kindKeepAlive     = "keep_alive"
	kindCut           = "cut"
	kindCutBody       = "cut_body"
	kindUnfinished    = "unfinished"
	kindNotJSON       = "not_json"
	kindEmpty         = "empty"
	kindTruncated     = "truncated"
	kindContentFilter = "content_filter"
	kindRefusal       = "refusal"
	kindBadSchema     = "bad_schema"
	kindReply         = "reply"
	kindLatency       = "latency"
	kindDrip          = "drip"
)

// plainKinds are the kinds that take no argument.
func plainKinds() []string {
	return []string{
		kindQuota, kindContextLength, kindEchoKey, kindErrorIn200, kindHang, kindHold, kindCut, kindCutBody, kindUnfinished,
		kindNotJSON, kindEmpty, kindTruncated, kindContentFilter, kindRefusal, kindBadSchema, kindReply,
	}
}

// defaultPause is the interval of keep_alive and drip without an argument.
const defaultPause = 100 * time.Millisecond

// parse checks the fault and reads its kind and argument.
func (f *Fault) parse() error {
	if f.Count < 0 {
		return fmt.Errorf("count is %d: write how many requests to hit, or 0 for all", f.Count)
	}
	if (f.Kind == kindReply) != (f.Reply != nil) {
		return fmt.Errorf("kind %q and a reply go only together", kindReply)
	}
	if f.Reply != nil && (f.Reply.Status < 200 || f.Reply.Status > 599) {
		return fmt.Errorf("reply.status is %d: write a status from 200 to 599", f.Reply.Status)
	}
	status, err := strconv.Atoi(f.Kind)
	switch {
	case err == nil && status >= 400 && status <= 599:
		f.status = status
		return f.parseWait(0)
	case f.Kind == kindKeepAlive || f.Kind == kindDrip:
		return f.parseWait(defaultPause)
	case f.Kind == kindLatency:
		return f.latency.UnmarshalText([]byte(f.Argument))
	case !slices.Contains(plainKinds(), f.Kind):
		return fmt.Errorf("there is no fault %q: write a status from 400 to 599, %s, %s, %s or %s", f.Kind,
			strings.Join(plainKinds(), ", "), kindKeepAlive, kindLatency, kindDrip)
	case f.Argument != "":
		return fmt.Errorf("%s takes no argument, and has %q", f.Kind, f.Argument)
	}
	return nil
}

func (f *Fault) parseWait(otherwise time.Duration) error {
	f.wait = otherwise
	if f.Argument == "" {
		return nil
	}
	wait, err := time.ParseDuration(f.Argument)
	if err != nil || wait < 0 || wait == 0 && otherwise > 0 {
		return fmt.Errorf("%q is no argument for %s: write a duration such as 500ms or 2s", f.Argument, f.Kind)
	}
	f.wait = wait
	return nil
}

// shapes reports whether the fault only changes how an answer comes.
func (f *Fault) shapes() bool { return f.Kind == kindLatency || f.Kind == kindDrip }

// apiError returns the error that the fault answers with, nil if it is of another kind.
func (f *Fault) apiError(r *http.Request) *apiError {
	switch f.Kind {
	case kindQuota:
		return &apiError{
			status: http.StatusTooManyRequests, Type: "insufficient_quota", Code: "insufficient_quota",
			Message: "You exceeded your current quota at the simulated provider, please check your plan and billing details.",
		}
	case kindContextLength:
		return &apiError{
			status: http.StatusBadRequest, Type: "invalid_request_error", Param: "messages", Code: "context_length_exceeded",
			Message: "This simulated model's maximum context length is 8192 tokens. Please reduce the length of the messages.",
		}
	case kindEchoKey:
		return &apiError{
			status: http.StatusUnauthorized, Type: "invalid_request_error", Code: "invalid_api_key",
			Message: "Incorrect API key provided: " + bearer(r) + ". This error is simulated.",
		}
	}
	if f.status == 0 {
		return nil
	}
	e := &apiError{status: f.status, retryAfter: f.wait, Type: "invalid_request_error", Message: "A fault was asked for at the simulated provider."}
	switch {
	case f.status == http.StatusTooManyRequests:
		e.Type, e.Code = "requests", "rate_limit_exceeded"
	case f.status == http.StatusServiceUnavailable:
		e.Type, e.Code = "service_unavailable_error", "server_is_overloaded"
	case f.status == statusOverloaded:
		e.Type = "overloaded_error"
	case f.status >= 500:
		e.Type = "server_error"
	}
	return e
}

// statusOverloaded is what some providers answer when they, and not the account, are at their limit.
const statusOverloaded = 529
