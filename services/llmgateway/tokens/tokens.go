// Package tokens estimates how many tokens a text has, for answers whose provider did not count. It cuts the text as one
// widespread vocabulary does; other models' counts differ by some percent, so that its figures are always marked as estimates.
package tokens

import (
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer"

	"pawl.internal/services/llmgateway/price"
)

// sample is how many bytes of a text are cut at most. What is longer is counted in proportion: cutting takes about a second of
// processor time for a million bytes.
const sample = 32 << 10

// Counter counts tokens. The zero value is ready; it reads the vocabulary, of about 6 MiB, when it first counts. It is safe for
// concurrent use.
type Counter struct {
	once  sync.Once
	codec tokenizer.Codec // nil if it could not be read
}

// Count estimates the tokens of texts, one after the other.
func (c *Counter) Count(texts ...string) int64 {
	c.once.Do(func() {
		// The vocabulary is part of the program; should it not be readable, bytes are counted.
		c.codec, _ = tokenizer.Get(tokenizer.O200kBase)
	})
	var sum int64
	for _, text := range texts {
		sum += c.count(text)
	}
	return sum
}

func (c *Counter) count(text string) int64 {
	part := head(text)
	if part == "" || c.codec == nil {
		return price.UsualTokens(len(text))
	}
	n, err := c.codec.Count(part)
	if err != nil {
		return price.UsualTokens(len(text))
	}
	return (int64(n)*int64(len(text)) + int64(len(part)) - 1) / int64(len(part))
}

// head is the beginning of a text that is cut, in whole characters.
func head(text string) string {
	if len(text) <= sample {
		return text
	}
	end := sample
	for end > sample-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
