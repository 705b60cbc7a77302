package pipeline_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/expr"
	"pawl.internal/services/internal/pipeline"
)

func BenchmarkCompile(b *testing.B) {
	builtins, err := pipeline.Builtins()
	require.NoError(b, err)
	compiler := newCompiler(b)
	for b.Loop() {
		_, err := compiler.Compile("", builtins[0].Source)
		require.NoError(b, err)
	}
}

func BenchmarkTransform(b *testing.B) {
	source, err := os.ReadFile("../../../examples/pipelines/transform_chain.yaml")
	require.NoError(b, err)
	step := compile(b, string(source)).Steps[1]
	data := expr.Data{Steps: map[string]json.RawMessage{"first": json.RawMessage(`{"n":1}`)}}
	for b.Loop() {
		_, err := step.Transform(expr.NewScope(data))
		require.NoError(b, err)
	}
}

func BenchmarkAnswer(b *testing.B) {
	builtins, err := pipeline.Builtins()
	require.NoError(b, err)
	step := compile(b, string(builtins[0].Source)).Step("fields")
	answer := `{"contract_number":"K-1","contract_date":"2024-01-02","party_a":"A","party_b":"B","subject":"s","amount":1.5,"currency":"EUR","payment_term_days":30,"valid_until":null,"governing_law":null}`
	for b.Loop() {
		_, violations, err := step.Answer(answer)
		require.NoError(b, err)
		require.Empty(b, violations)
	}
}
