package rest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"buf.build/go/protovalidate"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"pawl.internal/gen/openapi"
	faultv1 "pawl.internal/gen/pawl/fault/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/intake/rest"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/internal/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const runID = "01890000-0000-7000-8000-000000000001"

// server stands for intake's own gRPC server: it answers what the test has set and keeps what arrived.
type server struct {
	pawlv1.UnimplementedRunServiceServer
	pawlv1.UnimplementedDocumentServiceServer
	pawlv1.UnimplementedJobServiceServer
	pawlv1.UnimplementedPipelineServiceServer

	mu       sync.Mutex
	requests []any
	headers  metadata.MD
	deadline bool

	run      *pawlv1.Run
	err      error
	replayed bool
	// states is what a watch sends; closing it ends the watch.
	states chan *pawlv1.Run
}

func (s *server) note(ctx context.Context, req any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, req)
	s.headers, _ = metadata.FromIncomingContext(ctx)
	_, s.deadline = ctx.Deadline()
	return s.err
}

func (s *server) CreateRun(ctx context.Context, req *pawlv1.CreateRunRequest) (*pawlv1.CreateRunResponse, error) {
	return &pawlv1.CreateRunResponse{RunId: runID, Status: pawlv1.RunStatus_RUN_STATUS_QUEUED, Replayed: s.replayed}, s.note(ctx, req)
}

func (s *server) GetRun(ctx context.Context, req *pawlv1.GetRunRequest) (*pawlv1.GetRunResponse, error) {
	return &pawlv1.GetRunResponse{Run: s.run}, s.note(ctx, req)
}

func (s *server) ListRuns(ctx context.Context, req *pawlv1.ListRunsRequest) (*pawlv1.ListRunsResponse, error) {
	return &pawlv1.ListRunsResponse{}, s.note(ctx, req)
}

func (s *server) CancelRun(ctx context.Context, req *pawlv1.CancelRunRequest) (*pawlv1.CancelRunResponse, error) {
	return &pawlv1.CancelRunResponse{Run: s.run}, s.note(ctx, req)
}

func (s *server) CreateDocument(ctx context.Context, req *pawlv1.CreateDocumentRequest) (*pawlv1.CreateDocumentResponse, error) {
	return &pawlv1.CreateDocumentResponse{DocumentId: runID, Replayed: s.replayed}, s.note(ctx, req)
}

func (s *server) CreateJob(ctx context.Context, req *pawlv1.CreateJobRequest) (*pawlv1.CreateJobResponse, error) {
	status := pawlv1.JobStatus_JOB_STATUS_QUEUED
	if s.replayed {
		status = pawlv1.JobStatus_JOB_STATUS_DUPLICATE
	}
	return &pawlv1.CreateJobResponse{JobId: runID, Status: status}, s.note(ctx, req)
}

func (s *server) CreatePipeline(ctx context.Context, req *pawlv1.CreatePipelineRequest) (*pawlv1.CreatePipelineResponse, error) {
	return &pawlv1.CreatePipelineResponse{Pipeline: &pawlv1.Pipeline{Name: "p", Version: "v1"}, Created: !s.replayed}, s.note(ctx, req)
}

func (s *server) ValidatePipeline(ctx context.Context, req *pawlv1.ValidatePipelineRequest) (*pawlv1.ValidatePipelineResponse, error) {
	return &pawlv1.ValidatePipelineResponse{Valid: true}, s.note(ctx, req)
}

