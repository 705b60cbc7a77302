package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"pawl.internal/services/internal/canon"
)

var errNoDocument = errors.New("the text is no JSON document")

// MaskJSON masks the strings of a JSON document. Names of members stay, and everything else does byte for byte: order, white
// space, numbers. The error is for a text that is no JSON document.
func MaskJSON(document []byte) ([]byte, error) {
	return mapStrings(document, func(s string) string {
		masked, _ := Mask(s)
		return masked
	})
}

// MaskJSON is Mask for the strings of a JSON document, names of members apart.
func (n *Numbering) MaskJSON(document []byte) ([]byte, error) {
	// Placeholders that stand in it must be known before the first one is given out.
	if _, err := mapStrings(document, func(s string) string {
		n.avoid(s)
		return s
	}); err != nil {
		return nil, err
	}
	return mapStrings(document, n.Mask)
}

// mapStrings replaces the strings of a document that are no names of members.
func mapStrings(document []byte, change func(string) string) ([]byte, error) {
	if !json.Valid(document) {
		return nil, errNoDocument
	}
	out := make([]byte, 0, len(document))
	for rest := document; ; {
		at := bytes.IndexByte(rest, '"')
		if at < 0 {
			return append(out, rest...), nil
		}
		out, rest = append(out, rest[:at]...), rest[at:]
		end := literalEnd(rest)
		literal, after := rest[:end], rest[end:]
		rest = after
		if isName(after) {
			out = append(out, literal...)
			continue
		}
		var err error
		if out, err = appendChanged(out, literal, change); err != nil {
			return nil, err
		}
	}
}

// literalEnd returns where the string literal ends with which a text begins.
func literalEnd(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// isName reports whether a string is the name of a member, by what follows it.
func isName(after []byte) bool {
	after = bytes.TrimLeft(after, " \t\r\n")
	return len(after) > 0 && after[0] == ':'
}

// appendChanged appends a literal as it is, or the literal of what its text is changed to.
func appendChanged(out, literal []byte, change func(string) string) ([]byte, error) {
	var text string
	if err := json.Unmarshal(literal, &text); err != nil {
		return nil, fmt.Errorf("read string: %w", err)
	}
	changed := change(text)
	if changed == text {
		return append(out, literal...), nil
	}
	return canon.AppendString(out, changed)
}
