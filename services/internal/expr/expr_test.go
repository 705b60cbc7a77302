package expr_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/canon"
	"pawl.internal/services/internal/expr"
)

func newEnv(tb testing.TB) *expr.Env {
	tb.Helper()
	env, err := expr.NewEnv()
	require.NoError(tb, err)
	return env
}

// contract has every kind of value, and names that know its shape.
func contract() (expr.Data, expr.Names) {
	object := func(fields map[string]*expr.Shape) *expr.Shape {
		return &expr.Shape{Kind: expr.Object, Closed: true, Fields: fields}
	}
	names := expr.Names{
		Input: object(map[string]*expr.Shape{
			"text":   {Kind: expr.String},
			"n":      {Kind: expr.Integer},
			"amount": {Kind: expr.Number},
			"maybe":  {Kind: expr.String},
			"any":    {},
			"list":   expr.ListOf(object(map[string]*expr.Shape{"title": {Kind: expr.String}})),
		}),
		Steps: map[string]*expr.Shape{"sections": {}, "fields": expr.ListOf(&expr.Shape{Kind: expr.Object})},
		Item:  &expr.Shape{},
	}
	data := expr.Data{
		Input: json.RawMessage(`{"text":" hi ","n":7,"amount":100,"maybe":null,"any":{"b":1,"a":2.5,"long":12345678901234567890},"list":[{"title":"x"},{"title":"y"}]}`),
		Steps: map[string]json.RawMessage{"sections": json.RawMessage(`{"sections":[1,2,3.5]}`)},
		Item:  json.RawMessage(`{"q":1}`),
		Index: 3,
		Run:   expr.Run{ID: "r1", EntityID: "e1", Labels: map[string]string{"team": "a"}},
	}
	return data, names
}

