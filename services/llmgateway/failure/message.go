package failure

import (
	"regexp"
	"strconv"
	"strings"

	"pawl.internal/services/internal/redact"
)

const (
	// maxMessage bounds what is passed on of a provider's message, in bytes.
	maxMessage = 300
	// maxCode bounds what is passed on of a provider's code, in bytes.
	maxCode = 64
)

var (
	keyLike  = regexp.MustCompile(`\b(?:sk|pk|rk|xai|gsk|nvapi|AIza)[-_A-Za-z0-9*.]{8,}`)
	codeLike = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.]*$`)
)

// forPeople is the one way by which a text from outside becomes a part of a Message: it is made one line, what looks like a
// key is taken out (the exchange has lost our own before), personal data are masked, because providers repeat prompts, and it
// is cut short.
func forPeople(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	text, _ = redact.Mask(keyLike.ReplaceAllString(text, "[key]"))
	return shorten(text)
}

// describe is what the provider said, in one line of bounded length.
func (s said) describe() string {
	text := "status " + strconv.Itoa(s.status)
	for _, word := range []string{s.code, s.kind} {
		if word != "" {
			text += " " + word
			break
		}
	}
	if s.message != "" {
		text += ": " + s.message
	}
	return forPeople(text)
}

// plainCode is the code, or else the type, if it is a word and not a text.
func (s said) plainCode() string {
	for _, word := range []string{s.code, s.kind} {
		if len(word) <= maxCode && codeLike.MatchString(word) && !keyLike.MatchString(word) {
			return word
		}
	}
	return ""
}

// shorten cuts a text at a rune's border.
func shorten(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + "…"
}
