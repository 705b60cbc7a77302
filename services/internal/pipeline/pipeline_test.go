package pipeline_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/expr"
	"pawl.internal/services/internal/golden"
	"pawl.internal/services/internal/pipeline"
)

func newCompiler(tb testing.TB) *pipeline.Compiler {
	tb.Helper()
	compiler, err := pipeline.NewCompiler()
	require.NoError(tb, err)
	return compiler
}

// Each file in testdata/bad has the problems in the golden file beside it.
func TestProblems(t *testing.T) {
	compiler := newCompiler(t)
	files, err := filepath.Glob("testdata/bad/*.[yj]*")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			_, err = compiler.Compile(filepath.Base(file), source)
			require.ErrorAs(t, err, new(pipeline.Problems))
			golden.Assert(t, strings.TrimSuffix(file, filepath.Ext(file))+".golden", []byte(err.Error()+"\n"))
		})
	}
}

// A problem inside an expression is placed at the word concerned, however the text around it is written.
func TestPlaceInEveryStyle(t *testing.T) {
	compiler := newCompiler(t)
	for name, text := range map[string]string{
		"plain":                    `transform: before ${input.a} $${x} ${input.b + wrong} after`,
		"plain, folded":            "transform: before ${input.a}\n      more ${input.b\n      + wrong} after",
		"single quotes":            `transform: 'it''s ${input.a == ''x''} ${''é'' + wrong}'`,
		"double quotes":            `transform: "\"é\" \u00e9 ${input.a == \"\\n\"} \t ${\"\\\"\" + wrong}"`,
		"double quotes, continued": "transform: \"a ${input.a} \\\n      b ${input.b + wrong}\"",
		"double quotes, line feed": `transform: "a\n ${\n wrong}"`,
		"literal":                  "transform: |\n      Ärger ${input.a}\n        deeper ${\n          input.b\n            + wrong\n      }",
		"literal, indented":        "transform: |2\n        ${wrong}",
		"literal, empty lines":     "transform: |-\n\n\n      ${\n\n      wrong}",
		"folded":                   "transform: >\n      one\n      two ${input.a\n      + input.b\n\n      + wrong}",
		"flow":                     `{name: b, transform: ["${1}", {"k": '${wrong}'}]}`,
		"anchored":                 `transform: &anchor "${1} ${wrong}"`,
		"tagged":                   `transform: !!str "${1} ${wrong}"`,
		"Windows line ends":        "transform: |\r\n      one ${1}\r\n      two ${wrong}\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			source := "name: p\nversion: v1\nsteps:\n  - name: a\n    " + text + "\n"
			if strings.HasPrefix(text, "{") {
				source = "name: p\nversion: v1\nsteps:\n  - " + text + "\n"
			}
			requirePlace(t, compiler, source)
		})
	}
	t.Run("JSON", func(t *testing.T) {
		requirePlace(t, compiler, `{"name":"p","version":"v1","steps":[{"name":"a",
			"transform":{"é":"\u00e9\/\n ${\"\u0061\" + input.a}\t${\n\"\\n\" +  wrong}"}}]}`)
	})
}

func requirePlace(t *testing.T, compiler *pipeline.Compiler, source string) {
	t.Helper()
	_, err := compiler.Compile("", []byte(source))
	var problems pipeline.Problems
	require.ErrorAs(t, err, &problems)
	require.Len(t, problems, 1, "%v", problems)
	require.Contains(t, problems[0].Message, `there is no "wrong" here`)
	line := []rune(strings.Split(source, "\n")[problems[0].Line-1])
	require.Equal(t, "wrong", string(line[problems[0].Column-1:][:5]), "placed at %d:%d", problems[0].Line, problems[0].Column)
}

