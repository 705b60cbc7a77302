package pipeline_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/expr"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/internal/pipeline"
	"pawl.internal/services/internal/retry"
)

// compile compiles a pipeline that must be right.
func compile(tb testing.TB, source string) *pipeline.Compiled {
	tb.Helper()
	compiled, err := newCompiler(tb).Compile("test.yaml", []byte(source))
	require.NoError(tb, err)
	return compiled
}

// oneStep compiles a pipeline whose only step is the given one.
func oneStep(tb testing.TB, step string) *pipeline.Step {
	tb.Helper()
	return compile(tb, "name: test\nversion: v1\nsteps:\n  - name: it\n    "+strings.ReplaceAll(strings.TrimSpace(step), "\n", "\n    ")).Steps[0]
}

// requireBytes compares JSON to the byte, the order of fields included.
func requireBytes(t *testing.T, want string, got json.RawMessage) {
	t.Helper()
	require.Equal(t, want, string(got))
}

func scope(input string) *expr.Scope { return expr.NewScope(expr.Data{Input: json.RawMessage(input)}) }

func TestDefaults(t *testing.T) {
	c := compile(t, "{name: p, version: v3, steps: [{name: ask, llm: {prompt: hi}}, {name: work, transform: 1}]}")
	require.Equal(t, "p", c.Name)
	require.Equal(t, "v3", c.Version)
	require.Zero(t, c.Budget)
	require.Equal(t, time.Hour, c.DeadlineFor(pawlv1.RunClass_RUN_CLASS_INTERACTIVE))
	require.Equal(t, 24*time.Hour, c.DeadlineFor(pawlv1.RunClass_RUN_CLASS_BATCH))
	require.Equal(t, []string{"run.done", "run.failed", "run.cancelled"}, c.CallbackEvents)
	require.False(t, c.UndoOnFailure)
	require.False(t, c.UndoOnCancel)
	require.Same(t, c.Steps[1], c.ResultStep)
	require.Empty(t, c.ValidateInput(json.RawMessage(`[1, "anything"]`)))

	ask, work := c.Step("ask"), c.Step("work")
	require.Nil(t, c.Step("other"))
	require.Equal(t, pipeline.Timeouts{LLM: 120 * time.Second, Soft: 170 * time.Second, Hard: 180 * time.Second}, ask.Timeouts)
	require.Equal(t, pipeline.Timeouts{Soft: 50 * time.Second, Hard: time.Minute}, work.Timeouts)
	require.Equal(t, retry.Policy{MaxAttempts: 3, Initial: 5 * time.Second, Factor: 3, Max: time.Minute, Jitter: 0.2}, ask.Retry)
	require.Equal(t, []int{3, 8, 1, 0}, []int{ask.MaxLost, ask.MaxCalls, ask.FallbackAfter, ask.Repairs})
	require.Equal(t, []string{"fail", "retry", "low_confidence"}, []string{ask.OnError, ask.OnAmbiguous, ask.ReviewReason})
	require.Empty(t, ask.Needs)
	require.Equal(t, []int{0}, work.Needs)
	require.NotEmpty(t, ask.PromptVersion)
	require.Empty(t, work.PromptVersion)
}

