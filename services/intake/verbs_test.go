package intake_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/intake"
)

// What was accepted once stays accepted: a repeat is answered as the first time although the rules have become stricter.
func TestI05_AcceptedStaysAccepted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pipeline := func(version, schema string) {
		source := "name: p\nversion: " + version + "\ninput: " + schema + "\nsteps:\n  - {name: s, transform: \"${input.a}\"}\n"
		stored := b.call(t, b.acme, "POST", "/v1/pipelines", source, "Content-Type: application/yaml")
		require.Equal(t, 201, stored.status, stored.body)
	}
	submit := func(body string) answer { return b.call(t, b.acme, "POST", "/v1/runs", body, "Idempotency-Key: k") }
	pipeline("v1", "{type: object}")
	first := submit(`{"pipeline":"p","input":{"a":1}}`)
	require.Equal(t, 202, first.status, first.body)
	pipeline("v2", "{type: object, required: [b]}")
	b.orchestrator.taken()

	again := submit(`{"pipeline":"p","input":{"a":1}}`)
	require.Equal(t, 202, again.status, again.body)
	require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
	require.Equal(t, first.member(t, "run_id"), again.member(t, "run_id"))
	require.Contains(t, b.orchestrator.taken(), "FindSubmission")
	require.Equal(t, 422, submit(`{"pipeline":"p","input":{"a":2}}`).status, "another request under the key")
	fresh := b.call(t, b.acme, "POST", "/v1/runs", `{"pipeline":"p","input":{"a":1}}`, "Idempotency-Key: other")
	require.Equal(t, "INPUT_INVALID", fresh.problem(t).Reason, "a new request must fit the newest version")
	b.orchestrator.taken()
	require.Equal(t, 202, b.call(t, b.acme, "POST", "/v1/runs", `{"pipeline":"p","input":{"b":1}}`, "Idempotency-Key: good").status)
	require.NotContains(t, b.orchestrator.taken(), "FindSubmission", "what passes costs no look")
}

// The same for jobs, documents and extractions: here a model, a limit and a document are gone since.
func TestI05_AcceptedStaysAcceptedOfEveryKind(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := func() (*pawlv1.CreateDocumentResponse, error) { // over gRPC: REST reads no body that is too large
		return pawlv1.NewDocumentServiceClient(b.conn(t)).CreateDocument(as(t, b.acme),
			&pawlv1.CreateDocumentRequest{Text: strings.Repeat("x", 2<<10), IdempotencyKey: "d"})
	}
	document, err := store()
	require.NoError(t, err)
	repeated := map[string]func() answer{
		"job_id": func() answer {
			return b.call(t, b.acme, "POST", "/v1/jobs", `{"model":"small","messages":[{"role":"user","content":"x"}]}`, "Idempotency-Key: j")
		},
		"run_id": func() answer {
			return b.call(t, b.acme, "POST", "/documents/"+document.GetDocumentId()+"/extract", "", "Idempotency-Key: x")
		},
	}
	first := map[string]string{}
	for member, repeat := range repeated {
		first[member] = repeat().member(t, member)
	}
	b.stop()
	b.orchestrator.forgetDocuments()
	b.gateway.forgetModels()
	b.start(t, func(c *intake.Config) { c.MaxDocumentBytes = 1 << 10 }) // a new process knows no model from before
	for member, repeat := range repeated {
		again := repeat()
		require.Less(t, again.status, 300, "%s: %s", member, again.body)
		require.Equal(t, first[member], again.member(t, member))
	}
	again, err := store()
	require.NoError(t, err)
	require.True(t, again.GetReplayed())
	require.Equal(t, document.GetDocumentId(), again.GetDocumentId())
	other := b.call(t, b.acme, "POST", "/v1/jobs", `{"model":"small","messages":[{"role":"user","content":"y"}]}`, "Idempotency-Key: j")
	require.Equal(t, 422, other.status, other.body)
}

