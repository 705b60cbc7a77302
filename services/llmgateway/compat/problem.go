package compat

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	"pawl.internal/services/internal/fault"
)

// The types of errors, in OpenAI's words.
const (
	kindInvalid    = "invalid_request_error"
	kindRate       = "rate_limit_error"
	kindQuota      = "insufficient_quota"
	kindServer     = "server_error"
	kindPermission = "permission_error"
)

// statusClientGone is how a request is counted whose client did not wait for its answer.
const statusClientGone = 499

// problem is an error as OpenAI's clients read it: the status chooses the type of their error.
type problem struct {
	status int
	// kind is the error's type, code a stable word, param the parameter that is wrong; code and param may be empty.
	kind, code, param, message string
	// wait is the least time to wait before repeating the request; 0 says nothing.
	wait time.Duration
	// final keeps the clients from repeating the request by themselves: it would fail again, or might be paid twice.
	final bool

	cause error
}

// Error returns the message.
func (p *problem) Error() string { return p.message }

// Unwrap returns what only a log may see.
func (p *problem) Unwrap() error { return p.cause }

// wrong is the problem of a parameter.
func wrong(param, message string) *problem {
	return &problem{status: http.StatusBadRequest, kind: kindInvalid, code: "invalid_value", param: param, message: param + ": " + message}
}

// problemOf returns the problem that err is, or that a fault amounts to.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	f := fault.Of(err)
	p := &problem{status: fault.Lookup(f.Reason).HTTP, kind: kindServer, message: f.Message, wait: f.RetryAfter, cause: err}
	switch f.Code {
	case codes.InvalidArgument:
		p.kind, p.code = kindInvalid, "invalid_value"
		if len(f.Violations) > 0 {
			p.param = f.Violations[0].Field
		}
	case codes.Unavailable:
		p.code = "unavailable"
	case codes.DeadlineExceeded:
		p.code = "timeout"
	case codes.Canceled:
		p.status = statusClientGone
	default:
		p.code = "internal_error"
	}
	return p
}

// errGone says that the client did not wait for its answer.
var errGone = errors.New("the client has gone")

// gone is the error of a write to a client that cannot be reached any more.
func gone(cause error) error { return errors.Join(errGone, cause) }

// isGone reports whether an error only says that the client did not wait.
func isGone(err error) bool { return errors.Is(err, errGone) || errors.Is(err, context.Canceled) }

// body is the error's JSON.
func (p *problem) body() []byte {
	orNull := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	type said struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	text, err := json.Marshal(struct {
		Error said `json:"error"`
	}{said{p.message, p.kind, orNull(p.param), orNull(p.code)}})
	if err != nil { // texts always encode
		return nil
	}
	return text
}

// writeProblem answers with the error.
func writeProblem(w http.ResponseWriter, p *problem) {
	h := w.Header()
	h.Set("Content-Type", contentJSON)
	if p.wait > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(p.wait.Seconds())), 10))
	}
	if p.final {
		h.Set("X-Should-Retry", "false")
	}
	if p.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(p.status)
	_, _ = w.Write(append(p.body(), '\n')) // the client went away: nobody is left to tell
}
