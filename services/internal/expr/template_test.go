package expr_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pawl.internal/services/internal/expr"
)

func TestTemplateValue(t *testing.T) {
	env := newEnv(t)
	data, names := contract()
	for source, want := range map[string]any{
		"":                               "",
		"plain":                          "plain",
		"${input.n}":                     json.Number("7"),
		"${input.maybe}":                 nil,
		"${input.n > 1}":                 true,
		" ${input.n}":                    " 7",
		"${input.n}\n":                   "7\n",
		"${input.n}${input.n}":           "77",
		"a ${input.text}b":               "a  hi b",
		"n=${input.n} m=${input.maybe}":  "n=7 m=null",
		"list: ${input.list}":            `list: [{"title":"x"},{"title":"y"}]`,
		"$${input.n}":                    "${input.n}",
		"$$${input.n}":                   "$${input.n}",
		"$$$${input.n}":                  "$$${input.n}",
		"$ {x} $5 } {":                   "$ {x} $5 } {",
		"a$":                             "a$",
		"${'}'}":                         "}",
		`${"}\"}"}`:                      `}"}`,
		`${r'\'}`:                        `\`,
		`${'''}'}'''}`:                   `}'}`,
		"${{'a': {'b': 1}}.a}":           map[string]any{"b": json.Number("1")},
		"${ // }\n 1 }":                  json.Number("1"),
		"${input.list.map(s, s.title)}!": `["x","y"]!`,
	} {
		t.Run(source, func(t *testing.T) {
			template, err := env.ParseTemplate(source, names)
			require.NoError(t, err)
			got, err := template.Value(expr.NewScope(data))
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

func TestTemplateRefuses(t *testing.T) {
	for source, want := range map[string]string{
		"a ${input.n":                 "offset 2: ${ has no closing }; write $${ for a literal ${",
		"${'}":                        "offset 0: ${ has no closing }; write $${ for a literal ${",
		"${{'a': 1}":                  "offset 0: ${ has no closing }; write $${ for a literal ${",
		"${}":                         "offset 0: ${} holds no expression",
		"a ${ \n }":                   "offset 2: ${} holds no expression",
		"é ${inputt} b ${1 +} c ${":   "offset 5: there is no \"inputt\" here; did you mean \"input\"?\noffset 20: the expression ends too early\noffset 24: ${ has no closing }",
		"${inputt} and ${steps}":      "offset 16: write steps.<name>.output for the output of a step",
		"${[1, 2} and ${input.text}":  "offset",
		"${$${input.n}}":              "offset",
		"${'a' + ${input.n}}":         "offset",
		"${input.text.trim( != '' }x": "offset",
	} {
		_, err := newEnv(t).ParseTemplate(source, expr.Names{})
		require.ErrorContains(t, err, want, source)
	}
}

func TestTemplateRefs(t *testing.T) {
	_, names := contract()
	template, err := newEnv(t).ParseTemplate("${steps.sections.output} ${input.n} ${steps.fields.output} ${item}", names)
	require.NoError(t, err)
	require.Equal(t, expr.Refs{Input: true, Item: true, Steps: []string{"fields", "sections"}}, template.Refs())
}

// Paying once rests on this: every attempt of a step renders the same bytes. Go walks its maps in random order, so a
// place where that showed would differ within a thousand tries.
func TestRenderingsHaveOneDigest(t *testing.T) {
	env := newEnv(t)
	object := map[string]any{}
	for i := range 12 {
		object[fmt.Sprintf("key%d", i)] = map[string]any{"n": i, "list": []int{3, 1, 2}}
	}
	labels := map[string]string{"z": "1", "a": "2", "m": "3"}
	input, err := json.Marshal(object)
	require.NoError(t, err)
	template, err := env.ParseTemplate(strings.Join([]string{
		"${input}", "${input.map(k, k)}", "${input.map(k, input[k].n)}", "${input.filter(k, input[k].n > 5)}",
		"${input.transformMap(k, v, v.n + 1)}", "${input.transformList(k, v, k)}", "${input.transformMap(k, v, v).map(k, k)}",
		"${{'b': 1, 'a': 2, 'c': 3}.map(k, k)}", "${{3: 'x', 1: 'y', 2: 'z'}.map(k, k)}", "${'%s'.format([input])}", "${run}",
		"${run.labels.map(k, run.labels[k])}", "${steps.s.output.map(k, k)}", "${input.exists_one(k, v, v.n == 7)}",
	}, "\n"), expr.Names{Steps: map[string]*expr.Shape{"s": {}}})
	require.NoError(t, err)

	digests := map[[sha256.Size]byte]int{}
	for range 1000 {
		text, err := template.Text(expr.NewScope(expr.Data{
			Input: input,
			Steps: map[string]json.RawMessage{"s": input},
			Run:   expr.Run{ID: "r", Labels: maps.Clone(labels)},
		}))
		require.NoError(t, err)
		digests[sha256.Sum256([]byte(text))]++
	}
	require.Len(t, digests, 1)
}

// A text without ${ is itself, whatever it is.
func TestTextWithoutHolesIsItself(t *testing.T) {
	env := newEnv(t)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.ReplaceAll(rapid.String().Draw(t, "text"), "${", "")
		template, err := env.ParseTemplate(text, expr.Names{})
		require.NoError(t, err)
		got, err := template.Text(expr.NewScope(expr.Data{}))
		require.NoError(t, err)
		require.Equal(t, text, got)
	})
}

// Whatever a text is, writing $${ for its ${ makes it stand for itself.
func TestEscapedTextIsItself(t *testing.T) {
	env := newEnv(t)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"${", "{", "}", "a", "'", "\n", "é"})).Draw(t, "parts"), "")
		template, err := env.ParseTemplate(strings.ReplaceAll(text, "${", "$${"), expr.Names{})
		require.NoError(t, err)
		got, err := template.Text(expr.NewScope(expr.Data{}))
		require.NoError(t, err)
		require.Equal(t, text, got)
	})
}

func FuzzParseTemplate(f *testing.F) {
	for _, seed := range []string{"${input.a}", "a ${b} $${c} ${'}'}", "${", "${r'\\'}", "${{'a':1}}", "${[1].map(x, [x, x])}", "${input.?a[?0].orValue('x')}"} {
		f.Add(seed, `{"a":[1,{"b":null}]}`)
	}
	env := newEnv(f)
	names := expr.Names{Steps: map[string]*expr.Shape{"a": {}}, Item: &expr.Shape{}, Output: &expr.Shape{}}
	f.Fuzz(func(t *testing.T, source, input string) {
		template, err := env.ParseTemplate(source, names)
		if err != nil {
			errs := expr.Errors{}
			require.ErrorAs(t, err, &errs)
			require.NotEmpty(t, errs)
			for _, e := range errs {
				require.True(t, 0 <= e.Offset && e.Offset <= len(source), "offset %d of %d", e.Offset, len(source))
			}
			return
		}
		data := expr.Data{Input: json.RawMessage(input), Item: json.RawMessage(input), Output: json.RawMessage(input), Steps: map[string]json.RawMessage{"a": json.RawMessage(input)}}
		first, err := template.Text(expr.NewScope(data))
		if err != nil {
			require.ErrorAs(t, err, new(*expr.EvalError))
			return
		}
		second, err := template.Text(expr.NewScope(data))
		require.NoError(t, err)
		require.Equal(t, first, second)
	})
}
