package extract_test

import (
	"bytes"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// conforms returns how an answer breaks a schema, as an independent validator sees it.
func conforms(tb testing.TB, schema, answer []byte) error {
	tb.Helper()
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	require.NoError(tb, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(tb, c.AddResource("schema.json", parsed))
	compiled, err := c.Compile("schema.json")
	require.NoError(tb, err)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(answer))
	require.NoError(tb, err)
	return compiled.Validate(value)
}
