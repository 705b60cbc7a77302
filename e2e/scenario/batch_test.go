package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// question is an input that asks a model once; each is another one.
func question(text string) map[string]any {
	return map[string]any{"model": "default", "messages": []any{map[string]any{"role": "user", "content": text}}, "max_tokens": 20}
}

// results are the lines of a batch's results.
func results(t *testing.T, s *harness.System, batch string) (lines []map[string]any) {
	t.Helper()
	response := s.Do(http.MethodGet, "/v1/batches/"+batch+"/results", "", nil)
	require.Equal(t, http.StatusOK, response.Status, "%s", response.Body)
	for line := range strings.Lines(string(response.Body)) {
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &object), line)
		lines = append(lines, object)
	}
	return lines
}

// TestI01_ABatchFromItsUploadToItsResults: every item is a run that is paid once, the results come each once, the cost is that of
// the runs, and what has failed is run again on request.
func TestI01_ABatchFromItsUploadToItsResults(t *testing.T) {
	t.Parallel()
	const items = 60
	p := harness.StartProvider(t)
	s := harness.Start(t, harness.Config{Provider: p})
	remove := p.Inject(simulated.Fault{Kind: "400", Contains: "bad letter"})
	batch := s.UploadBatch("llm_completion", items, func(i int) any {
		text := fmt.Sprintf("letter %d", i)
		if i%20 == 0 {
			text = fmt.Sprintf("bad letter %d", i)
		}
		return map[string]any{"custom_id": fmt.Sprintf("c%d", i), "input": question(text)}
	})
	state := s.AwaitBatch(batch)
	require.Equal(t, "completed", state.Status)
	require.Equal(t, []int{items, items - 3, 3}, []int{state.Counts.Total, state.Counts.Done, state.Counts.Failed})
	seen := map[any]bool{}
	for _, line := range results(t, s, batch) {
		require.False(t, seen[line["custom_id"]], "%v comes twice", line["custom_id"])
		seen[line["custom_id"]] = true
	}
	require.Len(t, seen, items)
	require.Equal(t, s.Text(`SELECT sum(t.cost)::text FROM llm.llm_try t JOIN core.pipeline_run r ON r.id = t.run_id WHERE r.batch_id = $1`, batch),
		s.Text(`SELECT sum(cost_usd)::text FROM core.pipeline_run WHERE batch_id = $1`, batch))

	remove()
	require.NoError(t, s.Do(http.MethodPost, "/v1/batches/"+batch+":retry_failed", "", map[string]any{"reason": "mended"}).Decode(nil))
	harness.Eventually(t, func() error {
		now, err := s.Batch(batch)
		if err == nil && (now.Counts.Done != items || now.Status != "completed") {
			err = fmt.Errorf("the batch is %+v", now)
		}
		return err
	})
	require.Len(t, results(t, s, batch), items)
}

// TestI12_ACancelledBatchBeginsNothing: with more items than can run at once; afterwards nothing can be claimed, no stream has an
// entry, and no request is sent, also after a restart of everything.
func TestI12_ACancelledBatchBeginsNothing(t *testing.T) {
	t.Parallel()
	const items, concurrency = 1500, 8
	p := harness.StartProvider(t, "--latency", "300ms")
	s := harness.Start(t, harness.Config{Provider: p, Concurrency: concurrency})
	batch := s.UploadBatch("llm_completion", items, func(i int) any { return map[string]any{"input": question(fmt.Sprintf("letter %d", i))} })
	p.AwaitInFlight(concurrency)
	state := s.CancelBatch(batch)
	require.Equal(t, "cancelled", state.Status)
	require.Equal(t, items, state.Counts.Done+state.Counts.Cancelled)
	s.AwaitNone("steps can be claimed", `SELECT count(*) FROM core.step_live`)
	for _, stream := range s.Streams() {
		harness.Eventually(t, func() error {
			n, err := s.Redis.Client.XLen(t.Context(), stream).Result()
			if err == nil && n > 0 {
				err = errors.New("a stream has entries")
			}
			return err
		})
	}
	sent := p.Report().Received
	before := s.Record()
	s.Terminate()
	s.AwaitEnded(before)
	s.Up()
	s.AwaitEnd(mustSubmit(t, s)) // the system works
	require.Equal(t, sent+1, p.Report().Received, "a request of the cancelled batch was sent")
}

// mustSubmit starts a run of one question.
func mustSubmit(t *testing.T, s *harness.System) string {
	t.Helper()
	id, err := s.Submit("llm_completion", "after-the-cancel", question("are you there?"))
	require.NoError(t, err)
	return id
}

// TestI09_ABatchKeepsToItsBudget: its items ask for what there is money for, and no more.
func TestI09_ABatchKeepsToItsBudget(t *testing.T) {
	t.Parallel()
	p := harness.StartProvider(t)
	s := harness.Start(t, harness.Config{Provider: p, Concurrency: 1})
	var list []any
	for i := range 20 {
		list = append(list, map[string]any{"input": question(fmt.Sprintf("letter %d", i))})
	}
	response := s.Do(http.MethodPost, "/v1/batches", "with-a-budget", map[string]any{
		"batch": map[string]any{"pipeline": "llm_completion", "budget_usd": "0.0002"}, "items": list,
	})
	require.Equal(t, http.StatusAccepted, response.Status, "%s", response.Body)
	id, _ := response.JSON(t)["batch_id"].(string)
	state := s.AwaitBatch(id)
	require.Positive(t, state.Counts.Done)
	require.Positive(t, state.Counts.Failed)
	cost, err := state.CostSoFar.Float64()
	require.NoError(t, err)
	require.LessOrEqual(t, cost, 0.0002)
	require.Equal(t, state.Counts.Failed, s.Count(`SELECT count(*) FROM core.pipeline_run WHERE batch_id = $1 AND reason = 'budget_exceeded'`, id))
}
