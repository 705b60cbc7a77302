package llmgateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/llmgateway"
	"pawl.internal/services/testkit"
)

const (
	endpointKey = "pawl_client00_0123456789abcdef"
	hello       = `{"model":"default","max_tokens":50,"messages":[{"role":"user","content":"Hello"}]}`
)

// access is a stand-in for intake: it knows one key.
type access struct {
	systemv1.UnimplementedAccessServiceServer
}

func (access) Authenticate(_ context.Context, req *systemv1.AuthenticateRequest) (*systemv1.AuthenticateResponse, error) {
	if req.GetApiKey() != endpointKey {
		return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED, "there is no such API key")
	}
	return &systemv1.AuthenticateResponse{Tenant: "acme", Role: "client", KeyPrefix: "client00"}, nil
}

func (access) Register(r grpc.ServiceRegistrar) { systemv1.RegisterAccessServiceServer(r, access{}) }
func (access) Run(ctx context.Context) error    { <-ctx.Done(); return ctx.Err() }
func (access) Ready(context.Context) error      { return nil }
func (access) Drain(context.Context)            {}
func withEndpoint(c *llmgateway.Config) {
	c.Endpoint = "127.0.0.1:0"
	c.EndpointMaxBodyBytes = 1 << 20
	c.EndpointTimeout = patience
}

func (b *bench) scopes() int { return one[int](b, `SELECT count(*) FROM llm.run_spend WHERE outside`) }

// reply is what the endpoint answered.
type reply struct {
	status int
	header http.Header
	body   string
}

// post asks the endpoint of a replica; headers are given as "Name: value".
func (g *gateway) post(ctx context.Context, body string, headers ...string) (reply, error) {
	url := "http://" + g.service.EndpointAddress() + "/v1/chat/completions"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	request.Header.Set("Authorization", "Bearer "+endpointKey)
	for _, each := range headers {
		name, value, _ := strings.Cut(each, ": ")
		request.Header.Set(name, value)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, string(text)}, err
}

// chat asks and insists on a status.
func (g *gateway) chat(t *testing.T, status int, body string, headers ...string) reply {
	t.Helper()
	r, err := g.post(t.Context(), body, headers...)
	require.NoError(t, err)
	require.Equal(t, status, r.status, r.body)
	return r
}

func TestI02_TheEndpointReplays(t *testing.T) {
	b := newBench(t)
	g := b.gateway(withEndpoint)
	first := g.chat(t, 200, hello, "Idempotency-Key: k")
	require.Empty(t, first.header.Get("X-Pawl-Replayed"))
	again := g.chat(t, 200, hello, "Idempotency-Key: k")
	require.Equal(t, first.body, again.body)
	require.Equal(t, "true", again.header.Get("X-Pawl-Replayed"))
	require.Equal(t, first.header.Get("X-Pawl-Call"), again.header.Get("X-Pawl-Call"))
	require.Equal(t, first.header.Get("X-Pawl-Cost-Usd"), again.header.Get("X-Pawl-Cost-Usd"))
	streamed := g.chat(t, 200, strings.Replace(hello, "{", `{"stream":true,`, 1), "Idempotency-Key: k")
	require.Contains(t, streamed.body, "data: [DONE]")
	require.Equal(t, 1, b.main.received(), "nothing was bought twice")
	require.Contains(t, g.chat(t, 422, strings.Replace(hello, "Hello", "Bye", 1), "Idempotency-Key: k").body, "idempotency_key_reused")
	require.Equal(t, 1, b.main.received())

	g.chat(t, 200, hello)
	g.chat(t, 200, hello)
	require.Equal(t, 3, b.main.received(), "without a key each request is bought")
	require.Equal(t, 3, b.scopes())
	scope, err := uuid.Parse(strings.Split(first.header.Get("X-Pawl-Call"), "/")[0])
	require.NoError(t, err)
	log, err := g.ListCalls(t.Context(), &systemv1.ListCallsRequest{Tenant: "acme", RunId: scope[:]})
	require.NoError(t, err)
	require.Len(t, log.GetCalls(), 1)
	require.Equal(t, "chat", log.GetCalls()[0].GetStep())
	require.Equal(t, first.header.Get("X-Pawl-Cost-Usd"), log.GetCalls()[0].GetCostUsd())
	b.balanced()

	_, err = b.database.Pool.Exec(t.Context(), `UPDATE llm.scope SET expires_at = clock_timestamp() - interval '1 second'`)
	require.NoError(t, err)
	require.Empty(t, g.chat(t, 200, hello, "Idempotency-Key: k").header.Get("X-Pawl-Replayed"), "the key is free again")
	require.Equal(t, 4, b.main.received())
	require.NotContains(t, b.log.String(), endpointKey)
}

// What is spent outside of runs nobody is told: the orchestrator has no run to note it with.
func TestScopesOfTheEndpointAreOwedToNobody(t *testing.T) {
	b := newBench(t)
	g := b.gateway(withEndpoint)
	g.chat(t, 200, hello)
	require.Positive(t, one[int](b, `SELECT count(*) FROM llm.run_spend WHERE outside AND spent > 0`))
	require.Zero(t, one[int](b, `SELECT count(*) FROM llm.spend_owed`))
	run := b.ids.V7()
	g.answer(t, b.question(run, "x")) // a run's is told, after it
	testkit.Eventually(t, patience, func() error {
		if b.orders.spend(run) == 0 {
			return errors.New("the run's spend was not told")
		}
		return nil
	})
	b.orders.mu.Lock()
	defer b.orders.mu.Unlock()
	require.Len(t, b.orders.spent, 1)
}

