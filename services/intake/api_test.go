package intake_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/golden"
)

const contract = "Договор № 17\n\n1. Стороны. <A> & \"B\"\n"

// TestTranscript keeps what a client sees, call by call.
func TestTranscript(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var transcript bytes.Buffer
	say := func(method, path, body string, headers ...string) answer {
		a := b.call(t, b.acme, method, path, body, append(headers, "X-Request-Id: req")...)
		fmt.Fprintf(&transcript, "> %s %s\n", method, path)
		for _, header := range headers {
			fmt.Fprintf(&transcript, "> %s\n", header)
		}
		if body != "" {
			fmt.Fprintf(&transcript, ">\n> %s\n", strings.ReplaceAll(strings.TrimSuffix(body, "\n"), "\n", "\n> "))
		}
		fmt.Fprintf(&transcript, "\n< %d %s\n", a.status, http.StatusText(a.status))
		for _, name := range []string{
			"Content-Type", "Location", "Retry-After", "Etag", "Idempotency-Replayed", "Allow", "Www-Authenticate", "X-Request-Id",
		} {
			if value := a.header.Get(name); value != "" {
				fmt.Fprintf(&transcript, "< %s: %s\n", name, value)
			}
		}
		fmt.Fprintf(&transcript, "<\n%s\n", pretty(t, a.body))
		return a
	}
	put := say("POST", "/v1/documents", contract, "Content-Type: text/markdown", `Idempotency-Key: "doc-1"`)
	document := put.member(t, "document_id")
	say("GET", "/v1/documents/"+document, "")
	extract := say("POST", "/documents/"+document+"/extract", "", "Idempotency-Key: run-1")
	say("POST", "/documents/"+document+"/extract", "", "Idempotency-Key: run-1")
	run := extract.member(t, "run_id")
	b.orchestrator.set(run, func(r *pawlv1.Run) {
		r.Status, r.CurrentStep, r.StepsDone, r.CostSoFarUsd = pawlv1.RunStatus_RUN_STATUS_RUNNING, new("fields"), 1, "0.000123456789"
		r.Shards = &pawlv1.ShardCount{Done: 2, Total: 5}
	})
	say("GET", "/runs/"+run, "")
	say("GET", "/v1/runs/"+run+"/steps", "")
	say("GET", "/v1/runs/"+run+"/llm_calls", "")
	say("GET", "/v1/runs/"+run+"/llm_calls/"+strings.Repeat("0a", 32), "")
	say("POST", "/v1/runs/"+run+":retry", `{"reason": "prompt fixed"}`)
	b.orchestrator.set(run, func(r *pawlv1.Run) {
		r.Status, r.CurrentStep, r.StepsDone = pawlv1.RunStatus_RUN_STATUS_DONE, nil, 3
		r.Result = &pawlv1.JsonValue{Json: `{"amount": 1200000.00, "currency": "RUB"}`}
	})
	say("GET", "/v1/runs/"+run, "")
	job := `{"model": "small", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5, "callback_url": "https://example.com/hook"}`
	accepted := say("POST", "/v1/jobs", job, "Content-Type: application/json", `Idempotency-Key: "job-1"`)
	say("POST", "/v1/jobs", job, "Content-Type: application/json", `Idempotency-Key: "job-1"`)
	say("GET", "/v1/jobs/"+accepted.member(t, "job_id"), "")
	say("POST", "/v1/runs", `{"pipeline": "document_extract", "input": {"text": "a"}, "class": "batch"}`, "Idempotency-Key: run-2")
	say("POST", "/v1/runs", `{"pipeline": "document_extract", "input": {"text": "b"}, "class": "batch"}`, "Idempotency-Key: run-2")
	say("POST", "/v1/runs", `{"pipeline": "document_extract", "input": {"text": 5}}`, "Idempotency-Key: run-3")
	say("DELETE", "/v1/runs/"+run, "")
	golden.Assert(t, "testdata/transcript.golden", transcript.Bytes())
}

// pretty indents JSON for the reader of a golden file, and names what changes with every key.
func pretty(t *testing.T, body string) string {
	t.Helper()
	var text bytes.Buffer
	if json.Indent(&text, []byte(body), "", "  ") != nil {
		return body
	}
	return regexp.MustCompile(`"key:[a-z0-9]+"`).ReplaceAllString(text.String(), `"key:…"`)
}

