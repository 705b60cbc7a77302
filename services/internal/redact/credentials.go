package redact

import "strings"

// longestCredentials bounds name and password in a URL, in bytes.
const longestCredentials = 512

// findCredentials finds scheme://name:password@host: of that, name and password.
func findCredentials(found []Finding, piece string) []Finding {
	const mark = "://"
	for i := 0; ; {
		at := strings.Index(piece[i:], mark)
		if at < 0 {
			return found
		}
		start := i + at + len(mark)
		i = start
		if at == 0 || !isLetterOrDigit(piece[start-len(mark)-1]) {
			continue
		}
		authority := piece[start:min(len(piece), start+longestCredentials)]
		if end := strings.IndexAny(authority, "/?# \t\r\n\"'<>`"); end >= 0 {
			authority = authority[:end]
		}
		end := strings.LastIndexByte(authority, '@')
		if end <= 0 || end == len(authority)-1 {
			continue
		}
		if _, password, ok := strings.Cut(authority[:end], ":"); ok && password != "" {
			found = append(found, Finding{Credentials, start, start + end})
			i = start + end
		}
	}
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isUpper(c byte) bool  { return c >= 'A' && c <= 'Z' }
func isLetter(c byte) bool { return isUpper(c) || c >= 'a' && c <= 'z' }

func isLetterOrDigit(c byte) bool { return isLetter(c) || isDigit(c) }