func TestI02_TheEndpointsOfReplicasBuyOnce(t *testing.T) {
	b := newBench(t)
	replicas := []*gateway{b.gateway(withEndpoint), b.gateway(withEndpoint)}
	letGo := b.main.hold(t)
	const clients = 12
	replies, errs := make(chan reply, clients), make(chan error, clients)
	for i := range clients {
		go func() {
			body := hello
			if i%3 == 2 {
				body = strings.Replace(hello, "{", `{"stream":true,`, 1)
			}
			r, err := replicas[i%2].post(t.Context(), body, "Idempotency-Key: shared")
			replies <- r
			errs <- err
		}()
	}
	b.main.awaitInFlight(t, 1)
	letGo()
	whole, bought := "", 0
	for range clients {
		require.NoError(t, <-errs)
		r := <-replies
		require.Equal(t, 200, r.status, r.body)
		if r.header.Get("X-Pawl-Replayed") == "" {
			bought++
		}
		if r.header.Get("Content-Type") != "application/json" {
			continue
		}
		if whole == "" {
			whole = r.body
		}
		require.Equal(t, whole, r.body)
	}
	require.Equal(t, 1, b.main.received())
	require.Equal(t, 1, bought, "one of them began it")
	b.balanced()
}

// A gateway that dies with a request in flight leaves a question that may be paid: it is not bought again unless the client
// says so.
func TestI02_TheEndpointDoesNotBuyAgainAfterADeath(t *testing.T) {
	b := newBench(t)
	dying, other := b.gateway(withEndpoint), b.gateway(withEndpoint)
	letGo := b.main.hold(t)
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = dying.post(ctx, hello, "Idempotency-Key: k")
	}()
	b.main.awaitInFlight(t, 1)
	dying.kill()
	leave()
	<-gone
	for range 2 {
		r := other.chat(t, 409, hello, "Idempotency-Key: k")
		require.Contains(t, r.body, `"code":"call_ambiguous"`)
		require.Equal(t, "false", r.header.Get("X-Should-Retry"))
	}
	require.Equal(t, 1, b.main.received())
	letGo()
	other.chat(t, 200, hello, "Idempotency-Key: k", "X-Pawl-Ambiguous: retry")
	require.Equal(t, 2, b.main.received())
	require.Equal(t, "true", other.chat(t, 200, hello, "Idempotency-Key: k").header.Get("X-Pawl-Replayed"))
	require.Equal(t, 2, b.main.received())
	b.balanced()
}

func TestI02_AClientThatLeftFetchesItsAnswer(t *testing.T) {
	b := newBench(t)
	g := b.gateway(withEndpoint)
	letGo := b.main.hold(t)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := g.post(ctx, hello, "Idempotency-Key: k")
		left <- err
	}()
	b.main.awaitInFlight(t, 1)
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
	letGo()
	eventually(b, "answered", `SELECT state FROM llm.llm_call_log`)
	require.Equal(t, "true", g.chat(t, 200, hello, "Idempotency-Key: k").header.Get("X-Pawl-Replayed"))
	require.Equal(t, 1, b.main.received())
	b.balanced()
}

func TestI09_TheEndpointKeepsToABudget(t *testing.T) {
	b := newBench(t)
	g := b.gateway(withEndpoint)
	r := g.chat(t, 429, hello, "X-Pawl-Budget-Usd: 0.00001")
	require.Contains(t, r.body, `"code":"insufficient_quota"`)
	require.Zero(t, b.main.received())
	g.chat(t, 200, hello, "X-Pawl-Budget-Usd: 0.01")
}

func TestTheEndpointEndsInOrder(t *testing.T) {
	b := newBench(t)
	g := b.gateway(withEndpoint)
	address := g.service.EndpointAddress()
	letGo := b.main.hold(t)
	answered := make(chan error, 1)
	go func() {
		r, err := g.post(t.Context(), hello)
		if err == nil && r.status != 200 {
			err = fmt.Errorf("it was answered with %d: %s", r.status, r.body)
		}
		answered <- err
	}()
	b.main.awaitInFlight(t, 1)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		g.stop()
	}()
	testkit.Eventually(t, patience, func() error {
		r, err := http.Get("http://" + address + "/livez") //nolint:gosec // the test's own address
		if err == nil {
			r.Body.Close()
			return errors.New("it still takes connections")
		}
		return nil
	})
	letGo()
	require.NoError(t, <-answered, "what was under way is answered")
	<-stopped
}

func TestTheEndpointListsItsModels(t *testing.T) {
	b := newBench(t)
	g := b.gateway(withEndpoint)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.service.EndpointAddress()+"/v1/models", http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+endpointKey)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	for _, name := range []string{`"default","object":"model"`, `"wide"`, `"small"`, `"large"`, `"owned_by":"main"`, `"owned_by":"pawl"`} {
		require.Contains(t, string(text), name)
	}
	missing := g.chat(t, 404, strings.Replace(hello, "default", "gpt-9", 1))
	require.Contains(t, missing.body, `"code":"model_not_found"`)
	require.Zero(t, b.scopes())
}