func TestASubmitIsOneCall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	submit := func(path, body string, n int) {
		a := b.call(t, b.acme, "POST", path, body, fmt.Sprintf("Idempotency-Key: %s-%d", path, n))
		require.Equal(t, 202, a.status, a.body)
	}
	run := `{"pipeline":"document_extract:v2","input":{"text":"x"}}`
	job := `{"model":"small","messages":[{"role":"user","content":"x"}]}`
	submit("/v1/runs", run, 1)
	submit("/v1/jobs", job, 1)
	b.orchestrator.taken()
	b.gateway.taken()
	submit("/v1/runs", run, 2)
	require.Equal(t, []string{"CreateRun"}, b.orchestrator.taken(), "the pipeline is known by now")
	submit("/v1/jobs", job, 2)
	calls := b.orchestrator.taken() // the newest version may have to be looked for again
	require.Equal(t, "CreateRun", calls[len(calls)-1])
	require.NotContains(t, calls[:len(calls)-1], "CreateRun")
	require.Empty(t, b.gateway.taken(), "the model is known by now")
}

func TestWhatTheOrchestratorIsTold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	runs, jobs := pawlv1.NewRunServiceClient(b.conn(t)), pawlv1.NewJobServiceClient(b.conn(t))
	_, err := runs.CreateRun(as(t, b.acme), &pawlv1.CreateRunRequest{
		Pipeline: "document_extract", Input: &pawlv1.JsonValue{Json: `{"text": "x",  "n": 1.10}`}, EntityId: "e", Priority: -7,
		Labels: map[string]string{"k": "v"}, CallbackUrl: "http://localhost:9/x?y=1", BudgetUsd: "0.000000000001", IdempotencyKey: "k1",
	})
	require.NoError(t, err)
	_, err = jobs.CreateJob(as(t, b.acme), &pawlv1.CreateJobRequest{
		Model: "small", Messages: []*pawlv1.ChatMessage{{Role: "system", Content: "<é\u0000>"}}, Batch: true, MaxTokens: 9, IdempotencyKey: "k2",
	})
	require.NoError(t, err)
	require.Len(t, b.orchestrator.created, 2)
	run, job := b.orchestrator.created[0], b.orchestrator.created[1]
	require.Equal(t, "acme", run.GetTenant())
	require.Equal(t, "run", run.GetKind())
	require.Equal(t, "document_extract:v2", run.GetPipeline(), "the version that the input was checked against")
	const input = `{"text": "x",  "n": 1.10}`
	require.True(t, string(run.GetInput()) == input, "byte for byte: %s", run.GetInput()) //nolint:testifylint // equal JSON is not enough
	require.Equal(t, pawlv1.RunClass_RUN_CLASS_INTERACTIVE, run.GetClass())
	require.Equal(t, int64(1), run.GetBudgetPicoUsd())
	require.Equal(t, int32(-7), run.GetPriority())
	require.Equal(t, "http://localhost:9/x?y=1", run.GetCallbackUrl())
	require.Equal(t, "k1", run.GetIdempotency().GetKey())
	require.Len(t, run.GetIdempotency().GetRequestDigest(), 32)

	require.Equal(t, "job", job.GetKind())
	require.Equal(t, "llm_completion:v1", job.GetPipeline())
	require.Equal(t, pawlv1.RunClass_RUN_CLASS_BATCH, job.GetClass())
	require.Nil(t, job.BudgetPicoUsd)
	require.JSONEq(t, `{"model":"small","messages":[{"role":"system","content":"<é\u0000>"}],"max_tokens":9}`, string(job.GetInput()))
}

func TestADocumentsTextIsTheInput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	texts := []string{contract, " \n\t", "\u0000\u2028\\", strings.Repeat("я", 200_000)}
	for i, text := range texts {
		put := b.call(t, b.acme, "POST", "/v1/documents", text, "Content-Type: text/plain", fmt.Sprintf("Idempotency-Key: d%d", i))
		require.Equal(t, 201, put.status, put.body)
		got := b.call(t, b.acme, "POST", "/v1/documents/"+put.member(t, "document_id")+"/extract", "", fmt.Sprintf("Idempotency-Key: x%d", i))
		require.Equal(t, 202, got.status, "a blank document is accepted too: %s", got.body)
		var input struct {
			Text string `json:"text"`
		}
		require.NoError(t, json.Unmarshal(b.orchestrator.created[i].GetInput(), &input))
		require.Equal(t, text, input.Text)
		require.Equal(t, "extract", b.orchestrator.created[i].GetKind())
		require.Equal(t, "document_extract:v2", b.orchestrator.created[i].GetPipeline())
	}
}

