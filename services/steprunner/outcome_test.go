package steprunner_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/steprunner"
)

// said tells an outcome in a few words.
func said(o *systemv1.Outcome) string {
	switch result := o.GetResult().(type) {
	case *systemv1.Outcome_Succeeded_:
		return "output " + string(result.Succeeded.GetOutput())
	case *systemv1.Outcome_Skipped_:
		return "skipped"
	case *systemv1.Outcome_Expanded_:
		items := make([]string, len(result.Expanded.GetItems()))
		for i, item := range result.Expanded.GetItems() {
			items[i] = string(item)
		}
		return "items " + strings.Join(items, " ")
	case *systemv1.Outcome_Failed_:
		return strings.ToLower(strings.TrimPrefix(result.Failed.GetClass().String(), "FAILURE_CLASS_")) + " " +
			result.Failed.GetReason() + ": " + result.Failed.GetMessage()
	case *systemv1.Outcome_ReviewRequested_:
		return "review " + result.ReviewRequested.GetReason() + ": " + string(result.ReviewRequested.GetOutput())
	default:
		return fmt.Sprintf("%T", result)
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	w := start(t)
	const fanOut = `
  - {name: before, transform: "${input}"}
  - name: it
    when: ${size(steps.before.output) > 0}
    for_each: ${steps.before.output}
    transform: {place: "${index}", item: "${item}"}
`
	outputs := func(before string) map[string][]byte { return map[string][]byte{"before": []byte(before)} }
	for name, c := range map[string]struct {
		pipeline string
		given    given
		want     string
	}{
		"a transform":                  {double, given{input: `{"n":2}`}, `output {"twice":4}`},
		"a transform without its data": {double, given{input: `{}`}, `permanent invalid_input: steps.it.transform: ${input.n * 2}: there is no field n`},
		"when is false":                {`  - {name: it, when: "${input.go}", transform: 1}`, given{input: `{"go":false}`}, `skipped`},
		"when is true":                 {`  - {name: it, when: "${input.go}", transform: 1}`, given{input: `{"go":true}`}, `output 1`},
		"when has no value":            {`  - {name: it, when: "${input.go}", transform: 1}`, given{input: `{}`}, `permanent invalid_input: steps.it.when: ${input.go}: there is no field go`},
		"when is false before require is broken": {
			`  - {name: it, when: "${false}", require: "${false}", transform: 1}`, given{input: `{}`}, `skipped`,
		},
		"require is broken": {
			`  - {name: it, require: "${input.text.trim() != ''}", llm: {prompt: "${input.text}"}}`,
			given{input: `{"text":" \n"}`},
			`permanent invalid_input: the step requires ${input.text.trim() != ''}, which does not hold for this input`,
		},
		"a fan-out":            {fanOut, given{outputs: outputs(`[{"a":1.0},"b",null]`)}, `items {"a":1} "b" null`},
		"a fan-out of nothing": {fanOut, given{outputs: outputs(`[]`)}, `skipped`},
		"a fan-out of no list": {fanOut, given{outputs: outputs(`{"a":1}`)}, `permanent invalid_input: steps.it.for_each: ${steps.before.output} must give a list`},
		"a shard":              {fanOut, given{shard: 3, item: `"x"`}, `output {"item":"x","place":3}`},
		"the first shard":      {fanOut, given{item: `null`}, `output {"item":null,"place":0}`},
		"too many items": {
			fanOut,
			given{outputs: outputs(`[` + strings.Repeat("0,", 10_000) + `0]`)},
			`permanent output_too_large: for_each gave 10001 items; at most 10000 are allowed`,
		},
		"too large items": {
			fanOut,
			given{outputs: outputs(`["` + strings.Repeat("x", 5<<20) + `","` + strings.Repeat("x", 5<<20) + `"]`)},
			`permanent output_too_large: the items of for_each have 10485764 bytes together; at most 8388608 are stored`,
		},
		"a large output": {
			`  - {name: it, transform: ["${input}", "${input}"]}`,
			given{input: `"` + strings.Repeat("x", 5<<20) + `"`},
			`permanent output_too_large: the output has 10485767 bytes; at most 8388608 are stored`,
		},
		"a value that is right": {
			`  - {name: it, validate: {value: "${input}", rules: [{expr: "${output.n > 0}", message: "n is ${output.n}"}]}}`,
			given{input: `{"n":1}`},
			`output {"n":1}`,
		},
		"a value that breaks rules": {
			`  - {name: it, validate: {value: "${input}", rules: [{expr: "${output.n > 0}", message: "n is ${output.n}"}, {expr: "${output.n > 9}", message: small}]}}`,
			given{input: `{"n":0}`},
			`permanent business_rule: n is 0; small`,
		},
		"a value that breaks its schema": {
			`  - {name: it, validate: {value: "${input}", schema: {type: object, required: [m], properties: {n: {type: string}}}}}`,
			given{input: `{"n":0}`},
			`permanent schema_mismatch: the value breaks the schema: missing property 'm'; /n: got number, want string`,
		},
		"a value that cannot be checked": {
			`  - {name: it, validate: {value: "${input.x}", schema: {type: object}}}`,
			given{input: `{}`},
			`permanent invalid_input: steps.it.validate: value: ${input.x}: there is no field x`,
		},
		"a result to look at": {
			`  - {name: it, transform: "${input}", review: {when: "${output.sure < 0.7}", reason: low_confidence}}`,
			given{input: `{"sure":0.5}`},
			`review low_confidence: {"sure":0.5}`,
		},
		"a result not to look at": {
			`  - {name: it, transform: "${input}", review: {when: "${output.sure < 0.7}", reason: low_confidence}}`,
			given{input: `{"sure":1}`},
			`output {"sure":1}`,
		},
		"a result of which it is not known whether to look at it": {
			`  - {name: it, transform: "${input}", review: {when: "${output.sure < 0.7}", reason: business_rule}}`,
			given{input: `{"sure":null}`},
			`review business_rule: {"sure":null}`,
		},
		"what is known of the run": {
			`  - {name: it, transform: "${run.entity_id + run.labels.colour}"}`,
			given{assignment: func(a *systemv1.Assignment) { a.EntityId, a.Labels = "e", map[string]string{"colour": "red"} }},
			`output "ered"`,
		},
		"a step that is not in the pipeline": {double, given{step: "other", input: `{}`}, `permanent handler_error: the pipeline has no step other`},
		"a pipeline that does not compile": {
			"",
			given{digest: []byte(strings.Repeat("?", 32))},
			`transient handler_error: the step-runner cannot use the pipeline; its log says why`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.pipeline != "" {
				c.given.digest = w.pipeline(c.pipeline)
			}
			outcome := w.outcome(w.submit(c.given))
			require.Equal(t, c.want, said(outcome))
			require.NotNil(t, outcome.GetStartedAt())
			require.EqualValues(t, 1, outcome.GetClaimNo())
		})
	}
	w.clean(interactive)
}

