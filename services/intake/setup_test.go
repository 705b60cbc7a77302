package intake_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"pawl.internal/services/intake"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/boot"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/internal/pipeline"
	"pawl.internal/services/internal/redisconn"
	"pawl.internal/services/testkit"
)

const patience = 10 * time.Second

// bundle is intake as boot runs it, between real stores and fake neighbours.
type bundle struct {
	orchestrator *orchestrator
	gateway      *gateway
	service      *intake.Service
	process      *boot.Process
	database     *testkit.Database
	redis        *testkit.Keys
	url          string
	// keys open the tenants "acme" and "rival" as operators.
	acme, rival string
	stop        func()
}

type option func(*intake.Config)

func setup(t *testing.T, options ...option) *bundle {
	t.Helper()
	b := &bundle{
		orchestrator: newOrchestrator(), gateway: &gateway{},
		database: testkit.Postgres(t, store.Schema()), redis: testkit.Redis(t),
	}
	b.start(t, options...)
	b.acme, b.rival = b.newKey(t, "acme", store.RoleOperator), b.newKey(t, "rival", store.RoleOperator)
	builtins, err := pipeline.Builtins()
	require.NoError(t, err)
	for _, each := range builtins {
		_, err := b.orchestrator.addPipeline("acme", string(each.Source), "system")
		require.NoError(t, err)
	}
	return b
}

// start runs a process with intake and the fakes until the test ends, or stop is called.
func (b *bundle) start(t *testing.T, options ...option) {
	t.Helper()
	cfg := intake.Config{
		Database: pg.Config{URL: config.NewSecret(b.database.URL), MaxConns: 4, StatementTimeout: patience, ConnectTimeout: patience},
		Redis:    redisconn.Config{URL: config.NewSecret(b.redis.URL), Prefix: b.redis.Prefix},
		REST:     "127.0.0.1:0", MaxBodyBytes: 100 << 10, MaxDocumentBytes: 1 << 20,
		MaxBatchBytes: 8 << 20, MaxSpoolBytes: 64 << 20, RequestTimeout: patience,
		Admission: intake.Admission{SubmitRate: 60000, SubmitBurst: 10000, MaxQueuedRuns: 1000, MaxBacklog: 10000, BatchShare: 80},
	}
	for _, each := range options {
		each(&cfg)
	}
	system := clock.System()
	b.process = boot.New(boot.Config{}, system, ids.New(system), slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	built := make(chan *intake.Service, 1)
	table := []boot.Entry{
		{Name: "orchestrator", Build: func(context.Context, *boot.Process) (boot.Service, error) { return b.orchestrator, nil }},
		{Name: "llm-gateway", Build: func(context.Context, *boot.Process) (boot.Service, error) { return b.gateway, nil }},
		{Name: intake.Name, Needs: []string{"orchestrator", "llm-gateway"}, Build: func(ctx context.Context, p *boot.Process) (boot.Service, error) {
			s, err := intake.Build(ctx, p, cfg)
			if err == nil {
				built <- s
			}
			return s, err
		}},
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- boot.Run(ctx, b.process, table, []string{"orchestrator", "llm-gateway", intake.Name}) }()
	select {
	case b.service = <-built:
	case err := <-ended:
		cancel()
		require.FailNow(t, "intake did not start", "%v", err)
	}
	b.url = "http://" + b.service.RESTAddress()
	b.stop = func() {
		if ended == nil {
			return
		}
		cancel()
		require.NoError(t, <-ended)
		ended = nil
		http.DefaultClient.CloseIdleConnections()
	}
	t.Cleanup(b.stop)
	testkit.Eventually(t, patience, func() error { return b.service.Ready(t.Context()) })
}

func (b *bundle) newKey(t *testing.T, tenant string, role store.Role) string {
	t.Helper()
	key, err := intake.EnsureKey(t.Context(), b.database.Pool, tenant, role, "")
	require.NoError(t, err)
	return key
}

// as is a context for gRPC calls with an API key and, if given, an idempotency key.
func as(t *testing.T, key string, pairs ...string) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return metadata.AppendToOutgoingContext(ctx, append([]string{"authorization", "Bearer " + key}, pairs...)...)
}

// conn leads to intake as another service of its process would reach it.
func (b *bundle) conn(t *testing.T) *grpc.ClientConn {
	t.Helper()
	conn, err := b.process.Dial(intake.Name)
	require.NoError(t, err)
	return conn
}

type answer struct {
	status int
	header http.Header
	body   string
}

// call sends a REST request; headers are given as "Name: value".
func (b *bundle) call(t *testing.T, key, method, path, body string, headers ...string) answer {
	t.Helper()
	response := b.open(t, key, method, path, body, headers...)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answer{response.StatusCode, response.Header, string(text)}
}

func (b *bundle) open(t *testing.T, key, method, path, body string, headers ...string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, b.url+path, strings.NewReader(body))
	require.NoError(t, err)
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	return response
}

type problem struct {
	Status    int    `json:"status"`
	Reason    string `json:"reason"`
	Detail    string `json:"detail"`
	RequestID string `json:"request_id"`
	Errors    []struct {
		Field   string `json:"field"`
		Message string `json:"message"`
	} `json:"errors"`
}

func (a answer) problem(t *testing.T) problem {
	t.Helper()
	require.Equal(t, "application/problem+json", a.header.Get("Content-Type"), a.body)
	var p problem
	require.NoError(t, json.Unmarshal([]byte(a.body), &p))
	require.Equal(t, a.status, p.Status)
	return p
}

// member returns a member of an object as text.
func (a answer) member(t *testing.T, name string) string {
	t.Helper()
	var object map[string]any
	require.NoError(t, json.Unmarshal([]byte(a.body), &object), a.body)
	text, _ := object[name].(string)
	return text
}