func TestEverythingSaid(t *testing.T) {
	c := compile(t, `
name: p
version: v1
description: all of it
deadline: 1h30m
budget_usd: "0.000000000001"
labels: {team: a}
on_failure: undo
on_cancel: undo
callback: {events: [run.needs_review]}
steps:
  - name: late
    needs: [early, alone]
    llm: {prompt: x}
    repair: {attempts: 2}
    llm_timeout: 10s
    retry: {max_attempts: 5, initial: 90s, factor: 1.5, jitter: 0}
    max_lost: 1
    max_calls: 2
    fallback_after: 2
    on_error: review
    on_ambiguous: fail
    review: {reason: business_rule, editable: ["", /a/b~1c]}
  - name: early
    needs: []
    transform: null
    soft_timeout: 1s
  - name: alone
    needs: []
    for_each: ${[1, 2]}
    concurrency: 3
    transform: ${item}
output: ${steps.late.output}
`)
	require.Equal(t, 90*time.Minute, c.DeadlineFor(pawlv1.RunClass_RUN_CLASS_BATCH))
	require.Equal(t, money.Pico(1), c.Budget)
	require.Equal(t, map[string]string{"team": "a"}, c.Labels)
	require.True(t, c.UndoOnFailure && c.UndoOnCancel)
	require.Equal(t, []string{"run.needs_review"}, c.CallbackEvents)
	require.Same(t, c.Steps[0], c.ResultStep)

	late := c.Steps[0]
	require.Equal(t, []int{1, 2}, late.Needs)
	require.Equal(t, pipeline.Timeouts{LLM: 10 * time.Second, Soft: 80 * time.Second, Hard: 90 * time.Second}, late.Timeouts)
	require.Equal(t, retry.Policy{MaxAttempts: 5, Initial: 90 * time.Second, Factor: 1.5, Max: 90 * time.Second}, late.Retry)
	require.Equal(t, []int{1, 2, 2, 2}, []int{late.MaxLost, late.MaxCalls, late.FallbackAfter, late.Repairs})
	require.Equal(t, []string{"review", "fail", "business_rule"}, []string{late.OnError, late.OnAmbiguous, late.ReviewReason})
	require.Equal(t, []string{"", "/a/b~1c"}, late.Editable)
	require.Equal(t, pipeline.Timeouts{Soft: time.Second, Hard: 11 * time.Second}, c.Steps[1].Timeouts)
	require.True(t, c.Steps[2].FanOut)
	require.Equal(t, 3, c.Steps[2].Concurrency)
}

func TestRefsOfRows(t *testing.T) {
	c := compile(t, `
name: p
version: v1
steps:
  - {name: a, transform: 1}
  - {name: b, transform: 1}
  - name: c
    when: ${steps.a.output == 1}
    for_each: ${input.list}
    transform: ${steps.b.output + item}
    review: {when: "${output > run.labels.size()}"}
  - name: d
    require: ${input.ok}
    transform: ${steps.c.output}
`)
	require.Equal(t, pipeline.Refs{Input: true, Steps: []string{"a"}}, c.Steps[2].Refs(false))
	require.Equal(t, pipeline.Refs{Item: true, Run: true, Output: true, Steps: []string{"b"}}, c.Steps[2].Refs(true))
	require.Equal(t, pipeline.Refs{Input: true, Steps: []string{"c"}}, c.Steps[3].Refs(false))
}

func TestAdmit(t *testing.T) {
	step := oneStep(t, `
when: ${input.wanted}
require: ${input.text.trim() != ''}
transform: 1`)
	require.Equal(t, "${input.text.trim() != ''}", step.Requirement())
	for input, want := range map[string]pipeline.Admission{
		`{"wanted":true,"text":"x"}`:   pipeline.Run,
		`{"wanted":false}`:             pipeline.Skip,
		`{"wanted":true,"text":" \n"}`: pipeline.Refuse,
	} {
		got, err := step.Admit(scope(input))
		require.NoError(t, err)
		require.Equal(t, want, got, input)
	}
	_, err := step.Admit(scope(`{"wanted":"yes"}`))
	require.EqualError(t, err, "steps.it.when: ${input.wanted}: must give true or false, and gave a text")
	_, err = step.Admit(scope(`{"wanted":true}`))
	require.EqualError(t, err, "steps.it.require: ${input.text.trim() != ''}: there is no field text")
	require.ErrorAs(t, err, new(*expr.EvalError))

	free, err := oneStep(t, "transform: 1").Admit(scope(`null`))
	require.NoError(t, err)
	require.Equal(t, pipeline.Run, free)
}

func TestItems(t *testing.T) {
	step := oneStep(t, "for_each: ${input}\ntransform: ${item}")
	items, err := step.Items(scope(`[{"b":1.0,"a":2}, null, "x"]`))
	require.NoError(t, err)
	require.Equal(t, []json.RawMessage{json.RawMessage(`{"a":2,"b":1}`), json.RawMessage(`null`), json.RawMessage(`"x"`)}, items)
	items, err = step.Items(scope(`[]`))
	require.NoError(t, err)
	require.Empty(t, items)
	_, err = step.Items(scope(`{}`))
	require.EqualError(t, err, "steps.it.for_each: ${input} must give a list")
}