func TestProblemsAreBounded(t *testing.T) {
	compiler := newCompiler(t)
	var problems pipeline.Problems
	many := "name: p\nversion: v1\nsteps:\n  - name: a\n    transform:\n" + strings.Repeat("      - ${wrong}\n", 1000)
	_, err := compiler.Compile("", []byte(many))
	require.ErrorAs(t, err, &problems)
	require.Len(t, problems, 100)

	_, err = compiler.Compile("", []byte("name: p\nversion: v1\nsteps:\n"+strings.Repeat("  - {name: a, transform: 1}\n", 10000)))
	require.EqualError(t, err, "4:3: steps: must contain no more than 100 item(s)")

	_, err = compiler.Compile("", []byte("name: p\nversion: v1\nsteps:\n  - name: a\n    transform:\n"+strings.Repeat("      - ${1}\n", 3000)))
	require.ErrorContains(t, err, "2006:9: steps[0].transform[2000]: the pipeline has more than 2000 texts with expressions")

	_, err = compiler.Compile("big.yaml", make([]byte, 2<<20))
	require.EqualError(t, err, "big.yaml: the pipeline is larger than 1024 KiB")
}

// An alias is a value used again; a few of them must not become a billion values.
func TestAliases(t *testing.T) {
	compiler := newCompiler(t)
	c, err := compiler.Compile("", []byte("name: p\nversion: v1\nsteps:\n  - {name: a, transform: &t {x: \"${input}\"}}\n  - {name: b, transform: *t}\n"))
	require.NoError(t, err)
	require.True(t, c.Steps[1].Refs(false).Input)

	bomb := "name: p\nversion: v1\nsteps:\n  - name: a\n    transform:\n      l0: &l0 [x, x]\n"
	for i := range 40 {
		bomb += fmt.Sprintf("      l%d: &l%d [*l%d, *l%d]\n", i+1, i+1, i, i)
	}
	_, err = compiler.Compile("", []byte(bomb))
	require.ErrorContains(t, err, "the pipeline has more than 100000 values")

	_, err = compiler.Compile("", []byte("name: p\nversion: v1\nsteps: &s\n  - {name: a, transform: '${wrong}'}\ninput: {type: object, examples: *s}\n"))
	require.ErrorContains(t, err, "4:29: steps[0].transform")
}

func FuzzCompile(f *testing.F) {
	files, err := filepath.Glob("testdata/bad/*.[yj]*")
	require.NoError(f, err)
	examples, err := filepath.Glob("../../../examples/pipelines/*.yaml")
	require.NoError(f, err)
	for _, file := range append(files, examples...) {
		source, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(source)
	}
	compiler := newCompiler(f)
	f.Fuzz(func(t *testing.T, source []byte) {
		compiled, err := compiler.Compile("f", source)
		if err != nil {
			problems := pipeline.Problems{}
			require.ErrorAs(t, err, &problems)
			require.NotEmpty(t, problems)
			return
		}
		again, err := compiler.Compile("f", []byte(compiled.Source))
		require.NoError(t, err)
		require.Equal(t, compiled.Digest, again.Digest)
		exercise(compiled)
	})
}

// exercise evaluates all that can be evaluated over data that nobody expects; errors are fine, panics are not.
func exercise(c *pipeline.Compiled) {
	odd := json.RawMessage(`{"text":"x","list":[1,null,"a"],"n":1.5}`)
	data := expr.Data{Input: odd, Item: odd, Output: odd, Steps: map[string]json.RawMessage{}}
	_ = c.ValidateInput(odd)
	for _, step := range c.Steps {
		data.Steps[step.Name] = odd
	}
	scope := expr.NewScope(data)
	for _, step := range c.Steps {
		_, _ = step.Admit(scope)
		_, _ = step.NeedsReview(scope, odd)
		if step.FanOut {
			_, _ = step.Items(scope)
		}
		switch step.Kind {
		case pipeline.LLM:
			_, _ = step.Request(scope)
			_, _, _ = step.Answer(string(odd))
		case pipeline.Transform:
			_, _ = step.Transform(scope)
		case pipeline.Validate:
			_, _ = step.Validate(scope)
		}
	}
}
