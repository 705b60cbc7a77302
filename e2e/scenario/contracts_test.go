package scenario

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"pawl.internal/e2e/harness"
)

// What the three steps of document_extract say to the model, and nobody else does.
const (
	sectionsPrompt = "You split contracts into sections."
	fieldsPrompt   = "You extract the terms of a contract from one of its sections."
	summaryPrompt  = "You are given the terms that were found in each section of one contract"
)

// contract is an example with its true answers.
type contract struct {
	name, mediaType, text string
	truth                 map[string]any
}

// contracts are the ten examples.
func contracts(t *testing.T) []contract {
	t.Helper()
	folder := filepath.Join(harness.Root(), "examples", "contracts")
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	var all []contract
	for _, entry := range entries {
		name, extension := strings.TrimSuffix(entry.Name(), filepath.Ext(entry.Name())), filepath.Ext(entry.Name())
		mediaType := map[string]string{".txt": "text/plain", ".md": "text/markdown"}[extension]
		if mediaType == "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		require.NoError(t, err)
		truth, err := os.ReadFile(filepath.Join(folder, name+".truth.json"))
		require.NoError(t, err)
		c := contract{name: name, mediaType: mediaType, text: string(text)}
		require.NoError(t, json.Unmarshal(truth, &c.truth))
		all = append(all, c)
	}
	require.Len(t, all, 10)
	return all
}

// extract stores the contract and starts its extraction, as a client that repeats itself until it is answered.
func extract(s *harness.System, c contract, key string) (runID string, err error) {
	document, err := s.Accept("/v1/documents", key+" document", map[string]any{
		"text": c.text, "media_type": c.mediaType, "external_id": c.name,
	})
	if err != nil {
		return "", fmt.Errorf("store %s: %w", c.name, err)
	}
	run, err := s.Accept(fmt.Sprintf("/v1/documents/%s/extract", document["document_id"]), key, map[string]any{})
	if err != nil {
		return "", fmt.Errorf("extract %s: %w", c.name, err)
	}
	runID, ok := run["run_id"].(string)
	if !ok {
		return "", fmt.Errorf("extract %s: the answer names no run: %v", c.name, run)
	}
	return runID, nil
}

// extractAll extracts the contracts at once, in the background; wait returns the runs in the contracts' order.
func extractAll(t *testing.T, s *harness.System, all []contract, key string) (wait func() []string) {
	t.Helper()
	runs := make([]string, len(all))
	var group errgroup.Group
	for i, c := range all {
		group.Go(func() (err error) {
			runs[i], err = extract(s, c, key+" "+c.name)
			return err
		})
	}
	return func() []string {
		t.Helper()
		require.NoError(t, group.Wait())
		return runs
	}
}

// requireExtracted waits for the end of the contract's run and fails unless it found every field.
func requireExtracted(t *testing.T, s *harness.System, c contract, runID string) {
	t.Helper()
	run := s.AwaitEnd(runID)
	require.Equal(t, "done", run.Status, "%s: run %s: %s: %s", c.name, runID, run.Reason, run.Error)
	result := resultOf(t, run)
	require.Equal(t, c.truth, result.Fields, c.name)
	require.NotEmpty(t, result.Summary, c.name)
	require.Equal(t, run.StepsTotal, run.StepsDone)
	require.Nil(t, run.CurrentStep)
}

// extraction is the result of document_extract.
type extraction struct {
	Fields  map[string]any
	Summary string
}

func resultOf(t *testing.T, run harness.RunState) (result extraction) {
	t.Helper()
	require.NoError(t, json.Unmarshal(run.Result, &result), "%s", run.Result)
	return result
}

// requireAskedOnce fails unless every step and shard of the runs has asked the model one question, and every question was
// sent once, by what was stored and by what the provider has counted since before.
func requireAskedOnce(t *testing.T, s *harness.System, p *harness.Provider, before int, runs ...string) {
	t.Helper()
	questions := 0
	for _, id := range runs {
		asking := 0
		for _, step := range s.Steps(id) {
			if step.Name != "fields" || step.Shard != nil { // a fan-out itself asks nothing
				asking++
			}
		}
		calls := s.Calls(id)
		require.Equal(t, asking, len(calls), "questions of run %s, one a step and shard", id) //nolint:testifylint // all calls are too many to show
		for _, call := range calls {
			require.Equal(t, "answered", call.State, "%+v", call)
			require.Len(t, call.Sent(), 1, "run %s: %s was sent more than once: %+v", id, call.Step, call)
		}
		questions += len(calls)
	}
	require.Equal(t, questions, p.Report().Received-before, "requests that the provider got")
}

// stepNamed returns the step's own row, not that of a shard.
func stepNamed(t *testing.T, steps []harness.Step, name string) harness.Step {
	t.Helper()
	i := slices.IndexFunc(steps, func(s harness.Step) bool { return s.Name == name && s.Shard == nil })
	require.GreaterOrEqual(t, i, 0, "there is no step %s in %+v", name, steps)
	return steps[i]
}
