package scenario

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// TestPublicContract holds the REST API to what its first users were promised, word for word.
func TestPublicContract(t *testing.T) {
	p := harness.StartProvider(t)
	s := harness.Start(t, harness.Config{Provider: p})
	t.Run("a document is extracted", func(t *testing.T) { testExtraction(t, s.For(t), p.For(t)) })
	t.Run("429 is retried with backoff", func(t *testing.T) { testBackoff(t, s.For(t), p.For(t)) })
	t.Run("a stated wait is waited for", func(t *testing.T) { testStatedWait(t, s.For(t), p.For(t)) })
	t.Run("a blank document fails at once", func(t *testing.T) { testBlank(t, s.For(t), p.For(t)) })
	t.Run("a job", func(t *testing.T) { testJob(t, s.For(t), p.For(t)) })
	t.Run("a run is watched", func(t *testing.T) { testWatch(t, s.For(t), p.For(t)) })
}

func testExtraction(t *testing.T, s *harness.System, p *harness.Provider) {
	contract := contracts(t)[0]
	stored := s.Do(http.MethodPost, "/documents", "seed document", map[string]any{"text": contract.text})
	require.Equal(t, http.StatusCreated, stored.Status, "%s", stored.Body)
	document := stored.JSON(t)["document_id"]

	before := p.Report()
	release := p.Inject(simulated.Fault{Kind: "hold", Contains: fieldsPrompt})
	accepted := s.Do(http.MethodPost, fmt.Sprintf("/documents/%s/extract", document), "seed extract", nil)
	require.Equal(t, http.StatusAccepted, accepted.Status, "%s", accepted.Body)
	id, _ := accepted.JSON(t)["run_id"].(string)
	require.NotEmpty(t, id)
	require.Equal(t, "/v1/runs/"+id, accepted.Header.Get("Location"))

	p.AwaitInFlight(8)
	var running map[string]json.RawMessage
	require.NoError(t, s.Do(http.MethodGet, "/runs/"+id, "", nil).Decode(&running))
	require.JSONEq(t, `"running"`, string(running["status"]))
	require.JSONEq(t, `"fields"`, string(running["current_step"]))
	require.JSONEq(t, `1`, string(running["steps_done"]))
	require.JSONEq(t, `3`, string(running["steps_total"]))
	requireCost(t, s, id, running["cost_so_far_usd"])

	release()
	requireExtracted(t, s, contract, id)
	var done map[string]json.RawMessage
	require.NoError(t, s.Do(http.MethodGet, "/runs/"+id, "", nil).Decode(&done))
	require.JSONEq(t, `null`, string(done["current_step"]))
	requireCost(t, s, id, done["cost_so_far_usd"])
	requireAskedOnce(t, s, p, before.Received, id)
}

// requireCost fails unless the amount is a JSON number above zero, and equal to the sum over the requests to the last digit.
func requireCost(t *testing.T, s *harness.System, run string, amount json.RawMessage) {
	t.Helper()
	var number json.Number
	require.NoError(t, json.Unmarshal(amount, &number))
	require.NotContains(t, string(amount), `"`, "the cost is a number")
	require.Equal(t, s.Text("SELECT trim_scale(sum(cost))::text FROM llm.llm_try WHERE run_id = $1", run), number.String())
	positive, err := number.Float64()
	require.NoError(t, err)
	require.Positive(t, positive)
}

// testBackoff lets the provider refuse two of the requests of step 2, without saying for how long.
func testBackoff(t *testing.T, s *harness.System, p *harness.Provider) {
	contract := contracts(t)[1]
	before := p.Report()
	p.Inject(simulated.Fault{Kind: "429", Contains: fieldsPrompt, Count: 2})
	run, err := extract(s, contract, "seed 429")
	require.NoError(t, err)
	requireExtracted(t, s, contract, run)

	refused := 0
	for _, step := range s.Steps(run) {
		switch {
		case step.Name != "fields" || step.Shard == nil:
		case step.Attempt == 2:
			refused++
		default:
			require.Equal(t, 1, step.Attempt, "%+v", step)
		}
	}
	require.Equal(t, 2, refused, "shards with two attempts")
	calls := s.Calls(run)
	requests := p.Since(before)
	require.Len(t, requests, len(calls)+2, "every question once, and the two refused ones once more")
	for fingerprint, sent := range byFingerprint(requests) {
		require.LessOrEqual(t, len(sent), 2)
		if len(sent) == 2 {
			require.Equal(t, http.StatusTooManyRequests, sent[0].Status, fingerprint)
			requireWaited(t, sent[0], sent[1], 5*time.Second) // the pipeline's `initial`
		}
	}
}

// twoSteps is a pipeline of two questions whose retries are quick.
const twoSteps = `
name: two_steps
version: v1
steps:
  - name: one
    llm: {prompt: "First question about ${input.topic}"}
  - name: two
    llm: {prompt: "Second question about ${input.topic}, after ${steps.one.output}"}
    retry: {max_attempts: 4, initial: 200ms, factor: 2, jitter: 0}
`