func (s *server) WatchRun(req *pawlv1.WatchRunRequest, stream pawlv1.RunService_WatchRunServer) error {
	if err := s.note(stream.Context(), req); err != nil {
		return err
	}
	for {
		select {
		case run, more := <-s.states:
			if !more {
				return nil
			}
			if err := stream.Send(&pawlv1.WatchRunResponse{Run: run}); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (s *server) last() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) == 0 {
		return nil
	}
	return s.requests[len(s.requests)-1]
}

type bundle struct {
	*server
	url     string
	clock   *clocktest.Fake
	metrics *prometheus.Registry
}

// setup serves the REST API in front of a server.
func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{server: &server{states: make(chan *pawlv1.Run)}, clock: clocktest.New(), metrics: prometheus.NewRegistry()}
	validator, err := protovalidate.New()
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	system := clock.System()
	grpcServer := rpc.NewServer(rpc.ServerOptions{
		Service: "intake", Log: log, Clock: system, IDs: ids.New(system), Validator: validator,
		Metrics: rpc.NewMetrics(prometheus.NewRegistry()),
	})
	pawlv1.RegisterRunServiceServer(grpcServer, b.server)
	pawlv1.RegisterDocumentServiceServer(grpcServer, b.server)
	pawlv1.RegisterJobServiceServer(grpcServer, b.server)
	pawlv1.RegisterPipelineServiceServer(grpcServer, b.server)
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- grpcServer.Serve(listener) }()
	conn, err := rpc.Dial("passthrough:///intake",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	require.NoError(t, err)
	admin := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "admin "+r.URL.Path) })
	handler, err := rest.New(t.Context(), rest.Config{
		Connection: conn, Admin: admin, Clock: b.clock, IDs: ids.Seeded(b.clock, 1), Log: log, Metrics: b.metrics,
		MaxBodyBytes: 1000, MaxDocumentBytes: 2000, MaxBatchBytes: 4000, Timeout: 5 * time.Second,
	})
	require.NoError(t, err)
	web := httptest.NewServer(handler)
	b.url = web.URL
	t.Cleanup(func() {
		web.Close()
		require.NoError(t, conn.Close())
		grpcServer.Stop()
		require.NoError(t, <-served)
		http.DefaultClient.CloseIdleConnections()
	})
	return b
}

type answer struct {
	*http.Response
	body string
}

// call sends a request; headers are given as "Name: value".
func (b *bundle) call(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	response := b.open(t, method, path, body, headers...)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answer{response, string(text)}
}

func (b *bundle) open(t *testing.T, method, path, body string, headers ...string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, b.url+path, strings.NewReader(body))
	require.NoError(t, err)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	return response
}

type problem struct {
	Type       string            `json:"type"`
	Title      string            `json:"title"`
	Status     int               `json:"status"`
	Detail     string            `json:"detail"`
	Instance   string            `json:"instance"`
	Code       string            `json:"code"`
	Reason     string            `json:"reason"`
	RequestID  string            `json:"request_id"`
	RetryAfter int               `json:"retry_after_s"`
	Metadata   map[string]string `json:"metadata"`
	Errors     []struct {
		Field   string `json:"field"`
		Message string `json:"message"`
	} `json:"errors"`
}

func (a answer) problem(t *testing.T) problem {
	t.Helper()
	require.Equal(t, "application/problem+json", a.Header.Get("Content-Type"), a.body)
	var p problem
	require.NoError(t, json.Unmarshal([]byte(a.body), &p))
	require.Equal(t, a.StatusCode, p.Status)
	return p
}

func TestHeadersThatArrive(t *testing.T) {
	b := setup(t)
	b.call(t, "POST", "/v1/runs", `{"pipeline":"p","input":1}`,
		"Idempotency-Key: \"k\"", "Authorization: Bearer x", "X-Api-Key: y", "Traceparent: 00-a", "X-Request-Id: req-1",
		"If-Match: \"e\"", "Last-Event-Id: 7", "Cookie: secret", "Grpc-Metadata-Tenant: other", "X-Other: z")
	want := map[string]string{
		"idempotency-key": `"k"`, "authorization": "Bearer x", "x-api-key": "y", "traceparent": "00-a",
		"x-request-id": "req-1", "if-match": `"e"`, "last-event-id": "7",
	}
	for name, value := range want {
		require.Equal(t, []string{value}, b.headers.Get(name), name)
	}
	for _, name := range []string{"cookie", "grpcgateway-cookie", "tenant", "x-other"} {
		require.Empty(t, b.headers.Get(name), name)
	}
	require.True(t, b.deadline)
}

