package apijson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	"pawl.internal/services/internal/canon"
	"pawl.internal/services/internal/fault"
)

// value is one JSON value within a text, without the white space around it.
type value struct {
	text   []byte
	offset int // in the whole text, in bytes
}

type member struct {
	key   string
	value value
}

// kind is what a value is, by its first byte.
type kind int

const (
	null kind = iota
	boolean
	numeric
	quoted
	array
	object
)

func (v value) kind() kind {
	switch v.text[0] {
	case 'n':
		return null
	case 't', 'f':
		return boolean
	case '"':
		return quoted
	case '[':
		return array
	case '{':
		return object
	default:
		return numeric
	}
}

// longest bounds how much of a value an error repeats.
const longest = 40

// describe names a value in an error: short ones are shown.
func (v value) describe() string {
	switch v.kind() {
	case array:
		return "a list"
	case object:
		return "an object"
	case quoted:
		if len(v.text) > longest {
			return "a long text"
		}
	case null, boolean, numeric:
		if len(v.text) > longest {
			return "a long number"
		}
	}
	return string(v.text)
}

// members splits an object. The text is known to be JSON, so that reading cannot fail.
func members(v value) []member {
	var list []member
	dec := json.NewDecoder(bytes.NewReader(v.text))
	_, _ = dec.Token()
	for dec.More() {
		token, _ := dec.Token()
		key, isKey := token.(string)
		item, ok := next(dec, v.offset)
		if !isKey || !ok {
			break
		}
		list = append(list, member{key: key, value: item})
	}
	return list
}

// elements splits an array. The text is known to be JSON, so that reading cannot fail.
func elements(v value) []value {
	var list []value
	dec := json.NewDecoder(bytes.NewReader(v.text))
	_, _ = dec.Token()
	for dec.More() {
		item, ok := next(dec, v.offset)
		if !ok {
			break
		}
		list = append(list, item)
	}
	return list
}

// next reads the value at which dec stands; base is the offset of dec's text in the whole.
func next(dec *json.Decoder, base int) (value, bool) {
	var raw json.RawMessage
	err := dec.Decode(&raw)
	return value{text: raw, offset: base + int(dec.InputOffset()) - len(raw)}, err == nil
}

// trim cuts the white space around the text's one value.
func trim(v value) value {
	const space = " \t\r\n"
	left := bytes.TrimLeft(v.text, space)
	return value{text: bytes.TrimRight(left, space), offset: v.offset + len(v.text) - len(left)}
}

// position gives a place in the text as people count: from 1, columns in characters.
func position(raw []byte, offset int) string {
	before := raw[:min(offset, len(raw))]
	line := 1 + bytes.Count(before, []byte{'\n'})
	column := 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return fmt.Sprintf("line %d, column %d", line, column)
}

func malformed(raw []byte, offset int, message string) error {
	return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_MALFORMED_BODY, fault.Violation{
		Field:   position(raw, offset),
		Message: fmt.Sprintf("%s (byte %d)", message, offset),
	})
}

// syntaxOffset gives the place at which reading went wrong: that of the byte that could not be, or the end.
func syntaxOffset(raw []byte, err error) int {
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	if !ok || syntax.Offset > int64(len(raw)) {
		return len(raw)
	}
	if syntax.Error() == "unexpected end of JSON input" {
		return len(raw)
	}
	return max(int(syntax.Offset)-1, 0)
}

// invalidUTF8 gives the offset of the first byte that begins no character, or -1.
func invalidUTF8(raw []byte) int {
	for i := 0; i < len(raw); {
		r, size := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return -1
}

// tooDeep gives the offset of the first bracket beyond canon.MaxDepth, or -1. The text is known to be JSON.
func tooDeep(raw []byte) int {
	depth, inText := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '[' || c == '{':
			if depth++; depth > canon.MaxDepth {
				return i
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return -1
}
