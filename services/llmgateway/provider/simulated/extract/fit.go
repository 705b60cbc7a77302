package extract

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// fit returns v as a value that n allows, written as JSON. What can be converted without loss is.
func fit(n *node, v any) ([]byte, bool) {
	if len(n.choices) > 0 {
		return fitChoice(n, v)
	}
	switch n.kind {
	case "string":
		return fitString(n, v)
	case "number", "integer":
		return fitNumber(n, v)
	case "boolean":
		b, ok := v.(bool)
		return encode(b), ok
	case "":
		return encode(v), true
	}
	return nil, false
}

func fitChoice(n *node, v any) ([]byte, bool) {
	for _, choice := range n.choices {
		if choice != nil && strings.EqualFold(plain(choice), plain(v)) {
			return encode(choice), true
		}
	}
	return nil, false
}

// plain returns a scalar as text.
func plain(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

func fitString(n *node, v any) ([]byte, bool) {
	s := clip(plain(v), n.maxLength)
	ok := s != "" && utf8.RuneCountInString(s) >= n.minLength && (n.pattern == nil || n.pattern.MatchString(s))
	if n.format == "date" {
		ok = ok && len(dates(s)) == 1 && dates(s)[0].iso == s
	}
	return encode(s), ok
}

func fitNumber(n *node, v any) ([]byte, bool) {
	digits := plain(v)
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) || n.minimum != nil && f < *n.minimum || n.maximum != nil && f > *n.maximum {
		return nil, false
	}
	if n.kind == "integer" {
		if f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return nil, false
		}
		return strconv.AppendFloat(nil, f, 'f', 0, 64), true
	}
	if !json.Valid([]byte(digits)) {
		return nil, false
	}
	return []byte(digits), true
}
