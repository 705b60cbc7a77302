package config

import (
	"fmt"
	"os"
	"strings"
)

// filePrefix marks a secret that is read from a file: "file:/run/secrets/database-url".
const filePrefix = "file:"

// redacted is what every way of printing a Secret shows.
const redacted = "[secret]"

// Secret is a text that must not be printed. Every way of printing or encoding it shows a placeholder; only Reveal gives
// the text. The zero value is the empty secret.
type Secret struct{ text string }

// NewSecret returns a secret of the text as it is.
func NewSecret(text string) Secret { return Secret{text: text} }

// Reveal returns the secret's text. Pass it on at once; never log it or put it into an error.
func (s Secret) Reveal() string { return s.text }

// IsZero reports whether the secret is empty.
func (s Secret) IsZero() bool { return s.text == "" }

// Format shows the placeholder for every verb of fmt.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// String returns the placeholder, or nothing for the empty secret.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return redacted
}

// MarshalText returns the placeholder; JSON, YAML and slog use it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText takes the text, or with "file:" the content of a file without its last line break.
func (s *Secret) UnmarshalText(text []byte) error {
	path, isFile := strings.CutPrefix(string(text), filePrefix)
	if !isFile {
		s.text = string(text)
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read secret: %w", err)
	}
	s.text = strings.TrimRight(string(content), "\r\n")
	return nil
}
