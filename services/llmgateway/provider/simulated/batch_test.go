package simulated_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/internal/golden"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// pace lets a batch be validated for 10 s and answer one request a second.
func pace() simulated.BatchPace {
	return simulated.BatchPace{Step: simulated.Span(10 * time.Second), Item: simulated.Span(time.Second), Expire: simulated.Span(time.Hour)}
}

// upload stores a file for batches and returns its id.
func (s *server) upload(t *testing.T, content string) string {
	t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	require.NoError(t, w.WriteField("purpose", "batch"))
	part, err := w.CreateFormFile("file", "input.jsonl")
	require.NoError(t, err)
	_, err = part.Write([]byte(content))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	r := s.send(t, "POST", "/v1/files", form.String(), "Content-Type", w.FormDataContentType())
	require.Equal(t, http.StatusOK, r.status, r.body)
	return r.field(t, "id")
}

// field returns a text of an answer, "" if it is null.
func (r reply) field(t *testing.T, name string) string {
	t.Helper()
	var members map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.body), &members), r.body)
	text, _ := members[name].(string)
	return text
}

func line(id, model string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":{"model":%q,"messages":[{"role":"user","content":"Hello, %s."}]}}`, id, model, id)
}

// batch starts a batch of OpenAI's and returns its id.
func (s *server) batch(t *testing.T, lines ...string) string {
	t.Helper()
	r := s.send(t, "POST", "/v1/batches", fmt.Sprintf(
		`{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"24h","metadata":{"a":"b"}}`, s.upload(t, strings.Join(lines, "\n"))))
	require.Equal(t, http.StatusOK, r.status, r.body)
	require.Equal(t, "validating", r.field(t, "status"))
	return r.field(t, "id")
}

func (s *server) status(t *testing.T, id string) reply {
	t.Helper()
	return s.send(t, "GET", "/v1/batches/"+id, "")
}

// content returns what stands in the file that a batch names.
func (s *server) contentOf(t *testing.T, batch reply, member string) string {
	t.Helper()
	return s.send(t, "GET", "/v1/files/"+batch.field(t, member)+"/content", "").body
}

func TestBatchGoesThroughItsStages(t *testing.T) {
	fake := clocktest.New()
	s := serve(t, simulated.Config{Batches: pace()}, fake)
	id := s.batch(t, line("a", "sim-small"), line("b", "sim-small?500"), line("c", "sim-nothing"), line("d", "sim-small?hang"), line("e", "sim-small?truncated"))
	var all strings.Builder
	for range 5 {
		r := s.status(t, id)
		fmt.Fprintf(&all, "== %s\n%s", fake.Now().Format(time.TimeOnly), r.body)
		fake.Advance(6 * time.Second)
	}
	done := s.status(t, id)
	require.Equal(t, "completed", done.field(t, "status"))
	fmt.Fprintf(&all, "== output\n%s== errors\n%s", s.contentOf(t, done, "output_file_id"), s.contentOf(t, done, "error_file_id"))
	golden.Assert(t, "testdata/batch-openai.golden", []byte(all.String()))
	require.Equal(t, 409, s.send(t, "POST", "/v1/batches/"+id+"/cancel", "").status)
	require.Zero(t, s.Report(0).Received, "batches are no questions of the live lane")
	require.Equal(t, 1, s.Report(0).Others["batches.create"])
}

func TestBadBatches(t *testing.T) {
	fake := clocktest.New()
	s := serve(t, simulated.Config{Batches: pace()}, fake)
	id := s.batch(t, "{", line("a", "sim-small"), line("a", "sim-small"), `{"custom_id":"b","method":"GET"}`, `{}`,
		strings.ReplaceAll(line("c", "sim-small"), "/v1/chat/completions", "/v1/responses"))
	fake.Advance(10 * time.Second)
	failed := s.status(t, id)
	require.Equal(t, "failed", failed.field(t, "status"))
	for _, code := range []string{"invalid_json_line", "duplicate_custom_id", "invalid_method", "missing_required_parameter", "mismatched_url"} {
		require.Contains(t, failed.body, code)
	}
	require.Empty(t, failed.field(t, "error_file_id"))
	file := s.upload(t, line("a", "sim-small"))
	for body, message := range map[string]string{
		`{`: "not what POST /v1/batches takes",
		`{"input_file_id":"x","endpoint":"/v1/embeddings","completion_window":"24h"}`:           `no file \"x\"`,
		`{"input_file_id":"` + file + `","endpoint":"/v1/embeddings","completion_window":"1h"}`: "must be 24h",
		`{"input_file_id":"` + file + `","endpoint":"/v1/responses","completion_window":"24h"}`: "endpoint must be",
	} {
		r := s.send(t, "POST", "/v1/batches", body)
		require.Equal(t, 400, r.status)
		require.Contains(t, r.body, message)
	}
	require.Equal(t, 404, s.status(t, "batch_x").status)
	require.Equal(t, 404, s.send(t, "GET", "/v1/files/x", "").status)
	require.Equal(t, 400, s.send(t, "POST", "/v1/files", "x").status)
}

