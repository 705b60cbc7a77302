package harness

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/cmd/pawl/dev"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/testkit"
)

// GatewaysConfig says what Gateways are.
type GatewaysConfig struct {
	// Replicas is how many there are; 1 if 0.
	Replicas int
	// Models is the content of their models file.
	Models string
	// Flags are more flags of each.
	Flags []string
	// PostgresSettings are more settings of the private PostgreSQL; with any, it is private.
	PostgresSettings []string
}

// Gateways are replicas of the LLM gateway and nothing else, on stores of the test's own. Whoever has the questions asks
// them over gRPC, as a step-runner would.
type Gateways struct {
	// All are the replicas.
	All []*Gateway
	// Database and Redis are their stores.
	Database *testkit.Database
	Redis    *testkit.Keys
	// ModelsFile is where their models file stands.
	ModelsFile string
}

// Gateway is one replica.
type Gateway struct {
	*testkit.Process
	// Admin tells health and metrics.
	Admin  string
	Client systemv1.GatewayServiceClient
}

// StartGateways runs the replicas and returns when all are ready.
func StartGateways(t testing.TB, cfg GatewaysConfig) *Gateways {
	t.Helper()
	g := &Gateways{Redis: testkit.Redis(t), ModelsFile: WriteFile(t, "models.yaml", cfg.Models)}
	if len(cfg.PostgresSettings) > 0 {
		g.Database = testkit.DatabaseAt(t, testkit.PrivatePostgres(t, cfg.PostgresSettings...).URL(), serve.Schemas()...)
	} else {
		g.Database = testkit.Postgres(t, serve.Schemas()...)
	}
	for range max(1, cfg.Replicas) {
		g.All = append(g.All, g.start(t, cfg.Flags))
	}
	for _, r := range g.All {
		r.AwaitOK(r.Admin + "/readyz")
	}
	return g
}

func (g *Gateways) start(t testing.TB, flags []string) *Gateway {
	t.Helper()
	base, err := dev.FreePortBase(t.Context())
	require.NoError(t, err)
	ports := dev.PortsFrom(base)
	args := append([]string{"serve", serve.LLMGateway, "--log-format", "json"}, listeners(ports)...)
	args = append(args, "--orchestrator-address", loopback(ports.Orchestrator), "--llm-gateway-models-file", g.ModelsFile,
		"--redis-prefix", g.Redis.Prefix)
	env := []string{
		"PAWL_DATABASE_URL=" + g.Database.URL, "PAWL_REDIS_URL=" + g.Redis.URL, "PAWL_E2E_KEY=secret-of-the-test",
	}
	r := &Gateway{Process: Launch(t, env, append(args, flags...)...), Admin: "http://" + loopback(ports.Admin)}
	connection, err := grpc.NewClient(loopback(ports.LLMGateway), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	r.Client = systemv1.NewGatewayServiceClient(connection)
	return r
}

// Question is a question to a model, of a run of its own.
type Question struct {
	// Text is what the user says, and Route where it goes; "default" if empty.
	Text, Route string
	// Tenant is "tenant" if empty.
	Tenant string
	Batch  bool
	// MaxOutputTokens is 100 if 0.
	MaxOutputTokens int32
	// Timeout bounds the call, and Deadline all waits; a minute and ten minutes if 0.
	Timeout, Deadline time.Duration
}

// Request is the question as a step-runner would put it; each has a run of its own.
func (q Question) Request() *systemv1.GenerateRequest {
	run := uuid.Must(uuid.NewV7())
	class := pawlv1.RunClass_RUN_CLASS_INTERACTIVE
	if q.Batch {
		class = pawlv1.RunClass_RUN_CLASS_BATCH
	}
	most := cmp.Or(q.MaxOutputTokens, 100)
	return &systemv1.GenerateRequest{
		Step: &systemv1.StepRef{RunId: run[:], Step: "ask", Shard: -1}, Tenant: cmp.Or(q.Tenant, "tenant"), Class: class,
		Route: cmp.Or(q.Route, "default"), Messages: []*systemv1.Message{{Role: "user", Content: cmp.Or(q.Text, rand.Text())}},
		Params:     &systemv1.SamplingParams{MaxOutputTokens: &most},
		LlmTimeout: durationpb.New(cmp.Or(q.Timeout, time.Minute)), DeadlineIn: durationpb.New(cmp.Or(q.Deadline, 10*time.Minute)),
		CallsLeft: 1 << 20, FallbackAfter: 1, Origin: "test:v1",
	}
}

// Ask puts a question and returns the last word on it: an answer, a failure, or an error of the gateway's.
func (r *Gateway) Ask(ctx context.Context, request *systemv1.GenerateRequest) (*systemv1.Answer, *systemv1.CallFailure, error) {
	stream, err := r.Client.Generate(ctx, request)
	if err != nil {
		return nil, nil, err
	}
	for {
		news, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, nil, fmt.Errorf("the stream ended without an answer: %w", err)
		}
		if err != nil {
			return nil, nil, err
		}
		if answer, failed := news.GetAnswer(), news.GetFailure(); answer != nil || failed != nil {
			return answer, failed, nil
		}
	}
}