func TestVerbsCarryWhatIsAsked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.call(t, b.acme, "POST", "/v1/runs", `{"pipeline":"document_extract","input":{"text":"x"}}`, "Idempotency-Key: r").member(t, "run_id")
	rerun := `{"from_step":"fields","keep_effects":true,"reason":"better model"%s}`
	path := "/v1/runs/" + run + ":rerun"
	for _, good := range []answer{
		b.call(t, b.acme, "POST", path, fmt.Sprintf(rerun, `,"etag":"7"`)),
		b.call(t, b.acme, "POST", path, fmt.Sprintf(rerun, `,"etag":"\"7\""`)),
		b.call(t, b.acme, "POST", path, fmt.Sprintf(rerun, ""), `If-Match: "7"`),
		b.call(t, b.acme, "POST", path, fmt.Sprintf(rerun, `,"etag":"7"`), `If-Match: *`),
	} {
		require.Equal(t, 200, good.status, good.body)
	}
	actor := "key:" + strings.Split(b.acme, "_")[1]
	want := "rerun " + actor + " better model from fields keeping true as 7"
	require.Equal(t, []string{want, want, want, want}, b.orchestrator.actions)

	for field, bad := range map[string]answer{
		"etag":       b.call(t, b.acme, "POST", path, fmt.Sprintf(rerun, `,"etag":"7"`), `If-Match: "8"`),
		"from_step":  b.call(t, b.acme, "POST", path, `{"reason":"x"}`),
		"reason":     b.call(t, b.acme, "POST", path, `{"from_step":"x"}`),
		"step":       b.call(t, b.acme, "POST", "/v1/runs/"+run+":retry", `{"reason":"x","shard":1}`),
		"budget_usd": b.call(t, b.acme, "POST", "/v1/runs/"+run+":retry", `{"reason":"x","budget_usd":"-1"}`),
	} {
		require.Equal(t, 400, bad.status, bad.body)
		require.Equal(t, field, bad.problem(t).Errors[0].Field, bad.body)
	}
	require.Len(t, b.orchestrator.actions, 4)
}

// A parameter that a call does not have is refused wherever it is given, also where a call has none.
func TestI18_UnknownParametersAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.call(t, b.acme, "POST", "/v1/runs", `{"pipeline":"document_extract","input":{"text":"x"}}`, "Idempotency-Key: r").member(t, "run_id")
	for _, call := range []string{
		"GET /v1/runs/" + run, "GET /runs/" + run, "GET /v1/runs/" + run + "/steps", "GET /v1/runs/" + run + "/llm_calls",
		"GET /v1/runs", "GET /v1/runs/" + run + ":watch", "GET /v1/pipelines/document_extract", "POST /v1/runs", "POST /v1/runs/" + run + ":cancel",
	} {
		method, path, _ := strings.Cut(call, " ")
		refused := b.call(t, b.acme, method, path+"?verbose=1", "")
		require.Equal(t, 400, refused.status, "%s: %s", call, refused.body)
		require.Equal(t, "verbose", refused.problem(t).Errors[0].Field, call)
	}
	require.Equal(t, 400, b.call(t, b.acme, "GET", "/v1/runs/"+run+"?a=%zz", "").status)
	require.Empty(t, b.orchestrator.actions)
	require.Equal(t, 200, b.call(t, b.acme, "GET", "/v1/runs/"+run+"/steps?page_size=1", "").status)
}

func TestStepsComeInPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.call(t, b.acme, "POST", "/v1/runs", `{"pipeline":"document_extract","input":{"text":"x"}}`, "Idempotency-Key: r").member(t, "run_id")
	b.orchestrator.moreSteps = "0.-1"
	b.orchestrator.taken()
	token := b.call(t, b.acme, "GET", "/v1/runs/"+run+"/steps", "").member(t, "next_page_token")
	require.NotContains(t, token, "0.-1", "it is sealed")
	require.Equal(t, 200, b.call(t, b.acme, "GET", "/v1/runs/"+run+"/steps?page_size=5000&page_token="+token, "").status)
	require.Equal(t, []string{"ListRunSteps 200", "ListRunSteps 10000.-1"}, b.orchestrator.taken())
	require.Equal(t, "PAGE_TOKEN_INVALID", b.call(t, b.acme, "GET", "/v1/runs/"+run+"/events?page_token="+token, "").problem(t).Reason)
}
