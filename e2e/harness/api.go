package harness

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/stretchr/testify/require"
)

// Do sends a request to the REST API, with an idempotency key if it is not empty.
func (s *System) Do(method, path, idempotencyKey string, body any) Response {
	s.t.Helper()
	response, err := s.Try(s.record.REST, method, path, s.Header(idempotencyKey), body)
	require.NoError(s.t, err)
	return response
}

// Header authenticates a request, and carries an idempotency key if it is not empty.
func (s *System) Header(idempotencyKey string) http.Header {
	header := http.Header{"Authorization": {"Bearer " + s.record.APIKey}}
	if idempotencyKey != "" {
		header.Set("Idempotency-Key", idempotencyKey)
	}
	return header
}

// Try sends a request to a replica of intake, which may be away.
func (s *System) Try(rest, method, path string, header http.Header, body any) (Response, error) {
	return Exchange(s.t.Context(), method, rest+path, header, body)
}

// Accept repeats a creating request under one key until it is answered, as clients do, and returns the answer. It may be
// called from any goroutine.
func (s *System) Accept(path, idempotencyKey string, body any) (answer map[string]any, err error) {
	var response Response
	err = Await(s.t.Context(), func() (err error) {
		response, err = s.Try(s.record.REST, http.MethodPost, path, s.Header(idempotencyKey), body)
		if err == nil && response.Status >= http.StatusInternalServerError {
			err = response.Decode(nil)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, response.Decode(&answer)
}

// Submit starts a run of a pipeline, as a client that repeats itself until it is answered, and returns its id. More changes
// what the request says. It may be called from any goroutine.
func (s *System) Submit(pipeline, key string, input any, more ...func(map[string]any)) (string, error) {
	body := map[string]any{"pipeline": pipeline, "input": input}
	for _, change := range more {
		change(body)
	}
	answer, err := s.Accept("/v1/runs", key, body)
	if err != nil {
		return "", fmt.Errorf("submit a run of %s: %w", pipeline, err)
	}
	id, named := answer["run_id"].(string)
	if !named {
		return "", fmt.Errorf("the answer names no run: %v", answer)
	}
	return id, nil
}

// RunState is a run as the REST API shows it.
type RunState struct {
	RunID       string      `json:"run_id"`
	Status      string      `json:"status"`
	CurrentStep *string     `json:"current_step"`
	StepsDone   int         `json:"steps_done"`
	StepsTotal  int         `json:"steps_total"`
	CostSoFar   json.Number `json:"cost_so_far_usd"`
	Reason      string      `json:"reason"`
	Error       string      `json:"error"`
	// Result is the pipeline's output.
	Result json.RawMessage `json:"result"`
}

// Ended reports whether the run is in a state that it does not leave.
func (r RunState) Ended() bool {
	return r.Status == "done" || r.Status == "failed" || r.Status == "cancelled"
}

// Run returns a run.
func (s *System) Run(id string) (run RunState, err error) {
	return run, s.get("/v1/runs/"+id, &run)
}

// AwaitRun waits until the run is as wanted.
func (s *System) AwaitRun(id string, wanted func(RunState) bool) (run RunState) {
	s.t.Helper()
	Eventually(s.t, func() (err error) {
		if run, err = s.Run(id); err == nil && !wanted(run) {
			err = fmt.Errorf("the run is %+v", run)
		}
		return err
	})
	return run
}

// AwaitEnd waits until the run has ended.
func (s *System) AwaitEnd(id string) RunState {
	s.t.Helper()
	return s.AwaitRun(id, RunState.Ended)
}

// Step is a step or a shard of a run.
type Step struct {
	Name    string `json:"name"`
	Shard   *int   `json:"shard"`
	Status  string `json:"status"`
	Attempt int    `json:"attempt"`
	Reason  string `json:"reason"`
}

// Steps returns the steps and shards of a run.
func (s *System) Steps(id string) (steps []Step) {
	s.t.Helper()
	for token, more := "", true; more; {
		var page struct {
			Steps []Step
			Next  string `json:"next_page_token"`
		}
		require.NoError(s.t, s.get("/v1/runs/"+id+"/steps?page_size=1000&page_token="+token, &page))
		steps = append(steps, page.Steps...)
		token, more = page.Next, page.Next != ""
	}
	return steps
}

// Call is a question to a model, with the requests that were sent for it.
type Call struct {
	CallKey string     `json:"call_key"`
	Step    string     `json:"step"`
	Shard   *int       `json:"shard"`
	State   string     `json:"state"`
	Replays int        `json:"replays"`
	Tries   []ModelTry `json:"tries"`
}

// ModelTry is a request to a provider.
type ModelTry struct {
	Provider     string `json:"provider"`
	Model        string `json:"model"`
	HTTPStatus   int    `json:"http_status"`
	Reason       string `json:"reason"`
	InputTokens  int    `json:"input_tokens"`
	OutputTokens int    `json:"output_tokens"`
}

// Sent returns the requests of the call that may have reached the provider.
func (c Call) Sent() []ModelTry {
	return slices.DeleteFunc(slices.Clone(c.Tries), func(t ModelTry) bool { return t.Reason == "not_sent" })
}

// Calls returns the call log of a run.
func (s *System) Calls(id string) []Call {
	s.t.Helper()
	var list struct{ Calls []Call }
	require.NoError(s.t, s.get("/v1/runs/"+id+"/llm_calls", &list))
	return list.Calls
}

func (s *System) get(path string, into any) error {
	response, err := s.Try(s.record.REST, http.MethodGet, path, s.Header(""), nil)
	if err != nil {
		return err
	}
	return response.Decode(into)
}
