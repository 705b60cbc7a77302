package redact_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/redact"
)

// mark is how the corpus says what is to be found.
var mark = regexp.MustCompile(`\{\{([A-Z]+) ([^}]*)\}\}`)

// line is a text of the corpus with what is in it.
type line struct {
	text string
	want []redact.Finding
}

func corpus(tb testing.TB) []line {
	tb.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "corpus.txt"))
	require.NoError(tb, err)
	var lines []line
	for raw := range strings.Lines(string(content)) {
		raw = strings.TrimRight(raw, "\n")
		if raw == "" || strings.HasPrefix(raw, "# ") {
			continue
		}
		l, end := line{}, 0
		for _, at := range mark.FindAllStringSubmatchIndex(raw, -1) {
			l.text += raw[end:at[0]]
			original := raw[at[4]:at[5]]
			l.want = append(l.want, redact.Finding{Kind: redact.Kind(raw[at[2]:at[3]]), Start: len(l.text), End: len(l.text) + len(original)})
			l.text, end = l.text+original, at[1]
		}
		l.text += raw[end:]
		lines = append(lines, l)
	}
	return lines
}

func TestCorpus(t *testing.T) {
	t.Parallel()
	seen := map[redact.Kind]bool{}
	for _, l := range corpus(t) {
		require.Equal(t, marked(l.text, l.want), marked(l.text, redact.Find(l.text)))
		require.Equal(t, l.want, redact.Find(l.text))
		for _, f := range l.want {
			seen[f.Kind] = true
		}
	}
	for _, k := range redact.Kinds() {
		require.True(t, seen[k], "the corpus has no %s", k)
	}
}

func marked(text string, found []redact.Finding) string {
	var b strings.Builder
	end := 0
	for _, f := range found {
		b.WriteString(text[end:f.Start] + "{{" + string(f.Kind) + " " + text[f.Start:f.End] + "}}")
		end = f.End
	}
	return b.String() + text[end:]
}

// The contracts of the examples keep everything that a reader extracts from them.
func TestContractsAreNotMangled(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../../examples/contracts/*.[tm]*")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		if strings.HasSuffix(path, ".json") {
			continue
		}
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		_, found := redact.Mask(string(content))
		for _, f := range found {
			require.Contains(t, []redact.Kind{redact.Email, redact.Phone, redact.INN}, f.Kind, "%s: %s", path, content[f.Start:f.End])
			if f.Kind == redact.Phone {
				require.True(t, strings.HasPrefix(string(content[f.Start:f.End]), "+"), "%s: %s", path, content[f.Start:f.End])
			}
		}
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	masked, found := redact.Mask("Иван, a@b.ru, +7 916 123-45-67\xff")
	require.Equal(t, "Иван, [EMAIL], [PHONE]\ufffd", masked)
	require.Equal(t, []redact.Finding{{Kind: redact.Email, Start: 10, End: 16}, {Kind: redact.Phone, Start: 18, End: 34}}, found)
	again, found := redact.Mask(masked)
	require.Equal(t, masked, again)
	require.Empty(t, found)
}

func TestMaskJSON(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]string{
		`{"a@b.ru": "a@b.ru",  "n": 89161234567, "list": ["x", "\u0061@b.ru\n"]}`: `{"a@b.ru": "[EMAIL]",  "n": 89161234567, "list": ["x", "[EMAIL]\n"]}`,
		`"say \"sk-very-secret-0123456789\" <b>"`:                                 `"say \"[KEY]\" <b>"`,
		`{"a" : {"b":"\u00e9"}}`:                                                  `{"a" : {"b":"\u00e9"}}`,
		` [] `:                                                                    ` [] `,
	} {
		got, err := redact.MaskJSON([]byte(document))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	_, err := redact.MaskJSON([]byte(`{"a@b.ru"`))
	require.Error(t, err)
}

func TestNumberingAndUnmask(t *testing.T) {
	t.Parallel()
	n := redact.NewNumbering("a person typed [EMAIL_2]")
	first := n.Mask("a@b.ru, c@d.ru, a@b.ru, +79161234567")
	require.Equal(t, "[EMAIL_1], [EMAIL_3], [EMAIL_1], [PHONE_1]", first)
	document, err := n.MaskJSON([]byte(`{"to":"c@d.ru","cc":["e@f.ru","[EMAIL_4]"]}`))
	require.NoError(t, err)
	require.Equal(t, `{"to":"[EMAIL_3]","cc":["[EMAIL_5]","[EMAIL_4]"]}`, string(document))
	originals := n.Originals()
	require.Equal(t, map[string]string{
		"[EMAIL_1]": "a@b.ru", "[EMAIL_3]": "c@d.ru", "[PHONE_1]": "+79161234567", "[EMAIL_5]": "e@f.ru",
	}, originals)
	require.Equal(t, "a@b.ru, c@d.ru, a@b.ru, +79161234567", redact.Unmask(first, originals))
	require.Equal(t, "[EMAIL_2] [EMAIL_9] [EMAIL] a@b.ru", redact.Unmask("[EMAIL_2] [EMAIL_9] [EMAIL] [EMAIL_1]", originals))
}

func FuzzMask(f *testing.F) {
	for _, l := range corpus(f) {
		f.Add(l.text)
	}
	f.Add("\xff[EMAIL]a@b.ru[[PHONE]89161234567+79161234567")
	f.Fuzz(func(t *testing.T, text string) {
		end := 0
		for _, found := range redact.Find(text) {
			require.True(t, end <= found.Start && found.Start < found.End && found.End <= len(text), "%q: %v", text, found)
			end = found.End
		}
		masked, _ := redact.Mask(text)
		require.True(t, utf8.ValidString(masked))
		again, found := redact.Mask(masked)
		require.Equal(t, masked, again, "of %q", text)
		require.Empty(t, found)
		n := redact.NewNumbering(text)
		require.Equal(t, strings.ToValidUTF8(text, "\ufffd"), redact.Unmask(n.Mask(text), n.Originals()))
	})
}

// Texts that make a rule look at every place again and again would show here: the time must grow with the length.
func BenchmarkMask(b *testing.B) {
	content, err := os.ReadFile("../../../examples/contracts/02-ru-lease.txt")
	require.NoError(b, err)
	for name, text := range map[string]string{
		"contract": string(content), "letters": strings.Repeat("a", 1<<16), "digits": strings.Repeat("1 ", 1<<15),
		"ats": strings.Repeat("a.@", 1<<14), "emails": strings.Repeat("a@b.ru,", 1<<13), "colons": strings.Repeat("a:", 1<<15),
		"passports": strings.Repeat("паспорт ", 1<<12), "prefixes": strings.Repeat("sk-eyJ ", 1<<13),
		"brackets": strings.Repeat("[EMAIL", 1<<13),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				redact.Mask(text)
			}
		})
	}
}