func TestPipelines(t *testing.T) {
	t.Parallel()
	b := setup(t)
	source := "name: p\nversion: v1\nsteps:\n  - name: s\n    transform: ${input.a}\n"
	first := b.call(t, b.acme, "POST", "/v1/pipelines", source, "Content-Type: application/yaml")
	require.Equal(t, 201, first.status, first.body)
	again := b.call(t, b.acme, "POST", "/v1/pipelines", "# the same\n"+source, "Content-Type: application/yaml")
	require.Equal(t, 200, again.status, again.body)
	other := b.call(t, b.acme, "POST", "/v1/pipelines", strings.ReplaceAll(source, "input.a", "input.b"), "Content-Type: application/yaml")
	require.Equal(t, "PIPELINE_EXISTS", other.problem(t).Reason)
	require.Equal(t, 409, other.status)

	require.Equal(t, 202, b.call(t, b.acme, "POST", "/v1/runs", `{"pipeline":"p","input":{}}`, "Idempotency-Key: 1").status)
	spec := `{"spec":{"name":"p","version":"v2","steps":[{"name":"s","transform":{"x":"${input.a}"}}]}}`
	require.Equal(t, 201, b.call(t, b.acme, "POST", "/v1/pipelines", spec).status)
	require.Equal(t, 202, b.call(t, b.acme, "POST", "/v1/runs", `{"pipeline":"p","input":{}}`, "Idempotency-Key: 2").status)
	require.Equal(t, "p:v2", b.orchestrator.created[1].GetPipeline(), "a registration is seen at once")

	got := b.call(t, b.acme, "GET", "/v1/pipelines/p:v1", "")
	require.Equal(t, source, got.member(t, "source"))
	require.Equal(t, "v2", b.call(t, b.acme, "GET", "/v1/pipelines/p", "").member(t, "version"))
	require.Contains(t, b.call(t, b.acme, "GET", "/v1/pipelines", "").body, `"name":"llm_completion"`)
	valid := b.call(t, b.acme, "POST", "/v1/pipelines:validate", source, "Content-Type: text/yaml")
	require.JSONEq(t, `{"valid":true,"problems":[]}`, valid.body)
	broken := b.call(t, b.acme, "POST", "/v1/pipelines:validate", "name: p\nversion: 1\nsteps: []\n", "Content-Type: text/yaml")
	require.Equal(t, 200, broken.status)
	require.Contains(t, broken.body, `{"valid":false,"problems":[{"path":"version","line":2,"column":10,`)
}

func TestListsPageByPage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 5 {
		require.Equal(t, 202, b.call(t, b.acme, "POST", "/v1/runs", `{"pipeline":"document_extract","input":{"text":"x"}}`, fmt.Sprintf("Idempotency-Key: %d", i)).status)
	}
	var seen []string
	token := ""
	for page := range 3 {
		a := b.call(t, b.acme, "GET", "/v1/runs?class=interactive&page_size=2&page_token="+token, "")
		var list struct {
			Runs []struct {
				RunID string `json:"run_id"`
			} `json:"runs"`
			NextPageToken string `json:"next_page_token"`
		}
		require.NoError(t, json.Unmarshal([]byte(a.body), &list), a.body)
		for _, run := range list.Runs {
			seen = append(seen, run.RunID)
		}
		token = list.NextPageToken
		require.Equal(t, page == 2, token == "")
		if page == 0 {
			b.refusesToken(t, token)
		}
	}
	require.Len(t, slices.Compact(seen), 5)

	b.orchestrator.taken()
	for _, query := range []string{"", "?page_size=0", "?page_size=5000"} {
		b.call(t, b.acme, "GET", "/v1/runs"+query, "")
	}
	b.call(t, b.acme, "GET", "/v1/runs/"+seen[0]+"/events", "")
	require.Equal(t, []string{"ListRuns 50", "ListRuns 50", "ListRuns 1000", "ListRunEvents 200"}, b.orchestrator.taken())
}

// refusesToken: a token serves only the list, the filters and the tenant that it was made for.
func (b *bundle) refusesToken(t *testing.T, token string) {
	t.Helper()
	refused := map[string]answer{
		"other filters": b.call(t, b.acme, "GET", "/v1/runs?class=batch&page_size=2&page_token="+token, ""),
		"other tenant":  b.call(t, b.rival, "GET", "/v1/runs?class=interactive&page_size=2&page_token="+token, ""),
		"other list":    b.call(t, b.acme, "GET", "/v1/pipelines?page_token="+token, ""),
		"tampered with": b.call(t, b.acme, "GET", "/v1/runs?class=interactive&page_token="+token[:len(token)-2]+"AA", ""),
		"made up":       b.call(t, b.acme, "GET", "/v1/runs?page_token=abc", ""),
		"not base64":    b.call(t, b.acme, "GET", "/v1/runs?page_token=%25%25", ""),
	}
	for name, a := range refused {
		require.Equal(t, "PAGE_TOKEN_INVALID", a.problem(t).Reason, name)
	}
	require.Equal(t, 200, b.call(t, b.acme, "GET", "/v1/runs?class=interactive&page_size=100&page_token="+token, "").status,
		"the size of pages may change")
}

