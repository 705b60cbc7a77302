package failure

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// shape is one of the forms in which providers write an error.
type shape uint8

const (
	// shapeNone (F): not JSON, empty, or JSON without an error in it.
	shapeNone shape = iota
	// shapeNested (A, and B): {"error":{"message","type","param","code"}}; B has "type":"error" and an id around it.
	shapeNested
	// shapeStatus (C): {"error":{"code":429,"message","status","details"}}; OpenRouter's has "metadata" instead of both.
	shapeStatus
	// shapeFlat (D): {"object":"error","message","type","param","code"}; in streams of the Responses API with "type":"error".
	shapeFlat
	// shapeText (E): {"error":"text"}, perhaps with "message" beside it.
	shapeText
)

// said is what a provider's answer says, whatever its shape.
type said struct {
	status  int // HTTP status, or the status that a 200 carries inside
	header  http.Header
	shape   shape
	code    string // never a number: those are statuses
	kind    string // the error's type, or Google's status word
	param   string
	message string
	details string   // structured details and metadata, as JSON
	quotas  []string // the ids of the quotas that were exceeded, from Google's details
	delay   string   // google.rpc.RetryInfo's retryDelay
	finish  string   // why the model ended
}

// errorFields is the union of the fields that error objects have.
type errorFields struct {
	Message  json.RawMessage `json:"message"`
	Type     json.RawMessage `json:"type"`
	Param    json.RawMessage `json:"param"`
	Code     json.RawMessage `json:"code"`
	Status   json.RawMessage `json:"status"`
	Details  json.RawMessage `json:"details"`
	Metadata json.RawMessage `json:"metadata"`
}

// envelope is what stands around an error object.
type envelope struct {
	errorFields
	Object  string          `json:"object"`
	Error   json.RawMessage `json:"error"`
	Detail  json.RawMessage `json:"detail"`
	Choices []struct {
		Error json.RawMessage `json:"error"`
	} `json:"choices"`
	// Response is what the Responses API wraps in the events of its streams.
	Response struct {
		Error json.RawMessage `json:"error"`
	} `json:"response"`
}

// inner is the error object, wherever it stands.
func (e envelope) inner() json.RawMessage {
	places := []json.RawMessage{e.Error, e.Response.Error}
	for _, c := range e.Choices {
		places = append(places, c.Error)
	}
	for _, place := range places {
		if place = bytes.TrimSpace(place); !isAbsent(place) {
			return place
		}
	}
	return nil
}

// isFlat reports whether the envelope is the error object itself.
func (e envelope) isFlat(status int) bool {
	says := !isAbsent(e.Message) || !isAbsent(e.Type)
	return e.Object == "error" || text(e.Type) == "error" && !isAbsent(e.Message) || status >= http.StatusBadRequest && says
}

// read finds the error in a body.
func read(status int, body []byte) said {
	s := said{status: status}
	e, ok := open(body)
	if !ok {
		return s
	}
	inner := e.inner()
	switch {
	case len(inner) > 0 && inner[0] == '{':
		s.nested(inner)
	case len(inner) > 0 && inner[0] == '"':
		s.shape, s.message = shapeText, strings.TrimSpace(text(inner)+" "+text(e.Message))
	case e.isFlat(status):
		s.shape = shapeFlat
		s.fill(e.errorFields)
		if s.kind == "error" { // says only that it is one
			s.kind = ""
		}
	case !isAbsent(e.Detail):
		s.shape, s.message = shapeFlat, sentence(e.Detail)
	}
	return s
}

// open reads a body's envelope; Google puts it into a list where a stream was asked for that is one document.
func open(body []byte) (envelope, bool) {
	var e envelope
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		var list []envelope
		if json.Unmarshal(body, &list) != nil || len(list) == 0 {
			return e, false
		}
		return list[len(list)-1], true
	}
	return e, json.Unmarshal(body, &e) == nil
}

// nested reads {"error": {…}} of the shapes A, B and C.
func (s *said) nested(inner []byte) {
	var f errorFields
	if json.Unmarshal(inner, &f) != nil {
		s.shape, s.message = shapeText, string(inner)
		return
	}
	s.shape = shapeNested
	if isNumber(f.Code) && isAbsent(f.Type) {
		s.shape = shapeStatus
	}
	s.fill(f)
}

func (s *said) fill(f errorFields) {
	s.message, s.kind, s.param = sentence(f.Message), text(f.Type), text(f.Param)
	s.details = string(f.Details) + string(f.Metadata)
	if s.kind == "" && !isNumber(f.Status) {
		s.kind = text(f.Status)
	}
	s.detailed(f.Details)
	if !isNumber(f.Code) {
		s.code = cmp.Or(text(f.Code), s.code)
		return
	}
	// A number is an HTTP status again. Inside a 200 it is the true one.
	if n, err := strconv.Atoi(string(f.Code)); err == nil && s.status < 400 && n >= 400 && n < 600 {
		s.status = n
	}
}

// detail is what the structured details of an error may say: Google's are a list, Anthropic's one object.
type detail struct {
	Reason     string `json:"reason"`
	RetryDelay string `json:"retryDelay"`
	Violations []struct {
		QuotaID string `json:"quotaId"`
	} `json:"violations"`
	ErrorCode string `json:"error_code"`
}

// detailed takes out of the details what the table asks for.
func (s *said) detailed(raw json.RawMessage) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	for _, item := range list {
		var d detail
		if json.Unmarshal(item, &d) != nil {
			continue
		}
		s.code = cmp.Or(s.code, d.ErrorCode, d.Reason)
		s.delay = cmp.Or(s.delay, d.RetryDelay)
		for _, v := range d.Violations {
			s.quotas = append(s.quotas, v.QuotaID)
		}
	}
}

// found reports whether the body holds an error.
func (s said) found() bool { return s.shape != shapeNone }

// sentence reads what is said for people: a text, or the first of a list of violations: [{"loc", "msg"}], which Mistral
// wraps in {"detail"} once more.
func sentence(raw json.RawMessage) string {
	var wrapped struct {
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(raw, &wrapped) == nil && len(wrapped.Detail) > 0 {
		raw = wrapped.Detail
	}
	var violations []struct {
		Msg string `json:"msg"`
	}
	if json.Unmarshal(raw, &violations) == nil && len(violations) > 0 {
		return violations[0].Msg
	}
	return text(raw)
}

// text is a JSON string's text; other values are "".
func text(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func isAbsent(raw []byte) bool { return len(raw) == 0 || string(raw) == "null" }

func isNumber(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}
