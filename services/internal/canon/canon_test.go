package canon_test

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pawl.internal/services/internal/canon"
)

func TestJSON(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"scalars":                    {" [ null , true, false, \"x\" ] ", `[null,true,false,"x"]`},
		"empty":                      {`{"a":[],"b":{}}`, `{"a":[],"b":{}}`},
		"keys sorted":                {`{"b":1,"a":{"d":1,"c":2},"":0}`, `{"":0,"a":{"c":2,"d":1},"b":1}`},
		"key order of RFC 8785":      {`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`, "{\"\\r\":2,\"1\":4,\"\u0080\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\ufb33\":3}"},
		"shortest escapes":           {`"\u0041\/\u000a\u001f\"\\\u2028\u007f<&>"`, "\"A/\\n\\u001f\\\"\\\\\u2028\u007f<&>\""},
		"NUL stays":                  {`"a\u0000b"`, `"a\u0000b"`},
		"surrogate pair":             {`"\ud83d\ude00"`, `"😀"`},
		"backslash before u":         {`"\\ud83d"`, `"\\ud83d"`},
		"integers":                   {`[0,-0,7,-7,100,1.0,1e2,12E+1]`, `[0,0,7,-7,100,1,100,120]`},
		"integers beyond 2^53":       {`[9007199254740993,-9223372036854775808,40702810900000000001]`, `[9007199254740993,-9223372036854775808,40702810900000000001]`},
		"fractions":                  {`[0.5,1.10,-0.000001,0.0000001,1e-7,0.0]`, `[0.5,1.1,-0.000001,1e-7,1e-7,0]`},
		"large":                      {`[1e20,1e21,123e20,1.7976931348623157e308]`, `[100000000000000000000,1e+21,1.23e+22,1.7976931348623157e+308]`},
		"small":                      {`[5e-324,1.5e-9]`, `[5e-324,1.5e-9]`},
		"more digits than a float64": {`0.12345678901234567890`, `0.1234567890123456789`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := canon.JSON([]byte(tt.in))
			require.NoError(t, err)
			require.Equal(t, tt.want, string(got))
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"nothing":                 {"", "invalid JSON at byte 0: unexpected end of JSON input"},
		"bad syntax":              {`{"a":}`, "invalid JSON at byte 5: invalid character '}' looking for beginning of value"},
		"two values":              {`1 2`, "invalid JSON at byte 2: invalid character '2' after top-level value"},
		"raw NUL":                 {"\"a\x00\"", `invalid JSON at byte 2: invalid character '\x00' in string literal`},
		"invalid UTF-8":           {"\"a\xff\"", "invalid JSON at byte 2: the text is not valid UTF-8"},
		"lone high surrogate":     {`["\ud800"]`, `invalid JSON at byte 2: \ud800 is half of a surrogate pair and stands for no character`},
		"lone low surrogate":      {`["x\udc00"]`, `invalid JSON at byte 3: \udc00 is half of a surrogate pair and stands for no character`},
		"high without low":        {`["\ud800\u0041"]`, `invalid JSON at byte 2: \ud800 is half of a surrogate pair and stands for no character`},
		"surrogate at the end":    {`"\ud83d"`, `invalid JSON at byte 1: \ud83d is half of a surrogate pair and stands for no character`},
		"key twice":               {`{"a":{"k":1,"k":2}}`, `invalid JSON at /a: the key "k" is given twice`},
		"key twice, by an escape": {`[{"k":1,"\u006b":2}]`, `invalid JSON at /0: the key "k" is given twice`},
		"number too large":        {`{"a/b":[1e400]}`, `invalid JSON at /a~1b/0: the number 1e400 is out of range`},
		"number too small":        {`[1e-400]`, `invalid JSON at /0: the number 1e-400 is out of range`},
		"absurd exponent":         {`[1e-99999999999999999999]`, `invalid JSON at /0: the number 1e-99999999999999999999 is out of range`},
		"too many digits":         {"[0." + strings.Repeat("1", 500) + "]", "invalid JSON at /0: the number 0.11111111111111111111111111111111111111… has more than 400 digits"},
		"too deep":                {strings.Repeat("[", canon.MaxDepth+1) + strings.Repeat("]", canon.MaxDepth+1), "nested deeper than 1000"},
		"far too deep":            {strings.Repeat("[", 20000) + strings.Repeat("]", 20000), "exceeded max depth"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := canon.Decode([]byte(tt.in))
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestDecodeAcceptsDepth1000(t *testing.T) {
	text := strings.Repeat("[", canon.MaxDepth) + strings.Repeat("]", canon.MaxDepth)
	got, err := canon.JSON([]byte(text))
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

func TestAppendRefusesWhatIsNoJSON(t *testing.T) {
	for _, value := range []any{1, []any{struct{}{}}, map[string]any{"a": 1.5}, "\xff", map[string]any{"\xff": nil}, json.Number("NaN"), json.Number("x")} {
		_, err := canon.Append(nil, value)
		require.Error(t, err, "%#v", value)
	}
}

// encoding/json writes a float64 as JavaScript does, but for the sign of zero.
func TestNumberWritesFloatsAsJavaScript(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
		if math.IsNaN(f) || math.IsInf(f, 0) || f == 0 {
			return
		}
		want, err := json.Marshal(f)
		require.NoError(t, err)
		for _, format := range []byte("efg") {
			got, err := canon.Number(strconv.FormatFloat(f, format, -1, 64))
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"b":[1,2.50,{"a":null}],"a":"\u00e9\ud83d\ude00"}`, `[1e400,-0.0,1E-7]`, `"\ud800"`, `{"a":1,"a":2}`, "\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		canonical, err := canon.JSON(raw)
		if err != nil {
			return
		}
		again, err := canon.JSON(canonical)
		require.NoError(t, err)
		require.Equal(t, string(canonical), string(again), "canonical form is not stable")

		var before, after any
		require.NoError(t, json.Unmarshal(raw, &before))
		require.NoError(t, json.Unmarshal(canonical, &after))
		require.Equal(t, before, after, "the value changed")
	})
}