// testStatedWait lets the provider refuse step 2 three times, twice with a stated wait.
func testStatedWait(t *testing.T, s *harness.System, p *harness.Provider) {
	registerSource(t, s, twoSteps)
	const question = "Second question"
	before := p.Report()
	p.Inject(simulated.Fault{Kind: "429", Argument: "1s", Contains: question, Count: 1})
	p.Inject(simulated.Fault{Kind: "429", Argument: "2s", Contains: question, Count: 1})
	p.Inject(simulated.Fault{Kind: "503", Contains: question, Count: 1})
	run := s.Do(http.MethodPost, "/v1/runs", "seed wait", map[string]any{
		"pipeline": "two_steps", "input": map[string]any{"topic": "waiting"},
	}).JSON(t)["run_id"].(string)
	require.Equal(t, "done", s.AwaitEnd(run).Status)

	requests := p.Since(before)
	require.Len(t, requests, 5)
	var statuses []int
	for _, r := range requests {
		statuses = append(statuses, r.Status)
	}
	require.Equal(t, []int{200, 429, 429, 503, 200}, statuses)
	requireWaited(t, requests[1], requests[2], time.Second)
	requireWaited(t, requests[2], requests[3], 2*time.Second)
	requireWaited(t, requests[3], requests[4], 200*time.Millisecond)
	require.Equal(t, 1, stepNamed(t, s.Steps(run), "one").Attempt)
	require.Equal(t, 2, stepNamed(t, s.Steps(run), "two").Attempt, "only the 503 has cost an attempt: waiting for a limit is none")
	calls := s.Calls(run)
	require.Len(t, calls, 2, "a request that was refused is no new question: %+v", calls)
	require.Len(t, calls[1].Tries, 4)
}

// requireWaited fails when the second request came sooner after the end of the first than it should.
func requireWaited(t *testing.T, first, second simulated.Record, least time.Duration) {
	t.Helper()
	ended := first.ReceivedAt.Add(time.Duration(first.Seconds * float64(time.Second)))
	require.GreaterOrEqual(t, second.ReceivedAt.Sub(ended), least)
}

func byFingerprint(requests []simulated.Record) map[string][]simulated.Record {
	groups := map[string][]simulated.Record{}
	for _, r := range requests {
		groups[r.Fingerprint] = append(groups[r.Fingerprint], r)
	}
	return groups
}

func testBlank(t *testing.T, s *harness.System, p *harness.Provider) {
	before := p.Report()
	stored := s.Do(http.MethodPost, "/documents", "blank document", map[string]any{"text": " \n\t \u00a0\n"})
	require.Equal(t, http.StatusCreated, stored.Status, "%s", stored.Body)
	accepted := s.Do(http.MethodPost, fmt.Sprintf("/documents/%s/extract", stored.JSON(t)["document_id"]), "blank", nil)
	require.Equal(t, http.StatusAccepted, accepted.Status, "%s", accepted.Body)
	run := s.AwaitEnd(accepted.JSON(t)["run_id"].(string))
	require.Equal(t, "failed", run.Status)
	require.Equal(t, "invalid_input", run.Reason)
	require.NotEmpty(t, run.Error)
	require.JSONEq(t, "0", run.CostSoFar.String())
	sections := stepNamed(t, s.Steps(run.RunID), "sections")
	require.Equal(t, "failed", sections.Status)
	require.Equal(t, 1, sections.Attempt)
	require.Empty(t, s.Calls(run.RunID))
	require.Empty(t, p.Since(before))
}

func testJob(t *testing.T, s *harness.System, p *harness.Provider) {
	before := p.Report()
	body := map[string]any{
		"model": "default", "messages": []map[string]string{{"role": "user", "content": "Say something."}}, "max_tokens": 50,
	}
	first := s.Do(http.MethodPost, "/v1/jobs", "seed job", body)
	require.Equal(t, http.StatusAccepted, first.Status, "%s", first.Body)
	require.Equal(t, "queued", first.JSON(t)["status"])
	id, _ := first.JSON(t)["job_id"].(string)
	second := s.Do(http.MethodPost, "/v1/jobs", "seed job", body)
	require.Equal(t, http.StatusAccepted, second.Status, "%s", second.Body)
	require.Equal(t, map[string]any{"job_id": id, "status": "duplicate"}, second.JSON(t))

	var job struct {
		Status    string
		Result    string
		CostSoFar json.RawMessage `json:"cost_so_far_usd"`
	}
	harness.Eventually(t, func() error {
		if err := s.Do(http.MethodGet, "/v1/jobs/"+id, "", nil).Decode(&job); err != nil {
			return err
		}
		if job.Status != "done" {
			return fmt.Errorf("the job is %s", job.Status)
		}
		return nil
	})
	require.NotEmpty(t, job.Result)
	requireCost(t, s, id, job.CostSoFar)
	require.Len(t, p.Since(before), 1)
}