func TestBatchesAreSteered(t *testing.T) {
	fake := clocktest.New()
	s := serve(t, simulated.Config{Batches: pace()}, fake)
	hold := pace()
	hold.Hold = true
	s.SetBatchPace(hold)
	three := []string{line("a", "sim-small"), line("b", "sim-small"), line("c", "sim-small")}
	completed, expired, canceled, left := s.batch(t, three...), s.batch(t, three...), s.batch(t, three...), s.batch(t, three...)
	fake.Advance(30 * time.Minute)
	require.Equal(t, "validating", s.status(t, completed).field(t, "status"))

	require.NoError(t, s.FailBatchItems(completed, 503, "b"))
	require.ErrorContains(t, s.FailBatchItems(completed, 503, "x"), `no request "x" that is not done`)
	require.NoError(t, s.CompleteBatch(completed))
	r := s.status(t, completed)
	require.Equal(t, "completed", r.field(t, "status"))
	require.Contains(t, r.body, `"request_counts":{"completed":2,"failed":1,"total":3}`)
	require.Contains(t, s.contentOf(t, r, "error_file_id"), `"status_code":503`)
	require.ErrorContains(t, s.CompleteBatch(completed), "has ended: it is completed")

	status, _ := s.admin(t, "POST", "batches/"+expired+"/expire", `{"done":2}`)
	require.Equal(t, 204, status)
	r = s.status(t, expired)
	require.Equal(t, "expired", r.field(t, "status"))
	require.Equal(t, 2, strings.Count(s.contentOf(t, r, "output_file_id"), "\n"))
	require.Contains(t, s.contentOf(t, r, "error_file_id"), "batch_expired")

	require.Equal(t, "cancelling", s.send(t, "POST", "/v1/batches/"+canceled+"/cancel", "").field(t, "status"))
	fake.Advance(10 * time.Second)
	r = s.status(t, canceled)
	require.Equal(t, "cancelled", r.field(t, "status"))
	require.Equal(t, 3, strings.Count(s.contentOf(t, r, "error_file_id"), "batch_cancelled"))

	fake.Advance(30 * time.Minute)
	require.Equal(t, "expired", s.status(t, left).field(t, "status"), "what is held expires")
	require.Len(t, s.Batches(), 4)
	_, list := s.admin(t, "GET", "batches", "")
	require.Contains(t, list, `"items":{"canceled":3}`)
	page := s.send(t, "GET", "/v1/batches?limit=1&after="+left, "")
	require.Contains(t, page.body, `"has_more":true`)
	require.Contains(t, page.body, canceled)
}

func TestBatchAdminIsStrict(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	id := s.batch(t, line("a", "sim-small"))
	for _, c := range []struct{ method, path, body, message string }{
		{"POST", "batches/x/complete", "", `no batch \"x\"`},
		{"POST", "batches/" + id + "/sing", "{}", "complete, expire or fail"},
		{"POST", "batches/" + id + "/expire", `{"done":-1}`, "done is -1"},
		{"POST", "batches/" + id + "/fail", `{"status":200}`, "from 400 to 599"},
		{"POST", "batches/" + id + "/complete", "", "has ended"},
		{"PUT", "batches/pace", `{"step":"soon"}`, "no duration"},
	} {
		status, answer := s.admin(t, c.method, c.path, c.body)
		require.Equal(t, 400, status, answer)
		require.Contains(t, answer, c.message)
	}
	_, answer := s.admin(t, "PUT", "batches/pace", `{"step":"2s","item":"1ms","expire":"1h","hold":true}`)
	require.JSONEq(t, `{"step":"2s","item":"1ms","expire":"1h0m0s","hold":true}`, answer)
}

const messageBatch = `{"requests":[
	{"custom_id":"a","params":{"model":"sim-small","max_tokens":100,"messages":[{"role":"user","content":"Hello."}]}},
	{"custom_id":"b","params":{"model":"sim-small?529","max_tokens":100,"messages":[{"role":"user","content":"Hello."}]}},
	{"custom_id":"c","params":{"model":"sim-small","messages":[{"role":"user","content":"Hello."}]}}]}`

func TestMessageBatches(t *testing.T) {
	fake := clocktest.New()
	s := serve(t, simulated.Config{Batches: pace()}, fake)
	version := []string{"Anthropic-Version", "2023-06-01"}
	send := func(method, path, body string) reply {
		return s.send(t, method, "/v1/messages/batches"+path, body, version...)
	}
	created := send("POST", "", messageBatch)
	id := created.field(t, "id")
	require.Equal(t, "in_progress", created.field(t, "processing_status"))
	require.Equal(t, 400, send("GET", "/"+id+"/results", "").status)
	require.Equal(t, 400, send("DELETE", "/"+id, "").status)
	fake.Advance(23 * time.Second)
	ended := send("GET", "/"+id, "")
	var all strings.Builder
	for _, r := range []reply{created, ended, send("GET", "/"+id+"/results", "")} {
		all.WriteString(strings.ReplaceAll(r.body, strings.TrimPrefix(s.url, "http://"), "HOST") + "\n")
	}
	golden.Assert(t, "testdata/batch-anthropic.golden", []byte(all.String()))

	canceled := send("POST", "", messageBatch).field(t, "id")
	fake.Advance(11 * time.Second) // the first is answered
	require.Equal(t, "canceling", send("POST", "/"+canceled+"/cancel", "").field(t, "processing_status"))
	fake.Advance(10 * time.Second)
	results := send("GET", "/"+canceled+"/results", "").body
	require.Equal(t, 1, strings.Count(results, `"type":"succeeded"`), results)
	require.Equal(t, 2, strings.Count(results, `{"type":"canceled"}`), results)

	expired := send("POST", "", messageBatch).field(t, "id")
	require.NoError(t, s.ExpireBatch(expired, 0))
	require.Equal(t, 3, strings.Count(send("GET", "/"+expired+"/results", "").body, `{"type":"expired"}`))
	require.Contains(t, send("GET", "?limit=1", "").body, expired)
	require.Equal(t, 200, send("DELETE", "/"+expired, "").status)
	require.Equal(t, 404, send("GET", "/"+expired, "").status)
	require.Contains(t, send("POST", "", `{"requests":[]}`).body, "must have 1 to")
	require.Contains(t, send("POST", "", `{"requests":[{"custom_id":"a"},{"custom_id":"a"}]}`).body, "requests.1.custom_id")
}
