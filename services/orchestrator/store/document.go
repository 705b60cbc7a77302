package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
)

const (
	// inlineMax is the largest document that is stored beside its row; larger ones go compressed to core.payload.
	inlineMax = 64 << 10
	// depthMax bounds the nesting of a document: PostgreSQL reads json by recursion, on a stack of limited size.
	depthMax = 2000
)

// Document is a JSON text of a user's or model's, checked and made ready to be stored. The zero Document is none.
type Document struct {
	inline []byte // nil when packed
	packed []byte
	size   int
}

// Size returns the document's length in bytes before compression.
func (d Document) Size() int { return d.size }

// stored returns how many bytes go to the database.
func (d Document) stored() int { return len(d.inline) + len(d.packed) }

// IsZero reports whether there is no document.
func (d Document) IsZero() bool { return d.size == 0 }

// Codec makes documents and reads them back. It is safe for concurrent use.
type Codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

// NewCodec returns a Codec.
func NewCodec() (*Codec, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, fmt.Errorf("zstd encoder: %w", err)
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("zstd decoder: %w", err)
	}
	return &Codec{encoder: encoder, decoder: decoder}, nil
}

// Document checks the text and returns it ready to be stored. The error says what is wrong with it, without quoting it.
func (c *Codec) Document(text []byte) (Document, error) {
	if err := checkJSON(text); err != nil {
		return Document{}, err
	}
	if len(text) <= inlineMax {
		return Document{inline: text, size: len(text)}, nil
	}
	return Document{packed: c.Pack(text), size: len(text)}, nil
}

// Pack compresses content for core.payload and core.document.
func (c *Codec) Pack(content []byte) []byte { return c.encoder.EncodeAll(content, nil) }

// Unpack reverses Pack; size is the content's length.
func (c *Codec) Unpack(packed []byte, size int) ([]byte, error) {
	content, err := c.decoder.DecodeAll(packed, make([]byte, 0, size))
	if err != nil {
		return nil, fmt.Errorf("decompress payload: %w", err)
	}
	return content, nil
}

// checkJSON refuses what a column of type json would refuse, and with it the whole group.
func checkJSON(text []byte) error {
	switch {
	case len(text) == 0:
		return errors.New("it is empty, and not JSON")
	case !utf8.Valid(text):
		return errors.New("it is not valid UTF-8")
	case !json.Valid(text):
		return errors.New("it is not valid JSON")
	case depth(text) > depthMax:
		return fmt.Errorf("it is nested deeper than %d levels", depthMax)
	}
	return nil
}

// depth returns how deep arrays and objects are nested in a valid JSON text.
func depth(text []byte) int {
	level, deepest, inString := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			level++
			deepest = max(deepest, level)
		case c == ']' || c == '}':
			level--
		}
	}
	return deepest
}
