package strict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/llmgateway/provider/strict"
)

func TestWhichSchemasAreStrict(t *testing.T) {
	t.Parallel()
	const closed = `"type":"object","additionalProperties":false`
	for name, c := range map[string]struct {
		schema            string
		openai, anthropic bool
	}{
		"closed object":             {`{` + closed + `,"properties":{"a":{"type":"string"}},"required":["a"]}`, true, true},
		"optional property":         {`{` + closed + `,"properties":{"a":{"type":"string"}}}`, false, true},
		"open object":               {`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, false, false},
		"object that is said open":  {`{"type":"object","additionalProperties":true}`, false, false},
		"properties without a type": {`{"properties":{}}`, false, false},
		"no properties":             {`{` + closed + `}`, true, true},
		"inner open object":         {`{` + closed + `,"properties":{"a":{"type":"object"}},"required":["a"]}`, false, false},
		"perhaps an object":         {`{` + closed + `,"properties":{"a":{"type":["object","null"]}},"required":["a"]}`, false, false},
		"bounds of numbers":         {`{` + closed + `,"properties":{"a":{"type":"number","minimum":1}},"required":["a"]}`, true, false},
		"bounds of texts":           {`{` + closed + `,"properties":{"a":{"type":"string","maxLength":1}},"required":["a"]}`, false, false},
		"list":                      {`{` + closed + `,"properties":{"a":{"type":"array","items":{"type":"string"},"minItems":1}},"required":["a"]}`, true, true},
		"long list":                 {`{` + closed + `,"properties":{"a":{"type":"array","items":{"type":"string"},"minItems":2}},"required":["a"]}`, true, false},
		"list of open objects":      {`{` + closed + `,"properties":{"a":{"type":"array","items":{"type":"object"}}},"required":["a"]}`, false, false},
		"list of anything":          {`{` + closed + `,"properties":{"a":{"type":"array","items":true}},"required":["a"]}`, false, false},
		"list on top":               {`{"type":"array","items":{"type":"string"}}`, false, true},
		"either":                    {`{` + closed + `,"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["a"]}`, true, true},
		"either, one open":          {`{` + closed + `,"properties":{"a":{"anyOf":[{"type":"object"},{"type":"null"}]}},"required":["a"]}`, false, false},
		"both":                      {`{` + closed + `,"properties":{"a":{"allOf":[{"type":"string"}]}},"required":["a"]}`, false, true},
		"just one of":               {`{` + closed + `,"properties":{"a":{"oneOf":[{"type":"string"}]}},"required":["a"]}`, false, false},
		"enum":                      {`{` + closed + `,"properties":{"a":{"enum":["x",1,null,true]}},"required":["a"]}`, true, true},
		"enum of objects":           {`{` + closed + `,"properties":{"a":{"enum":[{}]}},"required":["a"]}`, false, false},
		"definitions":               {`{` + closed + `,"properties":{"a":{"$ref":"#/$defs/b"}},"required":["a"],"$defs":{"b":{"type":"string"}}}`, true, true},
		"open definition":           {`{` + closed + `,"properties":{"a":{"$ref":"#/$defs/b"}},"required":["a"],"$defs":{"b":{"type":"object"}}}`, false, false},
		"definition elsewhere":      {`{` + closed + `,"properties":{"a":{"$ref":"https://x/y"}},"required":["a"]}`, false, false},
		"recursion to the top":      {`{` + closed + `,"properties":{"a":{"$ref":"#"}},"required":["a"]}`, true, false},
		"recursion of a definition": {`{` + closed + `,"properties":{"a":{"$ref":"#/$defs/b"}},"required":["a"],"$defs":{"b":{"type":"array","items":{"$ref":"#/$defs/b"}}}}`, true, false},
		"used twice":                {`{` + closed + `,"properties":{"a":{"$ref":"#/$defs/b"},"c":{"$ref":"#/$defs/b"}},"required":["a","c"],"$defs":{"b":{"type":"string"}}}`, true, true},
		"word that is not known":    {`{` + closed + `,"if":{}}`, false, false},
		"true":                      {`true`, false, false},
		"null":                      {`null`, false, false},
		"not JSON":                  {`{`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.openai, strict.OpenAI([]byte(c.schema)))
			require.Equal(t, c.anthropic, strict.Anthropic([]byte(c.schema)))
		})
	}
}

func TestObjects(t *testing.T) {
	t.Parallel()
	require.True(t, strict.IsObject([]byte(`{"type":"object"}`)))
	require.False(t, strict.IsObject([]byte(`{"type":"array"}`)))
	require.False(t, strict.IsObject([]byte(`{"type":["object"]}`)))
	require.False(t, strict.IsObject([]byte(`[`)))
}

func FuzzStrict(f *testing.F) {
	f.Add([]byte(`{"type":"object","additionalProperties":false,"properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"$ref":"#"}}}`))
	f.Fuzz(func(_ *testing.T, schema []byte) {
		strict.OpenAI(schema)
		strict.Anthropic(schema)
	})
}
