package canon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may be nested.
const MaxDepth = 1000

// Error says why a text is not acceptable JSON.
type Error struct {
	// Offset is the position in the text, in bytes from 0.
	Offset int
	// Path is the JSON Pointer of the value concerned; empty at the top, and for errors of syntax.
	Path string
	// Message says what is wrong, without the position.
	Message string
}

// Error gives the message with the path, or with the offset where there is no path.
func (e *Error) Error() string {
	if e.Path != "" {
		return "invalid JSON at " + e.Path + ": " + e.Message
	}
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Message)
}

// Decode reads one JSON value into nil, bool, string, [json.Number], []any or map[string]any. Numbers are in canonical
// form. It refuses what other readers would quietly change: a key given twice, a lone surrogate, invalid UTF-8, a number
// outside the range of a float64; and anything nested deeper than [MaxDepth]. Errors are of type *[Error].
func Decode(raw []byte) (any, error) {
	if err := Check(raw); err != nil {
		return nil, err
	}
	d := decoder{json.NewDecoder(bytes.NewReader(raw))}
	d.UseNumber()
	return d.value("", 0)
}

// Check finds what is wrong with a text of JSON as far as no values need be built for it: its syntax and its characters.
// Errors are of type *[Error].
func Check(raw []byte) error {
	var ignored json.RawMessage
	if err := json.Unmarshal(raw, &ignored); err != nil {
		offset := len(raw)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && !strings.Contains(err.Error(), "unexpected end") {
			offset = max(int(syntax.Offset)-1, 0)
		}
		return &Error{Offset: offset, Message: err.Error()}
	}
	if !utf8.Valid(raw) {
		return &Error{Offset: invalidUTF8(raw), Message: "the text is not valid UTF-8"}
	}
	if at := loneSurrogate(raw); at >= 0 {
		return &Error{Offset: at, Message: fmt.Sprintf("%s is half of a surrogate pair and stands for no character", raw[at:at+6])}
	}
	return nil
}

// invalidUTF8 gives the offset of the first byte that begins no character.
func invalidUTF8(raw []byte) int {
	for i := 0; i < len(raw); {
		r, size := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return len(raw)
}

// loneSurrogate gives the offset of the first \uXXXX that is half of a pair, or -1. The text must be valid JSON.
func loneSurrogate(raw []byte) int {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		unit, ok := escapedUnit(raw[i:])
		switch {
		case !ok:
			i++ // the escaped character, which may be a backslash
		case !utf16.IsSurrogate(unit):
			i += 5
		default:
			second, _ := escapedUnit(raw[i+6:])
			if utf16.DecodeRune(unit, second) == utf8.RuneError {
				return i
			}
			i += 11
		}
	}
	return -1
}

// escapedUnit reads the \uXXXX that text begins with.
func escapedUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 32)
	return rune(unit), err == nil
}

type decoder struct{ *json.Decoder }

func (d decoder) value(path string, depth int) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, d.fail(path, err.Error())
	}
	switch token := token.(type) {
	case json.Delim:
		if depth == MaxDepth {
			return nil, d.fail(path, fmt.Sprintf("nested deeper than %d", MaxDepth))
		}
		if token == '[' {
			return d.array(path, depth)
		}
		return d.object(path, depth)
	case json.Number:
		text, err := Number(string(token))
		if err != nil {
			return nil, d.fail(path, err.Error())
		}
		return json.Number(text), nil
	default:
		return token, nil
	}
}

func (d decoder) array(path string, depth int) (any, error) {
	list := []any{}
	for d.More() {
		item, err := d.value(path+"/"+strconv.Itoa(len(list)), depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, d.end(path)
}

func (d decoder) object(path string, depth int) (any, error) {
	object := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, d.fail(path, err.Error())
		}
		key, _ := token.(string)
		if _, twice := object[key]; twice {
			return nil, d.fail(path, fmt.Sprintf("the key %q is given twice", key))
		}
		if object[key], err = d.value(path+"/"+EscapePointer(key), depth+1); err != nil {
			return nil, err
		}
	}
	return object, d.end(path)
}

// end reads the closing bracket.
func (d decoder) end(path string) error {
	if _, err := d.Token(); err != nil {
		return d.fail(path, err.Error())
	}
	return nil
}

func (d decoder) fail(path, message string) *Error {
	return &Error{Offset: int(d.InputOffset()), Path: path, Message: message}
}

// EscapePointer escapes a key for use in a JSON Pointer (RFC 6901).
func EscapePointer(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
