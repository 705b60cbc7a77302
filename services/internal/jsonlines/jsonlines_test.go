package jsonlines_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/jsonlines"
)

type line struct {
	number  int
	text    string
	tooLong bool
}

func all(r *jsonlines.Reader) (lines []line, err error) {
	for {
		next, err := r.Next()
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
		lines = append(lines, line{next.Number, string(next.Text), next.TooLong})
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200_000)
	for text, want := range map[string][]line{
		"":                         nil,
		"\n\r\n \n":                nil,
		"a":                        {{1, "a", false}},
		"a\n":                      {{1, "a", false}},
		"a\r\nb\r\n":               {{1, "a", false}, {2, "b", false}},
		"\ufeffa\n\nb":             {{1, "a", false}, {3, "b", false}},
		"a\ufeff\n":                {{1, "a\ufeff", false}},
		"\xff\n":                   {{1, "\xff", false}},
		"12345678\n":               {{1, "12345678", false}},
		"12345678\r\nb":            {{1, "12345678", false}, {2, "b", false}},
		"123456789\nb":             {{1, "12345678", true}, {2, "b", false}},
		"1234567890123":            {{1, "12345678", true}},
		long + "\nb\n" + long:      {{1, long[:8], true}, {2, "b", false}, {3, long[:8], true}},
		"a\n" + long + "\r\n\nb\n": {{1, "a", false}, {2, long[:8], true}, {4, "b", false}},
	} {
		for name, source := range map[string]io.Reader{
			"whole": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)),
		} {
			got, err := all(jsonlines.New(source, 8))
			require.NoError(t, err)
			require.Equal(t, want, got, "%.20q %s", text, name)
		}
	}
}

func TestACutIsNoEnd(t *testing.T) {
	t.Parallel()
	cut := io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(io.ErrUnexpectedEOF))
	got, err := all(jsonlines.New(cut, 8))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, []line{{1, "a", false}}, got, "half a line is not a line")
}