func TestValue(t *testing.T) {
	env := newEnv(t)
	data, names := contract()
	for source, want := range map[string]string{
		"input.text.trim() != ''":                          `true`,
		"input":                                            `{"amount":100,"any":{"a":2.5,"b":1,"long":12345678901234567890},"list":[{"title":"x"},{"title":"y"}],"maybe":null,"n":7,"text":" hi "}`,
		"steps.sections.output.sections[2]":                `3.5`,
		"item.q + index":                                   `4`,
		"run.id + run.entity_id + run.labels.team":         `"r1e1a"`,
		"has(input.any.b) && !has(input.any.z)":            `true`,
		"input.?any.?z.orValue(null)":                      `null`,
		"input.any.?z":                                     `null`,
		"input.any.?b":                                     `1`,
		"input.maybe == null ? 'none' : input.maybe":       `"none"`,
		"input.list.map(s, s.title).join(', ')":            `"x, y"`,
		"input.list.filter(s, s.title == 'y')":             `[{"title":"y"}]`,
		"{'a': [1, {'b': null}]}":                          `{"a":[1,{"b":null}]}`,
		"lists.range(3)":                                   `[0,1,2]`,
		"'%s has %d'.format([input.text.trim(), input.n])": `"hi has 7"`,
		"timestamp('2024-01-02T03:04:05Z')":                `"2024-01-02T03:04:05Z"`,
		"duration('90s')":                                  `"90s"`,
		"b'abc'":                                           `"YWJj"`,
		"'привет'.size()":                                  `6`,
		`"a\u0000b"`:                                       `"a\u0000b"`,

		// Numbers are JSON's: one type.
		"input.n / 2":                  `3.5`,
		"input.amount * 0.2":           `20`,
		"1 + input.amount":             `101`,
		"0.5 + input.n":                `7.5`,
		"input.n % 2":                  `1`,
		"6 / 3":                        `2`,
		"input.any.a - 1":              `1.5`,
		"-input.amount":                `-100`,
		"input.n < 7.5":                `true`,
		"1.0 == 1 && input.n != 7.5":   `true`,
		"input.n / 7 == 1":             `true`,
		"math.round(7.2) == input.n":   `true`,
		"input.n > 1 ? 0.5 : 1":        `0.5`,
		"[1,2].filter(x, x > 1.5)":     `[2]`,
		"[1, 2.0, 1e2, 1.5]":           `[1,2,100,1.5]`,
		"9007199254740993 + 0":         `9007199254740993`,
		"9223372036854775807":          `9223372036854775807`,
		"18446744073709551615u":        `18446744073709551615`,
		"0.1 + 0.2":                    `0.30000000000000004`,
		"input.any.long":               `12345678901234567890`,
		"input.any.long == input.n":    `false`,
		"[input.any.long, 1]":          `[12345678901234567890,1]`,
		"math.greatest(input.n, 2.5)":  `7`,
		"input.list.sortBy(s, -1)":     `[{"title":"x"},{"title":"y"}]`,
		"input.list[size([1])].title":  `"y"`,
		"input['te' + 'xt'].trim()":    `"hi"`,
		"steps.sections.output.?x.?y":  `null`,
		"[1,2,3].map(x, x*2)":          `[2,4,6]`,
		"{'b':1,'a':2}.map(k, k)":      `["a","b"]`,
		"input.any.map(k, k)":          `["a","b","long"]`,
		"input.any.exists(k, k=='b')":  `true`,
		"input.list.all(s, has(s.ok))": `false`,
	} {
		t.Run(source, func(t *testing.T) {
			if strings.Contains(source, "s.ok") {
				names.Input = nil // the shape would refuse it
			}
			compiled, err := env.Compile(source, names)
			require.NoError(t, err)
			value, err := compiled.Value(expr.NewScope(data))
			require.NoError(t, err)
			got, err := canon.Append(nil, value)
			require.NoError(t, err)
			require.Equal(t, want, string(got))
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	env := newEnv(t)
	_, names := contract()
	for source, want := range map[string]string{
		"input.txt":                  `offset 5: there is no field "txt"; did you mean "text"?`,
		"input['txt']":               `offset 5: there is no field "txt"; did you mean "text"?`,
		"input.?txt.orValue(1)":      `offset 5: there is no field "txt"; did you mean "text"?`,
		"input.zzzzz":                `offset 5: there is no field "zzzzz"; there are ["amount" "any" "list" "maybe" "n" "text"]`,
		"input.list.map(s, s.titel)": `offset 19: there is no field "titel"; did you mean "title"?`,
		"input.list[0].titel":        `offset 13: there is no field "titel"; did you mean "title"?`,
		"input.list.title":           `offset 10: a list has no field "title"; write [0] for its first item, or use map()`,
		"input.text.title":           `offset 10: a text has no field "title"`,
		"steps.fields.output.title":  `offset 19: a list has no field "title"; write [0] for its first item, or use map()`,
		"{'a': 1}.b":                 `offset 8: there is no field "b"; there are ["a"]`,
		"run.idd":                    `offset 3: there is no field "idd"; did you mean "id"?`,
		"input.text + 1":             `offset 11: + does not go with (string, int)`,
		"!input.text":                `offset 0: ! does not go with (string)`,
		"input.n > 5 && input.text":  `offset 20: expected type 'bool' but found 'string'`,
		"input.text == 5":            `offset 11: == does not go with (string, int)`,
		"input.n.trim()":             `offset 12: trim does not go with int.()`,
		"steps":                      `offset 0: write steps.<name>.output for the output of a step`,
		"steps.sections":             `offset 5: write steps.sections.output for the output of a step`,
		"steps.sections.outptu":      `offset 14: a step has no "outptu"; write steps.sections.output`,
		"steps['sections'].output":   `offset 0: write steps.<name>.output for the output of a step`,
		"steps.map(s, s)":            `offset 0: write steps.<name>.output for the output of a step`,
		"steps.sectoins.output":      `offset 5: there is no step "sectoins"; did you mean "sections"?`,
		"sections.output":            `offset 0: there is no "sections" here; write steps.sections.output for the output of that step`,
		"output.x":                   `offset 0: output is known only in review.when and in the rules of a validate step; write steps.<name>.output for the output of a step`,
		"imput.text":                 `offset 0: there is no "imput" here; did you mean "input"?`,
		"now()":                      `offset 3: there is no "now" here; an expression sees input, steps.<name>.output and run`,
		"input.text.trimm()":         `offset 16: there is no "trimm" here; did you mean "trim"?`,
		"1 +":                        `offset 3: the expression ends too early`,
		"\n\n  input.txt":            `offset 9: there is no field "txt"; did you mean "text"?`,
		"'ё' + input.txt":            `offset 12: there is no field "txt"; did you mean "text"?`,
		"google.protobuf.Struct{}":   `offset 22: messages cannot be made here; write a map: {'name': value}`,
		"@sized(1)":                  `offset 0: `,
		`'\ud800'`:                   `offset 0: invalid unicode code point`,
	} {
		t.Run(source, func(t *testing.T) {
			_, err := env.Compile(source, names)
			require.ErrorContains(t, err, want)
			require.ErrorAs(t, err, new(expr.Errors))
		})
	}
}

func TestCompileReportsAllErrors(t *testing.T) {
	_, names := contract()
	_, err := newEnv(t).Compile("input.txt == steps.nope.output || zzz", names)
	require.EqualError(t, err, `offset 5: there is no field "txt"; did you mean "text"?
offset 18: there is no step "nope"
offset 34: there is no "zzz" here; an expression sees input, steps.<name>.output and run`)
}

func TestItemIsKnownOnlyInAFanOut(t *testing.T) {
	_, err := newEnv(t).Compile("item.a + index", expr.Names{})
	require.EqualError(t, err, `offset 0: item is known only in a step with for_each
offset 9: index is known only in a step with for_each`)
}

func TestValueFails(t *testing.T) {
	env := newEnv(t)
	data, _ := contract()
	for source, want := range map[string]string{
		"input.nope.x":                  `${input.nope.x}: there is no field nope`,
		"input.n / 0":                   `${input.n / 0}: division by zero`,
		"input.text + 1":                `${input.text + 1}: wrong types: string and int`,
		"input.any.long + 1":            `${input.any.long + 1}: the number 12345678901234567890 has too many digits to compute with`,
		"9007199254740993 + 0.5":        `${9007199254740993 + 0.5}: the whole number 9007199254740993 is too large to compute with in fractions`,
		"9223372036854775807 + input.n": `${9223372036854775807 + input.n}: integer overflow`,
		"dyn('a') - dyn('b')":           `wrong types: string and string`,
		"dyn(null) + dyn(null)":         `wrong types: null_type and null_type`,
		"dyn([1]) * dyn([1])":           `wrong types: list and list`,
		"dyn('a') / dyn('b')":           `wrong types: string and string`,
		"{input.n: 2}":                  `${{input.n: 2}}: a map with a key of type int has no JSON form: keys must be strings`,
		"type(input.n)":                 `${type(input.n)}: a type has no JSON form`,
		"1e308 * 10":                    `${1e308 * 10}: the number +Inf has no JSON form`,
		"output":                        `${output}: output is not at hand`,
		"steps.fields.output":           `${steps.fields.output}: there is no field fields`,
		"lists.range(2000).map(x, lists.range(2000).map(y, lists.range(2000)))": "a value of the expression is larger than 1000000 elements",
	} {
		t.Run(source, func(t *testing.T) {
			compiled, err := env.Compile(source, expr.Names{Output: &expr.Shape{}, Steps: map[string]*expr.Shape{"fields": {}}})
			require.NoError(t, err)
			_, err = compiled.Value(expr.NewScope(data))
			require.ErrorContains(t, err, want)
			require.ErrorAs(t, err, new(*expr.EvalError))
		})
	}
}

// Each of these would take gigabytes or minutes if it were only charged for afterwards.
func TestNothingGrowsWithoutBound(t *testing.T) {
	env := newEnv(t)
	input, err := json.Marshal(map[string]string{"text": strings.Repeat("a", 1<<20)})
	require.NoError(t, err)
	data := expr.Data{Input: input}
	double := func(macro string) string { return strings.Repeat(macro, 32) }
	for name, source := range map[string]string{
		"replace":         "input.text.replace('a', input.text)",
		"replace n":       "input.text.replace('a', input.text, 100000)",
		"join":            "lists.range(1000).map(x, input.text).join(input.text)",
		"distinct":        "lists.range(1000000).distinct()",
		"text doubled":    "['a']" + double(".map(x, x+x)"),
		"list doubled":    "[[1]]" + double(".map(x, x+x)"),
		"list nested":     "[1]" + double(".map(x, [x, x])"),
		"map nested":      "[1]" + double(".map(x, {'a': x, 'b': x})"),
		"nested, equal":   "[1]" + double(".map(x, [x, x])") + " == [1]" + double(".map(x, [x, x])"),
		"texts collected": "lists.range(10000).map(x, input.text + input.text)",
		"flattened":       "lists.range(10000).map(x, lists.range(100)).flatten()",
		"formatted":       "'%s'.format([lists.range(10000).map(x, input.text)])",
		"range":           "lists.range(100000000)",
		"loops":           "lists.range(100000).all(x, lists.range(100000).all(y, y >= 0))",
		"slow calls":      "lists.range(100000).all(x, input.text.trim() != '')",
		"padded":          "'%.1000000f'.format([input.text.size()])",
	} {
		t.Run(name, func(t *testing.T) {
			compiled, err := env.Compile(source, expr.Names{})
			if err != nil {
				return // refused before it runs
			}
			start := time.Now()
			_, err = compiled.Value(expr.NewScope(data))
			require.Error(t, err)
			require.Less(t, time.Since(start), time.Minute) // half a second on a calm machine
		})
	}
}

func TestOddData(t *testing.T) {
	env := newEnv(t)
	whole, err := env.Compile("input", expr.Names{})
	require.NoError(t, err)
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	for name, tt := range map[string]struct{ input, want, problem string }{
		"NUL":             {input: `"a\u0000b"`, want: `"a\u0000b"`},
		"depth 1000":      {input: deep, want: deep},
		"too deep":        {input: "[" + deep + "]", problem: "nested deeper than 1000"},
		"lone surrogate":  {input: `"\ud800"`, problem: `input: invalid JSON at byte 1: \ud800 is half of a surrogate pair and stands for no character`},
		"duplicate key":   {input: `{"a":1,"a":2}`, problem: `input: invalid JSON at byte 10: the key "a" is given twice`},
		"1e400":           {input: `1e400`, problem: `the number 1e400 is out of range`},
		"-0":              {input: `-0.0`, want: `0`},
		"invalid UTF-8":   {input: "\"\xff\"", problem: "not valid UTF-8"},
		"empty":           {input: ``, problem: "unexpected end of JSON input"},
		"empty key":       {input: `{"":{"":1}}`, want: `{"":{"":1}}`},
		"long number":     {input: `0.1000000000000000000001`, want: `0.1000000000000000000001`},
		"astral":          {input: `"😀"`, want: `"😀"`},
		"HTML unescaped":  {input: `"<&>"`, want: `"<&>"`},
		"line separators": {input: `"\u2028"`, want: "\"\u2028\""},
	} {
		t.Run(name, func(t *testing.T) {
			value, err := whole.Value(expr.NewScope(expr.Data{Input: json.RawMessage(tt.input)}))
			if tt.problem != "" {
				require.ErrorContains(t, err, tt.problem)
				return
			}
			require.NoError(t, err)
			got, err := canon.Append(nil, value)
			require.NoError(t, err)
			require.Equal(t, tt.want, string(got))
		})
	}
}

func TestScopeParsesOnlyWhatIsUsed(t *testing.T) {
	env := newEnv(t)
	scope := expr.NewScope(expr.Data{Input: json.RawMessage(`{"a":1}`), Item: json.RawMessage(`not JSON`), Output: json.RawMessage(`1`)})
	input, err := env.Compile("input.a == 1", expr.Names{})
	require.NoError(t, err)
	item, err := env.Compile("item == 1", expr.Names{Item: &expr.Shape{}})
	require.NoError(t, err)

	_, err = item.Bool(scope)
	require.ErrorContains(t, err, "item: invalid JSON")
	good, err := input.Bool(scope)
	require.NoError(t, err, "an error must not outlive its evaluation")
	require.True(t, good)

	output, err := env.Compile("output", expr.Names{Output: &expr.Shape{}})
	require.NoError(t, err)
	for _, text := range []string{"1", "2"} {
		value, err := output.Value(scope.WithOutput(json.RawMessage(text)))
		require.NoError(t, err)
		require.Equal(t, json.Number(text), value)
	}
}

func TestBool(t *testing.T) {
	env := newEnv(t)
	for source, want := range map[string]string{
		"true":    "",
		"1":       "${1}: must give true or false, and gave a number",
		"null":    "${null}: must give true or false, and gave null",
		"'true'":  "${'true'}: must give true or false, and gave a text",
		"[true]":  "${[true]}: must give true or false, and gave a list",
		"{'a':1}": "${{'a':1}}: must give true or false, and gave an object",
	} {
		compiled, err := env.Compile(source, expr.Names{})
		require.NoError(t, err)
		_, err = compiled.Bool(expr.NewScope(expr.Data{}))
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, want)
	}
}

func TestRefs(t *testing.T) {
	env := newEnv(t)
	_, names := contract()
	for source, want := range map[string]expr.Refs{
		"1":                            {},
		"input.n":                      {Input: true},
		"run.id":                       {Run: true},
		"item.q == index":              {Item: true, Index: true},
		"has(steps.sections.output.x)": {Steps: []string{"sections"}},
		"steps.sections.output.?x":     {Steps: []string{"sections"}},
		"[1].map(input, input + 1)":    {},
		"[{'a': {'output': 1}}].map(steps, steps.a.output)":                                               {},
		"steps.sections.output == steps.fields.output || steps.sections.output.map(x, input.any)[0] == 1": {Input: true, Steps: []string{"fields", "sections"}},
	} {
		compiled, err := env.Compile(source, names)
		require.NoError(t, err, source)
		got := compiled.Refs()
		if len(got.Steps) == 0 {
			got.Steps = nil
		}
		require.Equal(t, want, got, source)
	}
}

func TestShape(t *testing.T) {
	env := newEnv(t)
	_, names := contract()
	for source, want := range map[string]expr.Kind{
		"input.text":                      expr.String,
		"input.list":                      expr.List,
		"input.list[0].title":             expr.String,
		"input.any":                       expr.Unknown,
		"input.n + 1":                     expr.Integer,
		"input.n > 1":                     expr.Bool,
		"has(input.text)":                 expr.Bool,
		"{'a': 1}":                        expr.Object,
		"steps.fields.output[0]":          expr.Object,
		"input.list.map(s, s.title)":      expr.List,
		"input.list.map(s, s.title)[0]":   expr.String,
		"index":                           expr.Integer,
		"steps.sections.output.whatever":  expr.Unknown,
		"input.n > 1 ? input.text : 'x'":  expr.String,
		"input.n > 1 ? input.text : null": expr.Unknown,
	} {
		compiled, err := env.Compile(source, names)
		require.NoError(t, err, source)
		require.Equal(t, want, compiled.Shape().Kind, source)
	}
}
