package simulated

import "unicode/utf8"

// bytesPerToken is the estimate that all token counts rest on. Real tokenizers take about four bytes of English for a token
// and more of other scripts; what matters here is that the count is the same everywhere and every time.
const bytesPerToken = 4

// tokens returns the number of tokens of a text.
func tokens(s string) int { return (len(s) + bytesPerToken - 1) / bytesPerToken }

// firstTokens returns the beginning of a text that is at most n tokens long, in whole characters.
func firstTokens(s string, n int) string {
	end := min(len(s), n*bytesPerToken)
	for end > 0 && end < len(s) && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
