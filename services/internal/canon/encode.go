package canon

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// JSON gives the canonical form of a JSON text. It fails as [Decode] does.
func JSON(raw []byte) ([]byte, error) {
	value, err := Decode(raw)
	if err != nil {
		return nil, err
	}
	return Append(make([]byte, 0, len(raw)), value)
}

// Append appends the canonical form of a value made of nil, bool, string, [json.Number], []any and map[string]any.
func Append(dst []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return fmt.Append(dst, v), nil
	case json.Number:
		text, err := Number(string(v))
		return append(dst, text...), err
	case string:
		return AppendString(dst, v)
	case []any:
		return appendArray(dst, v)
	case map[string]any:
		return appendObject(dst, v)
	default:
		return nil, fmt.Errorf("a %T is not a JSON value", value)
	}
}

func appendArray(dst []byte, list []any) ([]byte, error) {
	dst = append(dst, '[')
	for i, item := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = Append(dst, item); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func appendObject(dst []byte, object map[string]any) ([]byte, error) {
	dst = append(dst, '{')
	for i, key := range slices.SortedFunc(maps.Keys(object), CompareKeys) {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = AppendString(dst, key); err != nil {
			return nil, err
		}
		if dst, err = Append(append(dst, ':'), object[key]); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// AppendString appends a string in canonical form; it must be valid UTF-8.
func AppendString(dst []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, fmt.Errorf("a string of %d bytes is not valid UTF-8", len(s))
	}
	dst = append(dst, '"')
	rest := 0
	for i := range len(s) {
		if s[i] >= ' ' && s[i] != '"' && s[i] != '\\' {
			continue
		}
		dst = append(dst, s[rest:i]...)
		dst = appendEscape(dst, s[i])
		rest = i + 1
	}
	return append(append(dst, s[rest:]...), '"'), nil
}

func appendEscape(dst []byte, c byte) []byte {
	const plain, letters = "\b\t\n\f\r\"\\", `btnfr"\`
	if i := strings.IndexByte(plain, c); i >= 0 {
		return append(dst, '\\', letters[i])
	}
	return fmt.Appendf(dst, `\u%04x`, c)
}

// CompareKeys orders object keys as RFC 8785 does: by UTF-16 code units.
func CompareKeys(a, b string) int {
	for a != "" && b != "" {
		ra, sizeA := utf8.DecodeRuneInString(a)
		rb, sizeB := utf8.DecodeRuneInString(b)
		if ra != rb {
			return utf16Order(ra) - utf16Order(rb)
		}
		a, b = a[sizeA:], b[sizeB:]
	}
	return len(a) - len(b)
}

// utf16Order maps runes to numbers in the order of their UTF-16 forms: characters beyond the basic plane are written as
// surrogates, which come before U+E000 to U+FFFF.
func utf16Order(r rune) int {
	if 0xE000 <= r && r <= 0xFFFF {
		return int(r) + utf8.MaxRune
	}
	return int(r)
}
