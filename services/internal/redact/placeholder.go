package redact

import "strings"

// placeholders returns where a text has placeholders, numbered or not.
func placeholders(text string) []span {
	var found []span
	for i := 0; ; {
		at := strings.IndexByte(text[i:], '[')
		if at < 0 {
			return found
		}
		i += at
		if n := placeholder(text[i:]); n > 0 {
			found = append(found, span{i, i + n})
			i += n
			continue
		}
		i++
	}
}

// placeholder returns the length of the placeholder with which the text begins; 0 if it begins with none.
func placeholder(text string) int {
	const longest = len("[CREDENTIALS_123456789]")
	end := strings.IndexByte(text[:min(len(text), longest)], ']')
	if end < 0 {
		return 0
	}
	word, number, numbered := strings.Cut(text[1:end], "_")
	if numbered && (number == "" || strings.Trim(number, "0123456789") != "") {
		return 0
	}
	for _, k := range Kinds() {
		if string(k) == word {
			return end + 1
		}
	}
	return 0
}