func TestInputDigestIsOfWhatTheStepWasGiven(t *testing.T) {
	t.Parallel()
	w := start(t)
	digest := w.pipeline(double)
	of := func(input string) string {
		return string(w.outcome(w.submit(given{digest: digest, input: input})).GetInputDigest())
	}
	require.Len(t, of(`{"n":1}`), 32)
	first, same, other := of(`{"n":1}`), of(`{"n":1}`), of(`{"n":2}`)
	require.Equal(t, first, same)
	require.NotEqual(t, first, other)
}

func TestOutcomeThatCannotBeStoredBecomesAFailure(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.orchestrator.set(func(o *orchestrator) {
		o.judge = func(outcome *systemv1.Outcome) *systemv1.CompleteResult {
			if outcome.GetSucceeded() != nil {
				return &systemv1.CompleteResult{Status: systemv1.CompleteStatus_COMPLETE_STATUS_INVALID, Message: "no"}
			}
			return nil
		}
	})
	outcome := w.outcome(w.submit(given{digest: w.pipeline(ask), input: `{"n":1}`}))
	require.Equal(t, "handler_error", outcome.GetFailed().GetReason())
	require.EqualValues(t, 700, outcome.GetUsage().GetCostPicoUsd(), "what it cost is kept")
	w.clean(interactive)
}

func TestOutcomeThatIsRefusedForGoodEndsTheAttempt(t *testing.T) {
	t.Parallel()
	w := start(t, with(func(c *steprunner.Config) { c.InteractiveSlots = 1 }))
	bad := w.add(given{digest: w.pipeline(double), shard: -1, input: `{"n":1}`})
	w.orchestrator.set(func(o *orchestrator) {
		o.onComplete = func(req *systemv1.CompleteStepsRequest) error {
			if keyOf(req.GetOutcomes()[0].GetStep()) == keyOf(bad) {
				return errors.New("broken")
			}
			return nil
		}
	})
	w.announce(interactive, bad)
	w.goesOn(w.pipeline(double))
	require.Nil(t, see(w.orchestrator, func(o *orchestrator) *systemv1.Outcome { return o.outcomes[keyOf(bad)] }))
}
