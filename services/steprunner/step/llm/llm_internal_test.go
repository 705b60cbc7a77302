package llm

import (
	"crypto/sha256"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/expr"
	"pawl.internal/services/internal/pipeline"
	"pawl.internal/services/steprunner/step"
)

// asking is an attempt at a step, with data freshly read: maps of Go have no order of their own.
func asking(t *testing.T, s *pipeline.Step, input string) *step.Attempt {
	t.Helper()
	return &step.Attempt{
		Ref: &systemv1.StepRef{Step: s.Name}, Step: s, Report: &step.Report{},
		Assignment: &systemv1.Assignment{Tenant: "acme", Labels: map[string]string{"b": "1", "a": "2", "c": "3"}},
		Scope: expr.NewScope(expr.Data{
			Input: json.RawMessage(input), Run: expr.Run{Labels: map[string]string{"b": "1", "a": "2", "c": "3"}},
			Steps: map[string]json.RawMessage{"one": json.RawMessage(`{"z":1,"y":{"b":[],"a":1.0}}`)},
		}),
	}
}

func TestSameDataAlwaysAsksTheSame(t *testing.T) {
	t.Parallel()
	compiler, err := pipeline.NewCompiler()
	require.NoError(t, err)
	compiled, err := compiler.Compile("", []byte(`
name: p
version: v1
steps:
  - {name: one, transform: 1}
  - name: two
    llm:
      system: "${run.labels} ${input.m.map(k, k)}"
      prompt: "${input} ${steps.one.output} ${input.m}"
      output_schema: {type: object, properties: {z: {type: string}, a: {type: string}}}
      stop: ["${input.s}", x]
      temperature: ${input.t}
`))
	require.NoError(t, err)
	const input = `{"m":{"q":1,"w":2,"e":{"x":1e3,"a":"é"},"r":4},"s":"end","t":0.5}`
	digests := map[[sha256.Size]byte]bool{}
	for range 1000 {
		question, err := render(asking(t, compiled.Step("two"), input))
		require.NoError(t, err)
		question = again(question, &badAnswer{text: "no", complaint: complaintOf([]pipeline.Violation{{Path: "/a", Message: "m"}})})
		written, err := proto.MarshalOptions{Deterministic: true}.Marshal(question)
		require.NoError(t, err)
		digests[sha256.Sum256(written)] = true
	}
	require.Len(t, digests, 1)
}

func TestDigestTellsQuestionsApart(t *testing.T) {
	t.Parallel()
	compiler, err := pipeline.NewCompiler()
	require.NoError(t, err)
	compiled, err := compiler.Compile("", []byte("name: p\nversion: v1\nsteps: [{name: it, llm: {system: \"${input.a}\", prompt: \"${input.b}\"}}]"))
	require.NoError(t, err)
	digests := map[string]bool{}
	for _, input := range []string{`{"a":"xy","b":"z"}`, `{"a":"x","b":"yz"}`, `{"a":"","b":"xyz"}`} {
		question, err := render(asking(t, compiled.Step("it"), input))
		require.NoError(t, err)
		digests[string(digestOf(question))] = true
	}
	require.Len(t, digests, 3)
}

func TestUnfenced(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{}":                      "{}",
		"```json\n{}\n```":        "{}",
		" ```\n{\n}\n``` \n":      "{\n}",
		"```json\n{}":             "```json\n{}",
		"{}\n```":                 "{}\n```",
		"```":                     "```",
		"``````":                  "``````",
		"```{}```":                "```{}```",
		"Here:\n```json\n{}\n```": "Here:\n```json\n{}\n```",
	} {
		require.Equal(t, want, unfenced(text), "%q", text)
	}
}
