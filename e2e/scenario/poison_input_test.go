package scenario

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
)

const echo = `
name: echo
version: v1
steps:
  - name: first
    transform: {input: "${input}", entity: "${run.entity_id}", labels: "${run.labels}"}
  - name: second
    transform: ${steps.first.output}
`

// TestPoisonedInputsAreRefusedOrKept submits what no client should: it is refused with the place, or goes through all steps
// as it was given; and the run that is submitted beside it ends as usual.
func TestPoisonedInputsAreRefusedOrKept(t *testing.T) {
	s := harness.Start(t, harness.Config{})
	registerSource(t, s, echo)
	digits := strings.Repeat("7", 300)
	odd := "\u202e👩‍👩‍👧 e\u0301 \u0001\u2028 ${x} %s '; --"
	tests := map[string]struct {
		// input is JSON, more are further members of the body.
		input, more string
		// refused says that there is no run; else it is done, with seen (the input, if that is empty) as its echo.
		refused bool
		seen    string
	}{
		"nul escaped":           {input: `{"a":"x\u0000y","\u0000":1}`},
		"nul raw":               {input: "{\"a\":\"x\x00y\"}", refused: true},
		"lone surrogate":        {input: `{"a":"\ud800"}`, refused: true},
		"invalid UTF-8":         {input: "{\"a\":\"\xff\"}", refused: true},
		"duplicate keys":        {input: `{"a":1,"a":2}`, refused: true},
		"depth 900":             {input: nested(900)},
		"depth 1 001":           {input: nested(1001), refused: true},
		"depth 10 000":          {input: nested(10_000), refused: true},
		"1e308":                 {input: `{"a":1e308}`, seen: `{"a":1e+308}`},
		"1e400":                 {input: `{"a":1e400}`, refused: true},
		"300 digits":            {input: `{"a":` + digits + `}`, seen: `{"a":7.` + digits[1:] + `e+299}`},
		"minus zero":            {input: `{"a":-0}`, seen: `{"a":0}`},
		"empty texts":           {input: `{"":"","a":[],"b":{}}`},
		"odd keys":              {input: `{"__proto__":1,"a.b":2,"a/b~":3,"\"":4," ":5,"${x}":6,"日本":7}`},
		"a scalar":              {input: `7`},
		"null":                  {input: `null`},
		"odd entity and labels": {input: `1`, more: `,"entity_id":` + quoted(odd) + `,"labels":{` + quoted(odd) + `:` + quoted(odd) + `}`},
		"nul in the entity":     {input: `1`, more: `,"entity_id":"a\u0000"`, refused: true},
		"nul in a label":        {input: `1`, more: `,"labels":{"a":"\u0000"}`, refused: true},
		"surrogate in a label":  {input: `1`, more: `,"labels":{"a":"\ud800"}`, refused: true},
		"entity too long":       {input: `1`, more: `,"entity_id":"` + strings.Repeat("é", 257) + `"`, refused: true},
		"entity as long as can": {input: `1`, more: `,"entity_id":"` + strings.Repeat("👩", 256) + `"`},
	}
	type submitted struct{ run, neighbour string }
	runs := map[string]submitted{}
	for name, tt := range tests {
		answer := s.Do(http.MethodPost, "/v1/runs", "poison "+name, `{"pipeline":"echo","input":`+tt.input+tt.more+`}`)
		neighbour, err := s.Submit("echo", "beside "+name, map[string]any{"a": 1})
		require.NoError(t, err)
		run, _ := answer.JSON(t)["run_id"].(string)
		runs[name] = submitted{run: run, neighbour: neighbour}
		if tt.refused {
			require.Equal(t, http.StatusBadRequest, answer.Status, "%s: %s", name, answer.Body)
			require.Contains(t, []any{"MALFORMED_BODY", "INPUT_INVALID", "INVALID_ARGUMENT"}, answer.JSON(t)["reason"], "%s: %s", name, answer.Body)
			require.NotEmpty(t, answer.JSON(t)["detail"], name)
			continue
		}
		require.Equal(t, http.StatusAccepted, answer.Status, "%s: %s", name, answer.Body)
	}
	for name, tt := range tests {
		require.Equal(t, "done", s.AwaitEnd(runs[name].neighbour).Status, name)
		if tt.refused {
			continue
		}
		run := s.AwaitEnd(runs[name].run)
		require.Equal(t, "done", run.Status, "%s: %s: %s", name, run.Reason, run.Error)
		var result struct {
			Input  json.RawMessage
			Entity string
			Labels map[string]string
		}
		require.NoError(t, json.Unmarshal(run.Result, &result), "%.2000s", run.Result)
		want := tt.seen
		if want == "" {
			want = tt.input
		}
		require.Equal(t, exactly(t, want), exactly(t, string(result.Input)), name)
		if strings.HasPrefix(name, "odd entity") {
			require.Equal(t, odd, result.Entity)
			require.Equal(t, map[string]string{odd: odd}, result.Labels)
		}
	}
	requireNothingLeft(t, s)
}