func TestAnswersOfCreatingCalls(t *testing.T) {
	tests := map[string]struct {
		path, body, contentType string
		status, repeated        int
		location, want          string
	}{
		"run":      {"/v1/runs", `{"pipeline":"p","input":{}}`, "application/json", 202, 202, "/v1/runs/" + runID, `{"run_id":"` + runID + `","status":"queued","replayed":false}`},
		"job":      {"/v1/jobs", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, "application/json", 202, 202, "/v1/jobs/" + runID, `{"job_id":"` + runID + `","status":"queued"}`},
		"document": {"/documents", `{"text":"x"}`, "application/json", 201, 200, "/v1/documents/" + runID, `{"document_id":"` + runID + `","replayed":false}`},
		"pipeline": {"/v1/pipelines", `{"source":"name: p"}`, "application/json", 201, 200, "/v1/pipelines/p:v1", `{"pipeline":{"name":"p","version":"v1","steps":[]},"created":true}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			first := b.call(t, "POST", tt.path, tt.body, "Content-Type: "+tt.contentType)
			require.Equal(t, tt.status, first.StatusCode, first.body)
			require.Equal(t, tt.want+"\n", first.body)
			require.Equal(t, tt.location, first.Header.Get("Location"))
			require.Equal(t, "application/json", first.Header.Get("Content-Type"))
			require.Empty(t, first.Header.Get("Idempotency-Replayed"))
			require.NotEmpty(t, first.Header.Get("X-Request-Id"))

			b.replayed = true
			second := b.call(t, "POST", tt.path, tt.body, "Content-Type: "+tt.contentType)
			require.Equal(t, tt.repeated, second.StatusCode)
			require.Equal(t, "true", second.Header.Get("Idempotency-Replayed"))
		})
	}
}

func TestARunsPollHintAndTag(t *testing.T) {
	b := setup(t)
	b.run = &pawlv1.Run{RunId: runID, Status: pawlv1.RunStatus_RUN_STATUS_RUNNING, Etag: "7", CurrentStep: new("s")}
	running := b.call(t, "GET", "/runs/"+runID, "")
	require.Equal(t, 200, running.StatusCode)
	require.Equal(t, "1", running.Header.Get("Retry-After"))
	require.Equal(t, `"7"`, running.Header.Get("ETag"))
	require.Equal(t, "no-store", running.Header.Get("Cache-Control"))

	unchanged := b.call(t, "GET", "/v1/runs/"+runID, "", `If-None-Match: "7"`)
	require.Equal(t, 304, unchanged.StatusCode)
	require.Empty(t, unchanged.body)

	b.run = &pawlv1.Run{RunId: runID, Status: pawlv1.RunStatus_RUN_STATUS_DONE, Etag: "8"}
	done := b.call(t, "GET", "/v1/runs/"+runID, "", `If-None-Match: "7"`)
	require.Equal(t, 200, done.StatusCode)
	require.Empty(t, done.Header.Get("Retry-After"))
	require.Contains(t, done.body, `"current_step":null`)
}

func TestHeadIsGetWithoutBody(t *testing.T) {
	b := setup(t)
	b.run = &pawlv1.Run{RunId: runID}
	head := b.call(t, "HEAD", "/v1/runs/"+runID, "")
	require.Equal(t, 200, head.StatusCode)
	require.Empty(t, head.body)
	require.Equal(t, 200, b.call(t, "HEAD", "/healthz", "").StatusCode)
}

func TestBodiesOfOtherTypes(t *testing.T) {
	b := setup(t)
	for _, mediaType := range []string{"text/plain", "text/markdown"} {
		require.Equal(t, 201, b.call(t, "POST", "/documents", " \n", "Content-Type: "+mediaType+"; charset=UTF-8").StatusCode)
		document, _ := b.last().(*pawlv1.CreateDocumentRequest)
		require.Equal(t, " \n", document.GetText(), "white space is a document too")
		require.Equal(t, mediaType, document.GetMediaType())
	}
	for _, mediaType := range []string{"application/yaml", "application/x-yaml", "text/yaml"} {
		require.Equal(t, 201, b.call(t, "POST", "/v1/pipelines", "name: p", "Content-Type: "+mediaType).StatusCode)
		pipeline, _ := b.last().(*pawlv1.CreatePipelineRequest)
		require.Equal(t, "name: p", pipeline.GetSource())
		require.Equal(t, 200, b.call(t, "POST", "/v1/pipelines:validate", "name: q", "Content-Type: "+mediaType).StatusCode)
		checked, _ := b.last().(*pawlv1.ValidatePipelineRequest)
		require.Equal(t, "name: q", checked.GetSource())
	}
	// What curl sends when it is not told otherwise.
	form := b.call(t, "POST", "/v1/runs", `{"pipeline":"p","input":1}`, "Content-Type: application/x-www-form-urlencoded")
	require.Equal(t, 202, form.StatusCode, form.body)
	b.run = &pawlv1.Run{RunId: runID}
	require.Equal(t, 200, b.call(t, "POST", "/v1/runs/"+runID+":cancel", "").StatusCode, "a body may be left out")
}

func TestQuery(t *testing.T) {
	b := setup(t)
	require.Equal(t, 200, b.call(t, "GET", "/v1/runs?status=needs_review&class=batch&page_size=5&entity_id=a%20b", "").StatusCode)
	query, _ := b.last().(*pawlv1.ListRunsRequest)
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_NEEDS_REVIEW, query.GetStatus())
	require.Equal(t, pawlv1.RunClass_RUN_CLASS_BATCH, query.GetClass())
	require.Equal(t, int32(5), query.GetPageSize())
	require.Equal(t, "a b", query.GetEntityId())
}

func TestRefusals(t *testing.T) {
	const json, text = "Content-Type: application/json", "Content-Type: text/plain"
	tests := map[string]struct {
		method, path, body, header string
		status                     int
		reason, field, message     string
	}{
		"malformed":             {"POST", "/v1/runs", "{\n \"pipeline\": }", json, 400, "MALFORMED_BODY", "line 2, column 14", "invalid character '}' looking for beginning of value (byte 15)"},
		"unknown field":         {"POST", "/v1/runs", `{"pipeline":"p","input":1,"inputs":2}`, json, 400, "INVALID_ARGUMENT", "inputs", "is not a field here; the fields are pipeline, input, entity_id, class, priority, labels, callback_url, budget_usd, deadline, idempotency_key, not_before (line 1, column 36)"},
		"wrong type":            {"POST", "/v1/runs", `{"pipeline":1,"input":1}`, json, 400, "INVALID_ARGUMENT", "pipeline", "must be a text, not 1 (line 1, column 13)"},
		"rule of the schema":    {"POST", "/v1/runs", `{"pipeline":"p","input":1,"priority":101}`, json, 400, "INVALID_ARGUMENT", "priority", "must be greater than or equal to -100 and less than or equal to 100"},
		"no body":               {"POST", "/v1/runs", "", json, 400, "INVALID_ARGUMENT", "pipeline", "value is required"},
		"body too large":        {"POST", "/v1/runs", strings.Repeat(" ", 1001), json, 413, "BODY_TOO_LARGE", "", ""},
		"document too large":    {"POST", "/documents", strings.Repeat("x", 2001), text, 413, "BODY_TOO_LARGE", "", ""},
		"other documents":       {"POST", "/documents", "%PDF", "Content-Type: application/pdf", 415, "UNSUPPORTED_MEDIA_TYPE", "", ""},
		"other charset":         {"POST", "/documents", "x", "Content-Type: text/plain; charset=latin1", 415, "UNSUPPORTED_MEDIA_TYPE", "", ""},
		"not UTF-8":             {"POST", "/documents", "\xff", text, 415, "UNSUPPORTED_MEDIA_TYPE", "", ""},
		"unreadable type":       {"POST", "/v1/runs", "{}", "Content-Type: ;;", 415, "UNSUPPORTED_MEDIA_TYPE", "", ""},
		"text where JSON is":    {"POST", "/v1/runs", "x", text, 415, "UNSUPPORTED_MEDIA_TYPE", "", ""},
		"YAML where JSON is":    {"POST", "/v1/runs", "x", "Content-Type: application/yaml", 415, "UNSUPPORTED_MEDIA_TYPE", "", ""},
		"unknown parameter":     {"GET", "/v1/runs?stat=done", "", json, 400, "INVALID_ARGUMENT", "stat", "is not a parameter here; the parameters are page_size, page_token, status, pipeline, entity_id, class, reason, batch_id"},
		"unknown word":          {"GET", "/v1/runs?status=RUN_STATUS_DONE", "", json, 400, "INVALID_ARGUMENT", "status", `must be one of queued, running, needs_review, compensating, done, failed, cancelled, not "RUN_STATUS_DONE"`},
		"no id":                 {"GET", "/v1/runs/x", "", json, 400, "INVALID_ARGUMENT", "run_id", "must be a valid UUID"},
		"query not UTF-8":       {"GET", "/v1/runs?entity_id=%ff", "", json, 400, "INVALID_ARGUMENT", "entity_id", `must be a text in UTF-8, not "\xff"`},
		"path not UTF-8":        {"GET", "/v1/runs/a%ff", "", json, 400, "INVALID_ARGUMENT", "run_id", `must be a text in UTF-8, not "a\xff"`},
		"watch not UTF-8":       {"GET", "/v1/runs/%ff:watch", "", json, 400, "INVALID_ARGUMENT", "run_id", `must be a text in UTF-8, not "\xff"`},
		"unknown path":          {"GET", "/v1/run", "", json, 404, "NO_SUCH_ENDPOINT", "", ""},
		"path outside":          {"GET", "/", "", json, 404, "NO_SUCH_ENDPOINT", "", ""},
		"slash at the end":      {"GET", "/v1/runs/", "", json, 404, "NO_SUCH_ENDPOINT", "", ""},
		"two slashes":           {"POST", "//v1/runs", "{}", json, 404, "NO_SUCH_ENDPOINT", "", ""},
		"unknown verb":          {"POST", "/v1/runs:explode", "{}", json, 404, "NO_SUCH_ENDPOINT", "", ""},
		"method":                {"DELETE", "/v1/runs/" + runID, "", json, 405, "NO_SUCH_ENDPOINT", "", ""},
		"overridden method":     {"PUT", "/v1/runs", "{}", "X-HTTP-Method-Override: POST", 405, "NO_SUCH_ENDPOINT", "", ""},
		"form instead of query": {"POST", "/v1/runs/" + runID, "", "Content-Type: application/x-www-form-urlencoded", 405, "NO_SUCH_ENDPOINT", "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			refused := b.call(t, tt.method, tt.path, tt.body, tt.header, "X-Request-Id: req-7")
			p := refused.problem(t)
			require.Equal(t, tt.status, p.Status, refused.body)
			require.Equal(t, tt.reason, p.Reason)
			require.NotEmpty(t, p.Detail)
			require.NotEmpty(t, p.Title)
			require.Equal(t, "req-7", p.RequestID)
			require.Equal(t, "req-7", refused.Header.Get("X-Request-Id"))
			require.Equal(t, "https://pawl.internal/problems/"+strings.ToLower(strings.ReplaceAll(tt.reason, "_", "-")), p.Type)
			if tt.field != "" {
				require.Equal(t, tt.field, p.Errors[0].Field)
				require.Equal(t, tt.message, p.Errors[0].Message)
			}
			require.Nil(t, b.last(), "nothing arrived")
		})
	}
}

func TestAllowNamesTheMethodsOfAPath(t *testing.T) {
	b := setup(t)
	tests := map[string]string{
		"/v1/runs": "GET, POST", "/v1/runs/" + runID: "GET", "/v1/jobs": "POST", "/v1/pipelines:validate": "POST",
		"/v1/runs/" + runID + ":cancel": "GET, POST", "/documents/" + runID + "/extract": "POST",
	}
	for path, want := range tests {
		refused := b.call(t, "PATCH", path, "")
		require.Equal(t, 405, refused.StatusCode, path)
		require.Equal(t, want, refused.Header.Get("Allow"), path)
	}
}

func TestErrorsOfTheServer(t *testing.T) {
	b := setup(t)
	b.err = fault.New(faultv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED, "there is no such API key")
	refused := b.call(t, "GET", "/v1/runs/"+runID, "")
	require.Equal(t, 401, refused.StatusCode)
	require.Equal(t, "Bearer", refused.Header.Get("WWW-Authenticate"))

	b.err = fault.New(faultv1.ErrorReason_ERROR_REASON_RATE_LIMITED, "slower").WithRetryAfter(1500*time.Millisecond).WithMeta("limit", "5")
	limited := b.call(t, "GET", "/v1/runs/"+runID, "")
	require.Equal(t, "2", limited.Header.Get("Retry-After"))
	p := limited.problem(t)
	require.Equal(t, 429, p.Status)
	require.Equal(t, 2, p.RetryAfter)
	require.Equal(t, map[string]string{"limit": "5"}, p.Metadata)
	require.Equal(t, "RESOURCE_EXHAUSTED", p.Code)
	require.Equal(t, "/v1/runs/"+runID, p.Instance)

	b.err = io.ErrShortBuffer
	broken := b.call(t, "GET", "/v1/runs/"+runID, "").problem(t)
	require.Equal(t, 500, broken.Status)
	require.Equal(t, "internal error", broken.Detail, "what went wrong inside is for the log")

	b.err, b.run = nil, &pawlv1.Run{CostSoFarUsd: "much"}
	require.Equal(t, 500, b.call(t, "GET", "/v1/runs/"+runID, "").problem(t).Status)
}

func TestUnfitRequestIDsAreReplaced(t *testing.T) {
	b := setup(t)
	for _, id := range []string{strings.Repeat("x", 129), "a b", "é"} {
		got := b.call(t, "GET", "/healthz", "", "X-Request-Id: "+id).Header.Get("X-Request-Id")
		require.Regexp(t, `^[0-9a-f-]{36}$`, got)
	}
}

func TestMetricsHaveRoutesNotPaths(t *testing.T) {
	b := setup(t)
	b.run = &pawlv1.Run{RunId: runID}
	b.call(t, "GET", "/v1/runs/"+runID, "")
	b.call(t, "GET", "/nowhere/"+runID, "")
	b.call(t, "BREW", "/v1/runs/"+runID, "")
	families, err := b.metrics.Gather()
	require.NoError(t, err)
	var counted []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if counter := metric.GetCounter(); counter != nil {
				labels := family.GetName()
				for _, label := range metric.GetLabel() {
					labels += " " + label.GetValue()
				}
				counted = append(counted, labels)
			}
		}
	}
	require.Equal(t, []string{
		"pawl_intake_http_requests_total GET /v1/runs/{run_id} 200",
		"pawl_intake_http_requests_total GET none 404",
		"pawl_intake_http_requests_total other none 405",
	}, counted)
}

func TestAdminAndDescription(t *testing.T) {
	b := setup(t)
	for _, path := range []string{"/livez", "/readyz", "/healthz", "/metrics"} {
		require.Equal(t, "admin "+path, b.call(t, "GET", path, "").body)
	}
	require.JSONEq(t, string(openapi.Document), b.call(t, "GET", "/openapi.json", "").body)
}

// events reads server-sent events from a watch.
type events struct {
	t      *testing.T
	body   io.ReadCloser
	reader *bufio.Reader
}

func (b *bundle) watch(t *testing.T, headers ...string) (*http.Response, *events) {
	t.Helper()
	response := b.open(t, "GET", "/v1/runs/"+runID+":watch", "", headers...)
	t.Cleanup(func() { response.Body.Close() })
	return response, &events{t: t, body: response.Body, reader: bufio.NewReader(response.Body)}
}

// next returns the lines of the next event or comment; none at the end.
func (e *events) next() []string {
	e.t.Helper()
	var lines []string
	for {
		line, err := e.reader.ReadString('\n')
		if err != nil {
			require.ErrorIs(e.t, err, io.EOF)
			return lines
		}
		if line == "\n" {
			return lines
		}
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
}

func TestWatch(t *testing.T) {
	b := setup(t)
	running := &pawlv1.Run{RunId: runID, Status: pawlv1.RunStatus_RUN_STATUS_RUNNING, StepsTotal: 1, Etag: "1", CurrentStep: new("s")}
	done := &pawlv1.Run{RunId: runID, Status: pawlv1.RunStatus_RUN_STATUS_DONE, StepsTotal: 1, Etag: "2", Result: &pawlv1.JsonValue{Json: "{\r\n\"a\":1}"}}
	go func() { b.states <- running }()
	response, stream := b.watch(t, "X-Request-Id: req-1")
	require.Equal(t, 200, response.StatusCode)
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	require.Equal(t, "no", response.Header.Get("X-Accel-Buffering"))
	require.Equal(t, []string{"retry: 3000"}, stream.next())
	require.Equal(t, []string{
		"id: 1", "event: state",
		`data: {"run_id":"` + runID + `","status":"running","current_step":"s","steps_done":0,"steps_total":1,"cost_so_far_usd":0,"etag":"1"}`,
	}, stream.next())

	b.clock.BlockUntil(t, 1)
	b.clock.Advance(15 * time.Second)
	require.Equal(t, []string{": still here"}, stream.next())

	b.states <- done
	close(b.states)
	require.Equal(t, []string{
		"id: 2", "event: done",
		`data: {"run_id":"` + runID + `","status":"done","current_step":null,"steps_done":0,"steps_total":1,"cost_so_far_usd":0,"result":{`,
		"data: ", `data: "a":1},"etag":"2"}`,
	}, stream.next())
	require.Empty(t, stream.next(), "the stream ends with the run")
}

func TestWatchResumes(t *testing.T) {
	b := setup(t)
	go func() {
		b.states <- &pawlv1.Run{RunId: runID, Status: pawlv1.RunStatus_RUN_STATUS_RUNNING, Etag: "1"}
		b.states <- &pawlv1.Run{RunId: runID, Status: pawlv1.RunStatus_RUN_STATUS_RUNNING, Etag: "2"}
		close(b.states)
	}()
	_, stream := b.watch(t, "Last-Event-ID: 1")
	require.Equal(t, []string{"retry: 3000"}, stream.next())
	require.Equal(t, "id: 2", stream.next()[0], "what the caller has is not sent again")
}

func TestWatchOfAnEndThatIsKnown(t *testing.T) {
	b := setup(t)
	go func() {
		b.states <- &pawlv1.Run{RunId: runID, Status: pawlv1.RunStatus_RUN_STATUS_DONE, Etag: "9"}
		close(b.states)
	}()
	response, _ := b.watch(t, "Last-Event-ID: 9")
	require.Equal(t, 204, response.StatusCode, "an EventSource comes back for ever unless it is told not to")
}

func TestWatchRefused(t *testing.T) {
	b := setup(t)
	b.err = fault.New(faultv1.ErrorReason_ERROR_REASON_RUN_NOT_FOUND, "there is no run")
	require.Equal(t, "RUN_NOT_FOUND", b.call(t, "GET", "/runs/"+runID+":watch", "").problem(t).Reason)
	require.Equal(t, "INVALID_ARGUMENT", b.call(t, "GET", "/runs/x:watch", "").problem(t).Reason)
}

func TestLeavingAWatchEndsIt(t *testing.T) {
	b := setup(t)
	go func() { b.states <- &pawlv1.Run{RunId: runID, Etag: "1"} }()
	_, stream := b.watch(t)
	stream.next()
	require.NoError(t, stream.body.Close())
	// goleak finds what would stay behind.
}

// TestEveryRouteIsDescribed compares the routes of the mux with the OpenAPI document.
func TestEveryRouteIsDescribed(t *testing.T) {
	var document struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(openapi.Document, &document))
	b := setup(t)
	for path, methods := range document.Paths {
		real := strings.NewReplacer("{run_id}", runID, "{document_id}", runID, "{job_id}", runID, "{batch_id}", runID, "{name}", "p",
			"{tenant_id}", "acme", "{prefix}", "abcd").Replace(path)
		allowed := b.call(t, "TRACE", real, "").Header.Get("Allow")
		for method := range methods {
			require.Contains(t, allowed, strings.ToUpper(method), path)
		}
	}
}
