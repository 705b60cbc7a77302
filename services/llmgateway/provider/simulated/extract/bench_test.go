package extract_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/llmgateway/provider/simulated/extract"
)

// BenchmarkAnswer measures one answer: fields is a section of a contract, small is a prompt of the kind that load tests send.
func BenchmarkAnswer(b *testing.B) {
	p := documentExtract(b)
	var split sectionList
	require.NoError(b, json.Unmarshal(p.run(b, "sections", "${input.text}", contracts(b)["01-ru-supply"].text), &split))
	fields, err := json.Marshal(p.steps["fields"].LLM.OutputSchema)
	require.NoError(b, err)
	small := []byte(`{"type":"object","required":["answer"],"properties":{"answer":{"type":"string"}}}`)
	for name, c := range map[string]struct {
		text   string
		schema []byte
	}{
		"fields": {"Section: " + split.Sections[2].Title + "\n\n" + split.Sections[2].Text, fields},
		"small":  {"Say what the weather is like in item 17.", small},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.engine.Answer(extract.Prompt{Text: c.text}, c.schema); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