func TestJobs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.call(t, b.acme, "POST", "/v1/runs", `{"pipeline":"document_extract","input":{"text":"x"}}`, "Idempotency-Key: r").member(t, "run_id")
	require.Equal(t, "JOB_NOT_FOUND", b.call(t, b.acme, "GET", "/v1/jobs/"+run, "").problem(t).Reason, "a run is no job")
	id := b.call(t, b.acme, "POST", "/v1/jobs", `{"model":"small","messages":[{"role":"user","content":"x"}]}`, "Idempotency-Key: j").member(t, "job_id")
	require.Equal(t, 200, b.call(t, b.acme, "GET", "/v1/runs/"+id, "").status, "a job is a run")
	for status, want := range map[pawlv1.RunStatus]string{
		pawlv1.RunStatus_RUN_STATUS_QUEUED: "queued", pawlv1.RunStatus_RUN_STATUS_RUNNING: "running",
		pawlv1.RunStatus_RUN_STATUS_NEEDS_REVIEW: "needs_review", pawlv1.RunStatus_RUN_STATUS_COMPENSATING: "running",
		pawlv1.RunStatus_RUN_STATUS_DONE: "done", pawlv1.RunStatus_RUN_STATUS_FAILED: "failed",
		pawlv1.RunStatus_RUN_STATUS_CANCELLED: "cancelled",
	} {
		b.orchestrator.set(id, func(r *pawlv1.Run) { r.Status = status })
		require.Equal(t, want, b.call(t, b.acme, "GET", "/v1/jobs/"+id, "").member(t, "status"))
	}
}

// TestTheGatewaysAbsence: models that were known stay known, others cannot be told from wrong ones.
func TestTheGatewaysAbsence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	submit := func(model string) answer {
		return b.call(t, b.acme, "POST", "/v1/jobs", `{"model":"`+model+`","messages":[{"role":"user","content":"x"}]}`, "Idempotency-Key: "+model)
	}
	require.Equal(t, 202, submit("small").status)
	b.gateway.setAway(fault.Unavailable(nil, "the gateway is away"))
	require.Equal(t, 202, submit("small").status)
	refused := submit("large")
	require.Equal(t, 503, refused.status)
	require.Equal(t, "1", refused.header.Get("Retry-After"))
}

func TestActionsNameTheirActor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.call(t, b.acme, "POST", "/v1/runs", `{"pipeline":"document_extract","input":{"text":"x"}}`, "Idempotency-Key: r").member(t, "run_id")
	require.Equal(t, 200, b.call(t, b.acme, "POST", "/v1/runs/"+run+":cancel", `{"reason":"not needed"}`).status)
	require.Equal(t, 409, b.call(t, b.acme, "POST", "/v1/runs/"+run+":retry", `{"reason":"again"}`).status)
	actor := "key:" + strings.Split(b.acme, "_")[1]
	require.Equal(t, []string{"cancel " + actor + " not needed", "retry " + actor + " again"}, b.orchestrator.actions)
}

func TestEqualRequestsAreEqualHoweverTheyAreWritten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	submit := func(body string) *systemv1.CreateRunResponse {
		a := b.call(t, b.acme, "POST", "/v1/runs", body, "Idempotency-Key: k")
		return &systemv1.CreateRunResponse{RunId: a.member(t, "run_id"), Replayed: a.header.Get("Idempotency-Replayed") == "true"}
	}
	first := submit(`{"pipeline":"document_extract","input":{"text":"é","a":1.0,"b":[true,null]},"labels":{"x":"1","y":"2"}}`)
	require.False(t, first.GetReplayed())
	second := submit("{\n \"labels\": {\"y\":\"2\",\"x\":\"1\"}, \"input\": {\"b\":[true, null], \"a\":1,\"text\":\"\\u00e9\"}, \"pipeline\":\"document_extract\"}")
	require.True(t, second.GetReplayed())
	require.Equal(t, first.GetRunId(), second.GetRunId())
	for _, other := range []string{
		`{"pipeline":"document_extract","input":{"text":"é","a":1.1,"b":[true,null]},"labels":{"x":"1","y":"2"}}`,
		`{"pipeline":"document_extract","input":{"text":"é","a":1,"b":[null,true]},"labels":{"x":"1","y":"2"}}`,
		`{"pipeline":"document_extract","input":{"text":"é","a":1,"b":[true,null]},"labels":{"x":"1"}}`,
		`{"pipeline":"document_extract:v2","input":{"text":"é","a":1,"b":[true,null]},"labels":{"x":"1","y":"2"}}`,
	} {
		a := b.call(t, b.acme, "POST", "/v1/runs", other, "Idempotency-Key: k")
		require.Equal(t, 422, a.status, other)
		require.Equal(t, "IDEMPOTENCY_KEY_REUSED", a.problem(t).Reason)
	}
	document := b.call(t, b.acme, "POST", "/v1/documents", "x", "Content-Type: text/plain", "Idempotency-Key: k")
	require.Equal(t, 422, document.status, "a key is one for all calls")
}