func TestTransform(t *testing.T) {
	step := oneStep(t, `
transform:
  z: plain
  whole: ${input.list}
  text: "n = ${input.n}, list = ${input.list}"
  list: [1.50, true, null, "${input.n}", {deep: "${input.n + 1}"}]
  literal: $${x}
  long: 40702810900000000001`)
	output, err := step.Transform(scope(`{"n":7,"list":[{"b":1,"a":[]}]}`))
	require.NoError(t, err)
	requireBytes(t, `{"list":[1.5,true,null,7,{"deep":8}],"literal":"${x}","long":40702810900000000001,`+
		`"text":"n = 7, list = [{\"a\":[],\"b\":1}]","whole":[{"a":[],"b":1}],"z":"plain"}`, output)
	_, err = step.Transform(scope(`{}`))
	require.EqualError(t, err, "steps.it.transform: ${input.list}: there is no field list", "the first in the order of the source")
}

func TestValidate(t *testing.T) {
	step := oneStep(t, `
validate:
  value: {amount: "${input.amount}", currency: "${input.currency}"}
  schema: {type: object, properties: {amount: {type: number}, currency: {type: string, maxLength: 3}}}
  rules:
    - {expr: "${output.amount > 0}", message: "the amount is ${output.amount}"}
    - {expr: "${output.currency in ['EUR', 'USD']}", message: "unknown currency"}`)
	result, err := step.Validate(scope(`{"amount":5,"currency":"EUR"}`))
	require.NoError(t, err)
	require.Equal(t, &pipeline.Validation{Value: json.RawMessage(`{"amount":5,"currency":"EUR"}`)}, result)

	result, err = step.Validate(scope(`{"amount":-5,"currency":"DM"}`))
	require.NoError(t, err)
	require.Equal(t, []pipeline.Violation{{Message: "the amount is -5"}, {Message: "unknown currency"}}, result.Rules)

	result, err = step.Validate(scope(`{"amount":"5","currency":"EURO"}`))
	require.NoError(t, err)
	require.Equal(t, []pipeline.Violation{
		{Path: "/amount", Message: "got string, want number"},
		{Path: "/currency", Message: "maxLength: got 4, want 3"},
	}, result.Schema)
	require.Empty(t, result.Rules)
}

func TestRequest(t *testing.T) {
	step := oneStep(t, `
llm:
  route: ${input.model}
  system: You are ${input.who}.
  messages:
    - {role: user, content: "Look: ${input.data}"}
    - {role: "${input.role}", content: "${input.data}"}
  temperature: ${input.t}
  top_p: 0.5
  max_output_tokens: ${input.?max}
  stop: [END, "${input.who}"]
  seed: 9007199254740993`)
	request, err := step.Request(scope(`{"model":"m","who":"me","data":{"b":[1],"a":null},"role":"assistant","t":0}`))
	require.NoError(t, err)
	zero, half, seed := 0.0, 0.5, int64(9007199254740993)
	require.Equal(t, &pipeline.Request{
		Route: "m",
		Messages: []pipeline.Message{
			{Role: "system", Content: "You are me."},
			{Role: "user", Content: `Look: {"a":null,"b":[1]}`},
			{Role: "assistant", Content: `{"a":null,"b":[1]}`},
		},
		Temperature: &zero, TopP: &half, Seed: &seed,
		Stop: []string{"END", "me"},
	}, request)

	for input, want := range map[string]string{
		`{"model":"","who":"me","data":1,"role":"user","t":0}`:         "steps.it.llm: route: must give the name of a route",
		`{"model":5,"who":"me","data":1,"role":"user","t":0}`:          "steps.it.llm: route: must give the name of a route",
		`{"model":"m","who":"me","data":1,"role":"tool","t":0}`:        "steps.it.llm: messages[1]: role must be system, user or assistant",
		`{"model":"m","who":"me","data":null,"role":"user","t":0}`:     "steps.it.llm: messages[1]: content is missing",
		`{"model":"m","who":"me","data":1,"role":"user","t":"hot"}`:    "steps.it.llm: temperature: must be a number from 0 to 2",
		`{"model":"m","who":"","data":1,"role":"user","t":1}`:          "steps.it.llm: stop: must be a list of up to 4 texts that are not empty",
		`{"model":"m","who":"x","data":1,"role":"user","t":1,"max":0}`: "steps.it.llm: max_output_tokens: must be a whole number from 1",
		`{"model":"m","who":"x","data":1,"role":"user","max":5}`:       "steps.it.llm: temperature: ${input.t}: there is no field t",
	} {
		_, err := step.Request(scope(input))
		require.EqualError(t, err, want)
	}
}

