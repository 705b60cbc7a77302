package compat_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/llmgateway/compat"
	"pawl.internal/services/llmgateway/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	clientKey = "pawl_client00_0123456789abcdef"
	viewerKey = "pawl_viewer00_0123456789abcdef"
	strange   = "pawl_strange0_0123456789abcdef"
	hello     = `{"model":"default","messages":[{"role":"user","content":"Hello"}]}`
)

// bench is an endpoint with a fake gateway and a fake intake.
type bench struct {
	gateway  *gateway
	access   *access
	clock    *movable
	registry *prometheus.Registry
	log      *buffer
	url      string
}

func setup(t *testing.T) *bench {
	t.Helper()
	b := &bench{
		gateway: newGateway(), access: &access{}, clock: &movable{Clock: clock.System()}, registry: prometheus.NewRegistry(), log: &buffer{},
	}
	handler := compat.New(compat.Config{
		Gateway: b.gateway, Access: b.access, Admin: http.NotFoundHandler(), Clock: b.clock, IDs: ids.Seeded(b.clock, 1),
		Log:     slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Metrics: b.registry, MaxBodyBytes: 4 << 10, Timeout: time.Minute, LLMTimeout: 20 * time.Second,
	})
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	b.url = server.URL
	return b
}

// movable is the machine's clock, which a test may put forward. Timers are the machine's.
type movable struct {
	clock.Clock

	mu    sync.Mutex
	ahead time.Duration // guarded by mu
}

func (m *movable) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Clock.Now().Add(m.ahead)
}

func (m *movable) advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ahead += d
}

type buffer struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// access is a fake intake.
type access struct {
	mu    sync.Mutex
	away  bool // guarded by mu
	asked int  // guarded by mu
}

func (a *access) setAway(away bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away = away
}

func (a *access) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

func (a *access) Authenticate(
	_ context.Context, req *systemv1.AuthenticateRequest, _ ...grpc.CallOption,
) (*systemv1.AuthenticateResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	if a.away {
		return nil, fault.Unavailable(errors.New("refused"), "intake is away")
	}
	roles := map[string]string{clientKey: "client", viewerKey: "viewer", strange: "owner"}
	role, ok := roles[req.GetApiKey()]
	if !ok {
		return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED, "there is no such API key")
	}
	return &systemv1.AuthenticateResponse{Tenant: "acme", Role: role, KeyPrefix: strings.Split(req.GetApiKey(), "_")[1]}, nil
}

// gateway is a fake: it answers every question with the same call.
type gateway struct {
	call *call
	// err is what Ask returns.
	err error

	mu     sync.Mutex
	asked  []*systemv1.GenerateRequest // guarded by mu
	live   []bool                      // guarded by mu
	scopes map[compat.Key]uuid.UUID    // guarded by mu
	reused bool                        // guarded by mu
}

func newGateway() *gateway {
	g := &gateway{call: newCall(), scopes: map[compat.Key]uuid.UUID{}}
	g.call.answer(&systemv1.Answer{
		Text: "Hi", FinishReason: "stop", Provider: "main", Model: "small-1", InputTokens: 9, CachedInputTokens: 4, OutputTokens: 5,
		ReasoningTokens: 3, CostPicoUsd: 14_500_000, CallKey: make([]byte, 32),
	})
	return g
}

func (g *gateway) Models() []compat.Model {
	return []compat.Model{{ID: "default", Owner: "pawl"}, {ID: "org/small-1", Owner: "main"}}
}

func (g *gateway) Knows(name string) bool { return name == "default" || name == "org/small-1" }

func (g *gateway) Scope(_ context.Context, key compat.Key, _ *systemv1.GenerateRequest, fresh uuid.UUID) (uuid.UUID, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reused {
		return uuid.UUID{}, compat.ErrKeyReused
	}
	if known, ok := g.scopes[key]; ok {
		return known, nil
	}
	g.scopes[key] = fresh
	return fresh, nil
}

func (g *gateway) Ask(_ context.Context, q *systemv1.GenerateRequest, live bool) (compat.Call, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked, g.live = append(g.asked, q), append(g.live, live)
	return g.call, g.err
}

// question is the one that was asked last.
func (g *gateway) question(t *testing.T) *systemv1.GenerateRequest {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	require.NotEmpty(t, g.asked)
	return g.asked[len(g.asked)-1]
}

func (g *gateway) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.asked)
}

// call is one whose progress the test decides.
type call struct {
	mu       sync.Mutex
	pieces   []provider.Delta // guarded by mu
	more     chan struct{}    // guarded by mu
	done     chan struct{}
	result   compat.Result
	err      error
	replayed bool
}

func newCall() *call { return &call{more: make(chan struct{}), done: make(chan struct{})} }

func (c *call) say(d provider.Delta) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pieces = append(c.pieces, d)
	close(c.more)
	c.more = make(chan struct{})
}

func (c *call) answer(a *systemv1.Answer) {
	c.result.Answer = a
	close(c.done)
}

func (c *call) fail(f *systemv1.CallFailure) {
	c.result.Failure = f
	close(c.done)
}

func (c *call) Said(n int) ([]provider.Delta, string, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pieces[n:], "small-1", c.more
}

func (c *call) Done() <-chan struct{}          { return c.done }
func (c *call) Result() (compat.Result, error) { return c.result, c.err }
func (c *call) Replayed() bool                 { return c.replayed }

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

// post asks with the client's key; headers are given as "Name: value".
func (b *bench) post(t *testing.T, path, body string, headers ...string) answer {
	t.Helper()
	return b.send(t, http.MethodPost, path, body, append([]string{"Authorization: Bearer " + clientKey}, headers...)...)
}

func (b *bench) send(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	response := b.open(t, method, path, body, headers...)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answer{response.StatusCode, response.Header, string(text)}
}

func (b *bench) open(t *testing.T, method, path, body string, headers ...string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, b.url+path, strings.NewReader(body))
	require.NoError(t, err)
	for _, each := range headers {
		name, value, _ := strings.Cut(each, ": ")
		request.Header.Add(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	return response
}

// said is an error as clients read it.
type said struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func (a answer) problem(t *testing.T) said {
	t.Helper()
	return problemIn(t, a.body)
}

func problemIn(t *testing.T, body string) said {
	t.Helper()
	var got struct {
		Error *said `json:"error"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &got), body)
	require.NotNil(t, got.Error, body)
	require.NotEmpty(t, got.Error.Message)
	require.NotEmpty(t, got.Error.Type)
	require.NotNil(t, got.Error.Code)
	return *got.Error
}

func (s said) param() string {
	if s.Param == nil {
		return ""
	}
	return *s.Param
}
