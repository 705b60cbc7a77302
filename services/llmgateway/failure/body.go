package failure

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// shape is one of the forms in which providers write an error.
type shape uint8

const (
	// shapeNone (F): not JSON, empty, or JSON without an error in it.
	shapeNone shape = iota
	// shapeNested (A, and B without its envelope's type): {"error":{"message","type","param","code"}}.
	shapeNested
	// shapeStatus (C): {"error":{"code":429,"message","status","details"}}; OpenRouter's has "metadata" instead of both.
	shapeStatus
	// shapeFlat (D): {"object":"error","message","type","param","code"}.
	shapeFlat
	// shapeText (E): {"error":"text"}, perhaps with "message" beside it.
	shapeText
)

// said is what a provider's error body says, whatever its shape.
type said struct {
	status  int // HTTP status, or the status that a 200 carries inside
	shape   shape
	code    string // never a number: those are statuses
	kind    string // the error's type, or Google's status word
	param   string
	message string
	details string // structured details and metadata, as JSON
	finish  string // why the model ended
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
}

// read finds the error in a body.
func read(status int, body []byte) said {
	s := said{status: status}
	var e envelope
	if json.Unmarshal(body, &e) != nil {
		return s
	}
	inner := bytes.TrimSpace(e.Error)
	if isAbsent(inner) && len(e.Choices) > 0 {
		inner = bytes.TrimSpace(e.Choices[0].Error)
	}
	switch {
	case !isAbsent(inner) && inner[0] == '{':
		s.nested(inner)
	case !isAbsent(inner) && inner[0] == '"':
		s.shape, s.message = shapeText, strings.TrimSpace(text(inner)+" "+text(e.Message))
	case e.Object == "error" || status >= 400 && !(isAbsent(e.Message) && isAbsent(e.Type)):
		s.shape = shapeFlat
		s.fill(e.errorFields)
	case !isAbsent(e.Detail):
		s.shape, s.message = shapeFlat, sentence(e.Detail)
	}
	return s
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
	if !isNumber(f.Code) {
		s.code = text(f.Code)
		return
	}
	// A number is an HTTP status again. Inside a 200 it is the true one.
	if n, err := strconv.Atoi(string(f.Code)); err == nil && s.status < 400 && n >= 400 && n < 600 {
		s.status = n
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