func TestRequestOfAConversationFromTheInput(t *testing.T) {
	step := oneStep(t, "llm: {messages: \"${input.messages}\"}")
	request, err := step.Request(scope(`{"messages":[{"role":"user","content":"hi"}]}`))
	require.NoError(t, err)
	require.Equal(t, &pipeline.Request{Route: "default", Messages: []pipeline.Message{{Role: "user", Content: "hi"}}}, request)
	for input, want := range map[string]string{
		`{"messages":[]}`:                  "must give a list of {role, content} that is not empty",
		`{"messages":"hi"}`:                "must give a list of {role, content} that is not empty",
		`{"messages":[{"role":"user"}]}`:   "messages[0]: content is missing",
		`{"messages":[{"content":"hi"}]}`:  "messages[0]: role must be",
		`{"messages":["hi"]}`:              "messages[0]: role must be",
		`{"messages":[{"role":"user"}],"`:  "invalid JSON",
		`{"messages":{"role":"user"}}`:     "must give a list",
		`{"messages":null}`:                "must give a list",
		`{"other":1}`:                      "there is no field messages",
		`{"messages":[{"role":["user"]}]}`: "messages[0]: role must be",
	} {
		_, err := step.Request(scope(input))
		require.ErrorContains(t, err, want, input)
	}
}

func TestAnswer(t *testing.T) {
	step := oneStep(t, `
llm:
  prompt: x
  output_schema:
    type: object
    required: [zeta, alpha]
    properties: {zeta: {type: string}, alpha: {type: [string, "null"], format: date}, n: {type: integer}}`)
	requireBytes(t, `{"type":"object","required":["zeta","alpha"],"properties":{"zeta":{"type":"string"},"alpha":{"type":["string","null"],"format":"date"},"n":{"type":"integer"}}}`,
		step.OutputSchema.JSON) // models answer in the order that they are shown

	output, violations, err := step.Answer(` {"zeta": "x", "alpha": "2024-02-29", "n": 2.0} `)
	require.NoError(t, err)
	require.Empty(t, violations)
	requireBytes(t, `{"alpha":"2024-02-29","n":2,"zeta":"x"}`, output)

	_, violations, err = step.Answer(`{"alpha": "29 February", "n": 2.5}`)
	require.NoError(t, err)
	require.Equal(t, []pipeline.Violation{
		{Message: "missing property 'zeta'"},
		{Path: "/alpha", Message: "is not a valid date"},
		{Path: "/n", Message: "got number, want integer"},
	}, violations)
	require.Equal(t, "/n: got number, want integer", violations[2].String())

	for _, bad := range []string{"", "Sorry, I cannot.", "```json\n{}\n```", `{"zeta":`, `{"zeta":"x","zeta":"y"}`, `{"n":1e400}`} {
		_, _, err = step.Answer(bad)
		require.Error(t, err, bad)
	}

	text, violations, err := oneStep(t, "llm: {prompt: x}").Answer("any \"text\"\n")
	require.NoError(t, err)
	require.Empty(t, violations)
	require.Equal(t, `"any \"text\"\n"`, string(text))
}

