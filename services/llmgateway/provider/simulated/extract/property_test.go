package extract_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pawl.internal/services/llmgateway/provider/simulated/extract"
)

// schemas draws a schema of the usual keywords, at most depth levels deep.
func schemas(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kinds := []string{"string", "number", "integer", "boolean", "enum"}
		if depth > 0 {
			kinds = append(kinds, "object", "array", "nullable")
		}
		switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
		case "object":
			return object(t, depth)
		case "array":
			least := rapid.IntRange(0, 3).Draw(t, "least")
			return map[string]any{"type": "array", "items": schemas(depth-1).Draw(t, "items"), "minItems": least, "maxItems": least + 2}
		case "nullable":
			return map[string]any{"anyOf": []any{schemas(depth-1).Draw(t, "alternative"), map[string]any{"type": "null"}}}
		case "enum":
			return map[string]any{"enum": rapid.SliceOfN(rapid.SampledFrom([]any{"one", "two", "срок", "other", 4, true, nil}), 1, 4).Draw(t, "enum")}
		case "string":
			least := rapid.IntRange(0, 20).Draw(t, "least")
			return map[string]any{"type": []any{"string", "null"}[:rapid.IntRange(1, 2).Draw(t, "types")], "minLength": least, "maxLength": least + 30}
		case "boolean":
			return map[string]any{"type": kind}
		default:
			least := rapid.IntRange(-50, 50).Draw(t, "least")
			return map[string]any{"type": kind, "minimum": least, "maximum": least + rapid.IntRange(0, 100).Draw(t, "range")}
		}
	})
}

func object(t *rapid.T, depth int) any {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
		"contract_number", "amount", "currency", "party_a", "sections", "title", "text", "summary", "confidence", "language", "is_late",
		"due_days", "note", "valid_until", "items",
	}), 0, 6, rapid.ID[string]).Draw(t, "names")
	properties := map[string]any{}
	for _, name := range names {
		properties[name] = schemas(depth-1).Draw(t, name)
	}
	return map[string]any{"type": "object", "properties": properties, "required": names, "additionalProperties": false}
}

// TestAlwaysConforms holds the engine to its promise: an answer fits its schema, whatever both are, and is the same every time.
func TestAlwaysConforms(t *testing.T) {
	texts := []string{
		"", " ", "???", "Договор № 5 от 1 мая 2026 г. Цена договора — 5 рублей.", "1. A\n\nTotal price: USD 7.\n\n2. B\n\nover",
		`[{"amount":"x","summary":null},{"amount":5,"title":["a"]}]`, "[[[{", `{"text":"a\u0000b"}`, "\xff\xfe broken",
	}
	rapid.Check(t, func(rt *rapid.T) {
		schema, err := json.Marshal(schemas(3).Draw(rt, "schema"))
		require.NoError(rt, err)
		p := extract.Prompt{Text: rapid.SampledFrom(texts).Draw(rt, "text")}
		first, err := extract.New().Answer(p, schema)
		require.NoError(rt, err)
		require.NoError(rt, conforms(t, schema, first), "schema %s\nanswer %s", schema, first)
		again, err := extract.New().Answer(p, schema)
		require.NoError(rt, err)
		require.Equal(rt, string(first), string(again))
	})
}

// TestConcurrentUse answers from many goroutines with more schemas than the cache holds.
func TestConcurrentUse(t *testing.T) {
	e := extract.New()
	done := make(chan error)
	for worker := range 4 {
		go func() {
			for i := range 200 {
				schema := fmt.Sprintf(`{"type":"object","properties":{"n%d":{"type":["string","null"]}}}`, (i+worker*50)%300)
				if _, err := e.Answer(extract.Prompt{Text: "x"}, []byte(schema)); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 4 {
		require.NoError(t, <-done)
	}
}
