package compat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"pawl.internal/services/internal/canon"
)

// readBody reads a request's body, which is one JSON object.
func (e *endpoint) readBody(w http.ResponseWriter, r *http.Request) (*fields, error) {
	if r.ContentLength > e.MaxBodyBytes {
		// A client that is still sending would lose the answer with a connection that is closed under it.
		_, _ = io.CopyN(io.Discard, r.Body, 2*e.MaxBodyBytes)
		return nil, e.tooLarge()
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, e.MaxBodyBytes))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, e.tooLarge()
	}
	if err != nil {
		return nil, malformed("the body could not be read to its end")
	}
	if _, err := canon.Decode(raw); err != nil {
		return nil, malformed(err.Error())
	}
	f := &fields{first: &first{}}
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) || json.Unmarshal(raw, &f.members) != nil {
		return nil, malformed("the body must be a JSON object")
	}
	return f, nil
}

func (e *endpoint) tooLarge() *problem {
	return &problem{
		status: http.StatusRequestEntityTooLarge, kind: kindInvalid, code: "request_too_large",
		message: fmt.Sprintf("the body is larger than the %d bytes allowed here", e.MaxBodyBytes),
	}
}

func malformed(message string) *problem {
	return &problem{status: http.StatusBadRequest, kind: kindInvalid, code: "invalid_json", message: message}
}

// fields are the members of a JSON object of a request. What is read is taken out, so that end finds what nobody knows. The
// first thing that is wrong is kept, and reading goes on with zero values. A member that is null counts as absent.
type fields struct {
	path    string
	members map[string]json.RawMessage
	first   *first
}

// first is the first problem of a request.
type first struct{ problem *problem }

// name is the path of a member, as clients write it.
func (f *fields) name(member string) string {
	if f.path == "" {
		return member
	}
	return f.path + "." + member
}

// fail notes a problem of a member, unless there is one.
func (f *fields) fail(member, format string, args ...any) {
	if f.first.problem == nil {
		f.first.problem = wrong(f.name(member), fmt.Sprintf(format, args...))
	}
}

// end returns the first problem; a member that nobody has read is one.
func (f *fields) end() error {
	for _, member := range slices.Sorted(maps.Keys(f.members)) {
		if f.first.problem == nil {
			f.first.problem = wrong(f.name(member), "is not a parameter that is known here")
			f.first.problem.code = "unknown_parameter"
		}
	}
	if f.first.problem != nil {
		return f.first.problem
	}
	return nil
}

// take takes a member out.
func (f *fields) take(member string) (json.RawMessage, bool) {
	raw, ok := f.members[member]
	delete(f.members, member)
	return raw, ok && string(raw) != "null"
}

// ignore takes out what changes nothing of the answer.
func (f *fields) ignore(members ...string) {
	for _, member := range members {
		delete(f.members, member)
	}
}

// refuse takes out a member that changes the answer in a way that cannot be had here, unless it has one of the values (as
// JSON) that change nothing.
func (f *fields) refuse(member string, harmless ...string) {
	raw, ok := f.take(member)
	if !ok || slices.Contains(harmless, compact(raw)) {
		return
	}
	f.fail(member, "is not supported here%s", whichOnes(harmless))
	f.first.problem.code = "unsupported_parameter"
}

func whichOnes(harmless []string) string {
	if len(harmless) == 0 {
		return ": leave it out"
	}
	return ": leave it out, or send " + strings.Join(harmless, " or ")
}

func compact(raw json.RawMessage) string {
	var text bytes.Buffer
	if json.Compact(&text, raw) != nil {
		return ""
	}
	return text.String()
}

// decode reads a member into a value; want says what it must be.
func decode[T any](f *fields, member, want string) (value T, ok bool) {
	raw, ok := f.take(member)
	if !ok {
		return value, false
	}
	if json.Unmarshal(raw, &value) != nil {
		f.fail(member, "must be %s", want)
		var zero T
		return zero, false
	}
	return value, true
}

func (f *fields) text(member string) (string, bool) { return decode[string](f, member, "a text") }

func (f *fields) flag(member string) (value, ok bool) {
	return decode[bool](f, member, "true or false")
}

// needText reads a text that must be there.
func (f *fields) needText(member string) string {
	text, _ := f.text(member)
	if text == "" {
		f.fail(member, "is missing")
	}
	return text
}

// number reads a number between two bounds.
func (f *fields) number(member string, least, most float64) (float64, bool) {
	value, ok := decode[float64](f, member, "a number")
	if ok && (value < least || value > most) {
		f.fail(member, "must be %v to %v", least, most)
	}
	return value, ok
}

// whole reads an integer between two bounds. A number such as 100.0 is one.
func (f *fields) whole(member string, least, most int64) (int64, bool) {
	literal, ok := decode[json.Number](f, member, "an integer")
	if !ok {
		return 0, false
	}
	text, err := canon.Number(string(literal))
	if err != nil {
		text = string(literal)
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value < least || value > most {
		f.fail(member, "must be an integer from %d to %d", least, most)
		return 0, false
	}
	return value, true
}

// object reads an object; end must be called on it.
func (f *fields) object(member string) (*fields, bool) {
	raw, ok := f.take(member)
	if !ok {
		return nil, false
	}
	return f.objectOf(member, raw)
}

func (f *fields) objectOf(member string, raw json.RawMessage) (*fields, bool) {
	inner := &fields{path: f.name(member), first: f.first}
	if json.Unmarshal(raw, &inner.members) != nil || inner.members == nil {
		f.fail(member, "must be an object")
		return nil, false
	}
	return inner, true
}

// objects reads a list of objects and tells each to read, which need not call end.
func (f *fields) objects(member string, read func(*fields)) {
	list, _ := decode[[]json.RawMessage](f, member, "a list")
	for i, raw := range list {
		inner, ok := f.objectOf(fmt.Sprintf("%s[%d]", member, i), raw)
		if !ok || f.first.problem != nil {
			return
		}
		read(inner)
		_ = inner.end() // the problem is kept
	}
}

// schema reads a JSON Schema, verbatim: the order of its members matters to models.
func (f *fields) schema(member string) ([]byte, bool) {
	raw, ok := f.take(member)
	if !ok {
		return nil, false
	}
	if !bytes.HasPrefix(raw, []byte("{")) {
		f.fail(member, "must be a JSON Schema, which is an object")
	}
	return raw, true
}