func TestViolationsDoNotRepeatTheValue(t *testing.T) {
	step := oneStep(t, `
validate:
  value: ${input}
  schema:
    additionalProperties:
      allOf: [{pattern: "^x"}, {format: email}, {minimum: 5000}, {exclusiveMinimum: 5000},
        {maximum: 0.5}, {exclusiveMaximum: 1}, {multipleOf: 7}]`)
	result, err := step.Validate(scope(`{"a":4712,"b":"Jane Doe"}`))
	require.NoError(t, err)
	require.Equal(t, []string{
		"/a: must be a multiple of 7", "/a: must be at least 5000", "/a: must be at most 0.5", "/a: must be less than 1",
		"/a: must be more than 5000", "/b: does not match the pattern '^x'", "/b: is not a valid email",
	}, lines(result.Schema))
}

func lines(violations []pipeline.Violation) []string {
	var list []string
	for _, v := range violations {
		list = append(list, v.String())
	}
	return list
}

func TestNeedsReview(t *testing.T) {
	step := oneStep(t, "transform: ${input}\nreview: {when: \"${output.confidence < 0.7}\"}")
	for output, want := range map[string]bool{`{"confidence":0.5}`: true, `{"confidence":1}`: false} {
		got, err := step.NeedsReview(scope(`{}`), json.RawMessage(output))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := step.NeedsReview(scope(`{}`), json.RawMessage(`{}`))
	require.EqualError(t, err, "steps.it.review.when: ${output.confidence < 0.7}: there is no field confidence")
	none, err := oneStep(t, "transform: 1").NeedsReview(scope(`{}`), json.RawMessage(`1`))
	require.NoError(t, err)
	require.False(t, none)
}

func TestResult(t *testing.T) {
	source := "name: p\nversion: v1\nsteps: [{name: a, transform: 1}, {name: b, transform: 2}]\n"
	require.Equal(t, "b", compile(t, source).ResultStep.Name)
	require.Equal(t, "a", compile(t, source+"output: ${steps.a.output}").ResultStep.Name)
	compiler, err := pipeline.NewCompiler()
	require.NoError(t, err)
	for output, want := range map[string]string{
		"${steps.a.output.x}": `p.yaml:4:9: output: must be the output of one step; did you mean "${steps.a.output}"?`,
		"{all: 1}":            "p.yaml:4:9: output: must be",
		"${steps.c.output}":   "p.yaml:4:9: output: must be the output of one step",
		"done":                "p.yaml:4:9: output: must be the output of one step, such as ${steps.b.output}; a result that is",
	} {
		_, err := compiler.Compile("p.yaml", []byte(source+"output: "+output))
		require.ErrorContains(t, err, want)
	}
}

func TestValidateInput(t *testing.T) {
	c := compile(t, `
name: p
version: v1
input:
  type: object
  required: [text]
  additionalProperties: false
  properties: {text: {type: string, minLength: 1}, tags: {type: array, items: {type: string}}}
steps: [{name: a, transform: 1}]
`)
	for input, want := range map[string][]pipeline.Violation{
		`{"text":"x","tags":["a"]}`:             nil,
		`{}`:                                    {{Message: "missing property 'text'"}},
		`{"text":"","tags":[1,"a",null],"o":1}`: {{Message: "additional properties 'o' not allowed"}, {Path: "/tags/0", Message: "got number, want string"}, {Path: "/tags/2", Message: "got null, want string"}, {Path: "/text", Message: "minLength: got 0, want 1"}},
		`[]`:                                    {{Message: "got array, want object"}},
		`{"text":"a","text":"b"}`:               {{Message: `invalid JSON at byte 18: the key "text" is given twice`}},
		`{"text":`:                              {{Message: "invalid JSON at byte 8: unexpected end of JSON input"}},
		`{"text":"\ud800"}`:                     {{Message: `invalid JSON at byte 9: \ud800 is half of a surrogate pair and stands for no character`}},
	} {
		require.Equal(t, want, c.ValidateInput(json.RawMessage(input)), input)
	}
}

func TestDigestIsOfTheContent(t *testing.T) {
	base := compile(t, "name: p\nversion: v1\nsteps:\n  - name: a\n    transform: {x: 1, y: 2}\n")
	for name, source := range map[string]string{
		"comments and layout": "# hello\nname:   p\nversion: 'v1'\n\nsteps:\n- {transform: {y: 2.0, x: 1}, name: a} # there\n",
		"JSON":                `{"version": "v1", "steps": [{"name": "a", "transform": {"x": 1, "y": 2}}], "name": "p"}`,
		"an alias":            "name: p\nversion: v1\nsteps:\n  - name: a\n    transform: {x: &one 1, y: 2}\n",
	} {
		require.Equal(t, base.Digest, compile(t, source).Digest, name)
	}
	other := compile(t, "name: p\nversion: v1\nsteps:\n  - name: a\n    transform: {x: 1, y: 3}\n")
	require.NotEqual(t, base.Digest, other.Digest)
}

// The pipelines that ship, and those that are only examples.
func TestExamples(t *testing.T) {
	compiler := newCompiler(t)
	files, err := filepath.Glob("../../../examples/pipelines/*.yaml")
	require.NoError(t, err)
	names := map[string]*pipeline.Compiled{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		compiled, err := compiler.Compile(file, source)
		require.NoError(t, err)
		require.Equal(t, filepath.Base(file), compiled.Name+".yaml")
		names[compiled.Name] = compiled
	}
	builtins, err := pipeline.Builtins()
	require.NoError(t, err)
	require.Len(t, builtins, 2)
	for _, b := range builtins {
		compiled, err := compiler.Compile(b.File, b.Source)
		require.NoError(t, err)
		require.Equal(t, names[compiled.Name].Digest, compiled.Digest, "examples/pipelines must link to what ships")
	}
	extract := names["document_extract"]
	require.Equal(t, "v2", extract.Version)
	admission, err := extract.Steps[0].Admit(scope(`{"text":" \n\t\u00a0"}`))
	require.NoError(t, err)
	require.Equal(t, pipeline.Refuse, admission, "a blank document is invalid input")
	require.Equal(t, "v1", names["llm_completion"].Version)
}

func TestChainOfTransforms(t *testing.T) {
	source, err := os.ReadFile("../../../examples/pipelines/transform_chain.yaml")
	require.NoError(t, err)
	c := compile(t, string(source))
	data := expr.Data{Input: json.RawMessage(`{"n":1}`), Steps: map[string]json.RawMessage{}}
	for _, step := range c.Steps {
		data.Steps[step.Name], err = step.Transform(expr.NewScope(data))
		require.NoError(t, err)
	}
	require.Equal(t, `{"n":4}`, string(data.Steps[c.ResultStep.Name]))
}

func TestCompletionOfAJob(t *testing.T) {
	builtins, err := pipeline.Builtins()
	require.NoError(t, err)
	step := compile(t, string(builtins[1].Source)).Steps[0]
	tokens := int32(9)
	for input, want := range map[string]*int32{`"max_tokens":9`: &tokens, `"max_tokens":null`: nil, `"other":1`: nil} {
		request, err := step.Request(scope(`{"model":"m","messages":[{"role":"user","content":"hi"}],` + input + `}`))
		require.NoError(t, err)
		require.Equal(t, &pipeline.Request{Route: "m", Messages: []pipeline.Message{{Role: "user", Content: "hi"}}, MaxOutputTokens: want}, request)
	}
}

func TestSourceOfAMessage(t *testing.T) {
	attempts := int32(4)
	source, err := pipeline.Source(&pawlv1.PipelineSpec{
		Name: "p", Version: "v1",
		Steps: []*pawlv1.Step{{
			Name: "a", Kind: &pawlv1.Step_Llm{Llm: &pawlv1.LlmStep{Prompt: "x"}},
			Retry: &pawlv1.RetryPolicy{MaxAttempts: &attempts, Initial: "1s"},
		}},
	})
	require.NoError(t, err)
	c := compile(t, string(source))
	require.Equal(t, 4, c.Steps[0].Retry.MaxAttempts)
	require.Equal(t, compile(t, "{name: p, version: v1, steps: [{name: a, llm: {prompt: x}, retry: {max_attempts: 4, initial: 1s}}]}").Digest, c.Digest)
}
