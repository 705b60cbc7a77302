package extract_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"pawl.internal/services/llmgateway/provider/simulated/extract"
)

const examples = "../../../../../examples"

// step is what the test needs of a pipeline's llm step.
type step struct {
	Name string
	LLM  struct {
		System       string
		Prompt       string
		OutputSchema any `yaml:"output_schema"`
	} `yaml:"llm"`
}

// pipeline is document_extract, run by hand: the same prompts and schemas, without the services around them.
type pipeline struct {
	engine *extract.Engine
	steps  map[string]step
}

func documentExtract(tb testing.TB) *pipeline {
	tb.Helper()
	source, err := os.ReadFile(examples + "/pipelines/document_extract.yaml")
	require.NoError(tb, err)
	var file struct{ Steps []step }
	require.NoError(tb, yaml.Unmarshal(source, &file))
	p := &pipeline{engine: extract.New(), steps: map[string]step{}}
	for _, s := range file.Steps {
		p.steps[s.Name] = s
	}
	return p
}

// run answers one step with the holes of its prompt filled.
func (p *pipeline) run(tb testing.TB, name string, holes ...string) []byte {
	tb.Helper()
	s, ok := p.steps[name]
	require.True(tb, ok, "document_extract has no step %s", name)
	schema, err := json.Marshal(s.LLM.OutputSchema)
	require.NoError(tb, err)
	prompt := strings.NewReplacer(holes...).Replace(s.LLM.Prompt)
	require.NotContains(tb, prompt, "${", "the prompt of step %s has a hole that this test does not fill", name)
	answer, err := p.engine.Answer(extract.Prompt{Instructions: s.LLM.System, Text: prompt}, schema)
	require.NoError(tb, err)
	require.NoError(tb, conforms(tb, schema, answer), "answer of step %s: %s", name, answer)
	return answer
}

// extract runs all three steps over a contract and returns what the last one found.
func (p *pipeline) extract(tb testing.TB, contract string) (fields map[string]any, summary string) {
	tb.Helper()
	var split sectionList
	require.NoError(tb, json.Unmarshal(p.run(tb, "sections", "${input.text}", contract), &split))
	var parts []json.RawMessage
	for _, s := range split.Sections {
		parts = append(parts, p.run(tb, "fields", "${item.title}", s.Title, "${item.text}", s.Text))
	}
	found, err := json.Marshal(parts)
	require.NoError(tb, err)
	var last struct {
		Fields  map[string]any `json:"fields"`
		Summary string         `json:"summary"`
	}
	require.NoError(tb, json.Unmarshal(p.run(tb, "summary", "${steps.fields.output}", string(found)), &last))
	return last.Fields, last.Summary
}

// sectionList is the answer of the first step.
type sectionList struct {
	Sections []struct {
		Title string `json:"title"`
		Text  string `json:"text"`
	} `json:"sections"`
}

// contracts returns the example contracts by name, with their true answers.
func contracts(tb testing.TB) map[string]contract {
	tb.Helper()
	answers, err := filepath.Glob(examples + "/contracts/*.truth.json")
	require.NoError(tb, err)
	require.Len(tb, answers, 10)
	all := map[string]contract{}
	for _, path := range answers {
		base := strings.TrimSuffix(path, ".truth.json")
		texts, err := filepath.Glob(base + ".[tm]*[td]")
		require.NoError(tb, err)
		require.Len(tb, texts, 1, base)
		text, err := os.ReadFile(texts[0])
		require.NoError(tb, err)
		source, err := os.ReadFile(path)
		require.NoError(tb, err)
		c := contract{text: string(text)}
		require.NoError(tb, json.Unmarshal(source, &c.truth))
		all[filepath.Base(base)] = c
	}
	return all
}

type contract struct {
	text  string
	truth map[string]any
}

// TestAccuracy runs document_extract over the ten contracts and compares every field with the truth.
func TestAccuracy(t *testing.T) {
	p := documentExtract(t)
	all := contracts(t)
	right, total := 0, 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fields, summary := p.extract(t, all[name].text)
		t.Logf("%s: %s", name, summary)
		for _, field := range slices.Sorted(maps.Keys(all[name].truth)) {
			total++
			if want := all[name].truth[field]; fields[field] == want {
				right++
			} else {
				t.Errorf("%s: %s is %v, want %v", name, field, fields[field], want)
			}
		}
	}
	t.Logf("%d of %d fields are right", right, total)
}

// TestWholeContract asks for the fields of a whole contract in one call.
func TestWholeContract(t *testing.T) {
	p := documentExtract(t)
	for name, c := range contracts(t) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal(p.run(t, "fields", "${item.title}", "whole contract", "${item.text}", c.text), &fields))
		require.Equal(t, c.truth, fields, name)
	}
}

// TestSectionsSaveEverything checks that no line of a contract is lost when it is cut into sections.
func TestSectionsSaveEverything(t *testing.T) {
	p := documentExtract(t)
	for name, c := range contracts(t) {
		var split sectionList
		require.NoError(t, json.Unmarshal(p.run(t, "sections", "${input.text}", c.text), &split))
		require.Len(t, split.Sections, 11, "%s: ten numbered sections and what stands before them", name)
		var again []string
		for _, s := range split.Sections[1:] {
			again = append(again, strings.Fields(s.Title+"\n"+s.Text)...)
		}
		again = append(strings.Fields(split.Sections[0].Text), again...)
		require.Equal(t, strings.Fields(strings.ReplaceAll(c.text, "## ", "")), again, name)
	}
}
