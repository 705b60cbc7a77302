package pipeline

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/canon"
)

func check(t *testing.T, s *Schema, value string) []Violation {
	t.Helper()
	decoded, err := canon.Decode([]byte(value))
	require.NoError(t, err)
	return s.Validate(decoded)
}

// TestSchemasWhoseBranchesMultiplyEnd would not end otherwise, not in years.
func TestSchemasWhoseBranchesMultiplyEnd(t *testing.T) {
	t.Parallel()
	var twice strings.Builder
	for i := range 60 {
		fmt.Fprintf(&twice, `"a%d": {"anyOf": [{"$ref": "#/$defs/a%d"}, {"$ref": "#/$defs/a%d"}]},`, i+1, i, i)
	}
	many := strings.Repeat(`{"$ref": "#/$defs/a"},`, 500)
	for name, c := range map[string]struct{ schema, value string }{
		"references":           {`{"$defs": {` + twice.String() + `"a0": {"type": "object"}}, "$ref": "#/$defs/a60"}`, `1`},
		"references, negated":  {`{"$defs": {` + twice.String() + `"a0": {"type": "object"}}, "not": {"$ref": "#/$defs/a60"}}`, `1`},
		"one of":               {strings.ReplaceAll(`{"$defs": {`+twice.String()+`"a0": {"minimum": 5}}, "$ref": "#/$defs/a60"}`, "anyOf", "oneOf"), `1`},
		"recursion":            {`{"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}], "type": "array"}`, strings.Repeat("[", 100) + "1" + strings.Repeat("]", 100)},
		"patterns, negated":    {`{"not": {"$ref": "#/$defs/x"}, "$defs": {"x": {"patternProperties": {"a": {"$ref": "#/$defs/x"}, "^a": {"$ref": "#/$defs/x"}}}}}`, strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)},
		"many that fail early": {`{"$defs": {"a": {"type": "object"}, "b": {"anyOf": [` + many + `{"$ref": "#/$defs/a"}]}, "c": {"anyOf": [` + strings.ReplaceAll(many, "/a", "/b") + `{"$ref": "#/$defs/b"}]}}, "anyOf": [` + strings.ReplaceAll(many, "/a", "/c") + `{"$ref": "#/$defs/c"}]}`, `1`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, problems := newSchema(json.RawMessage(c.schema))
			require.Empty(t, problems)
			for range 2 { // the checker is used again
				require.Equal(t, []Violation{{Message: errTooMuchWork.Error()}}, check(t, s, c.value))
			}
		})
	}
}

func TestLargeValuesAreNotTooMuchWork(t *testing.T) {
	t.Parallel()
	s, problems := newSchema(json.RawMessage(`{"type": "array", "uniqueItems": false, "items": {"$ref": "#/$defs/node"}, "$defs": {"node": {"oneOf": [
		{"type": "object", "required": ["left", "right"], "properties": {"kind": {"const": "sum"}, "left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"}}},
		{"type": "object", "required": ["of"], "properties": {"kind": {"const": "not"}, "of": {"$ref": "#/$defs/node"}}},
		{"type": "integer"}]}}}`))
	require.Empty(t, problems)
	value := "[" + strings.Repeat(`{"kind":"sum","left":{"kind":"not","of":1},"right":{"kind":"sum","left":2,"right":3}},`, 10_000) + "1]"
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() { require.Empty(t, check(t, s, value)) })
	}
	group.Wait()
	require.Equal(t, []Violation{{Path: "", Message: "got string, want array"}}, check(t, s, `"x"`))
}
