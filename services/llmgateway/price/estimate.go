package price

// Bytes of text per token, where only the text is known. English has about 4, Russian 4 to 6, code and digits 2 to 3.
const (
	usualBytes = 4
	leastBytes = 2
)

// perMessage is what the framing of a chat message costs in tokens, generously.
const perMessage = 8

// UsualTokens estimates the tokens of so many bytes of text. It is for answers whose usage is missing, and is flagged there.
func UsualTokens(bytes int) int64 { return tokens(bytes, usualBytes) }

// MostTokens bounds the tokens of so many bytes in so many messages. It is for reservations, which must not be too small.
func MostTokens(bytes, messages int) int64 {
	return tokens(bytes, leastBytes) + int64(messages)*perMessage
}

func tokens(bytes, each int) int64 { return int64((bytes + each - 1) / each) }
