package doctor_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/cmd/pawl/doctor"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/internal/checkup"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/internal/stream"
	core "pawl.internal/services/orchestrator/inspect"
	"pawl.internal/services/testkit"
)

const (
	tenant   = "acme"
	patience = time.Minute
)

var errNotIdle = errors.New("a consumer has just asked")

// pipelines are what the runs of the world are of.
func pipelines() []string {
	return []string{`
name: ask
version: v1
input: {type: object}
steps:
  - {name: keep, transform: {text: "${input.text}"}}
  - name: answer
    llm: {route: default, prompt: "${steps.keep.output.text}"}
`, `
name: break
version: v1
input: {type: object}
steps:
  - {name: first, transform: "${input.text}"}
  - name: answer
    require: ${false}
    llm: {route: default, prompt: "x"}
`, `
name: judge
version: v1
input: {type: object}
steps:
  - {name: judged, transform: "${input.missing.field}", on_error: review}
`}
}

// world is a database in which services have really worked, and that none serves any more: what a test breaks stays broken.
type world struct {
	database *testkit.Database
	// asked ran to its end with a paid call and a large input, broken failed and was retried, judged waits for a person,
	// cancelled was cancelled, and queued and other wait for a step-runner.
	asked, broken, judged, cancelled, queued, other uuid.UUID
}

// makeWorld lets the services work, and stops them.
func makeWorld(t *testing.T) *world {
	t.Helper()
	w := &world{database: testkit.Postgres(t, serve.Schemas()...)}
	keys := testkit.Redis(t)
	stop, o := serveOn(t, w.database.URL, keys, serve.Names()...)
	for _, source := range pipelines() {
		_, err := o.CreatePipeline(t.Context(), &systemv1.CreatePipelineRequest{Tenant: tenant, Source: source, CreatedBy: "test"})
		require.NoError(t, err)
	}
	w.asked = create(t, o, "ask", fmt.Sprintf(`{"text":%q}`, largeText()))
	w.broken, w.judged = create(t, o, "break", `{"text":"b"}`), create(t, o, "judge", `{}`)
	w.await(t, w.asked, "done")
	w.await(t, w.broken, "failed")
	w.await(t, w.judged, "needs_review")
	_, err := o.RetryRun(t.Context(), &systemv1.RetryRunRequest{Tenant: tenant, RunId: w.broken.String(), Actor: "person:ann", Reason: "once more"})
	require.NoError(t, err)
	w.await(t, w.broken, "failed")
	stop()
	stop, o = serveOn(t, w.database.URL, keys, serve.Orchestrator, serve.LLMGateway)
	w.cancelled, w.queued, w.other = create(t, o, "ask", `{"text":"c"}`), create(t, o, "ask", `{"text":"d"}`), create(t, o, "ask", `{"text":"e"}`)
	_, err = o.CancelRun(t.Context(), &systemv1.CancelRunRequest{Tenant: tenant, RunId: w.cancelled.String(), Actor: "person:ann", Reason: "no more"})
	require.NoError(t, err)
	w.settle(t)
	stop()
	w.database.Pool.Close() // a database is copied only while nobody uses it
	return w
}

// largeText is stored apart from its run.
func largeText() string { return strings.Repeat(rand.Text(), 8000) }

// serveOn runs services in this process until stop.
func serveOn(t *testing.T, database string, keys *testkit.Keys, names ...string) (stop func(), o systemv1.OrchestratorServiceClient) {
	t.Helper()
	var c struct{ serve.Config }
	parser, err := kong.New(&c, config.Options()...)
	require.NoError(t, err)
	const anywhere = "127.0.0.1:0"
	_, err = parser.Parse([]string{
		"--database-url", database, "--redis-url", keys.URL, "--redis-prefix", keys.Prefix,
		"--grpc-listen", anywhere, "--orchestrator-listen", anywhere, "--llm-gateway-listen", anywhere,
		"--step-runner-listen", anywhere, "--intake-rest", anywhere, "--admin-listen", "", "--llm-gateway-endpoint", anywhere,
	})
	require.NoError(t, err)
	p := serve.NewProcess(c.Config, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- serve.Run(ctx, p, c.Config, names) }()
	testkit.Eventually(t, patience, func() error {
		answer := httptest.NewRecorder()
		p.AdminHandler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", http.NoBody))
		if answer.Code != http.StatusOK {
			return fmt.Errorf("not ready: %s", answer.Body)
		}
		return nil
	})
	connection, err := p.Dial(serve.Orchestrator)
	require.NoError(t, err)
	return func() {
		cancel()
		require.NoError(t, <-ended)
	}, systemv1.NewOrchestratorServiceClient(connection)
}

func create(t *testing.T, o systemv1.OrchestratorServiceClient, pipeline, input string) uuid.UUID {
	t.Helper()
	digest := sha256.Sum256([]byte(input))
	created, err := o.CreateRun(t.Context(), &systemv1.CreateRunRequest{
		Tenant: tenant, Idempotency: &systemv1.Idempotency{Key: rand.Text(), RequestDigest: digest[:]},
		Pipeline: pipeline, Input: []byte(input), Kind: "run",
	})
	require.NoError(t, err)
	return uuid.MustParse(created.GetRunId())
}

func (w *world) await(t *testing.T, run uuid.UUID, status string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		var now, why string
		err := w.database.Pool.QueryRow(t.Context(), "SELECT status, error FROM core.pipeline_run WHERE id = $1", run).Scan(&now, &why)
		if err == nil && now != status {
			err = fmt.Errorf("the run is %s (%s) and not %s", now, why, status)
		}
		return err
	})
}

// settle waits until nothing is owed any more, and the two runs that go on are in their stream.
func (w *world) settle(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		var owed, queued int
		err := w.database.Pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM core.spend_gate_owed) +
			(SELECT count(*) FROM core.call_cancel_owed) + (SELECT count(*) FROM llm.spend_owed),
			(SELECT count(*) FROM core.step_live WHERE status = 'queued')`).Scan(&owed, &queued)
		if err == nil && (owed > 0 || queued != 2) {
			err = fmt.Errorf("%d things are owed, and %d steps are QUEUED", owed, queued)
		}
		return err
	})
}

// copied is a copy of the world for one test, with keys of its own in Redis.
type copied struct {
	*world
	t *testing.T
	*checkup.Target
}

// living makes the copy look served, with leases that end with the test.
const living = `
INSERT INTO core.replica (instance, started_at, seen_at) VALUES (gen_random_uuid(), now(), now() + interval '1 hour');
INSERT INTO core.runner (instance, interactive_slots, batch_slots, started_at, heartbeat_at, lease_until)
VALUES (gen_random_uuid(), 8, 8, now(), now() + interval '1 hour' - interval '10 milliseconds', now() + interval '1 hour');
INSERT INTO llm.replica (holder, description, started_at, lease_until) VALUES (gen_random_uuid(), '', now(), now() + interval '1 hour');
DELETE FROM core.runner WHERE lease_until < now()`

// copy makes a copy. Its clock does not wait, so what must stay for a while is decided at once.
func (w *world) copy(t *testing.T) *copied {
	t.Helper()
	name := "copy_" + strings.ToLower(rand.Text())
	source, err := url.Parse(w.database.URL)
	require.NoError(t, err)
	from := strings.TrimPrefix(source.Path, "/")
	admin := *source
	admin.Path = "/postgres"
	onServer(t, admin.String(), fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, from))
	t.Cleanup(func() { onServer(t, admin.String(), fmt.Sprintf("DROP DATABASE IF EXISTS %s WITH (FORCE)", name)) })
	source.Path = "/" + name
	pool, err := pg.Open(t.Context(), pg.Config{
		URL: config.NewSecret(source.String()), MaxConns: 3, StatementTimeout: patience, ConnectTimeout: patience, Settings: pg.ByKey(),
	}, "pawl-doctor")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	keys := testkit.Redis(t)
	c := &copied{world: w, t: t, Target: &checkup.Target{
		Pool: pool, Redis: keys.Client, Prefix: keys.Prefix, Clock: &hasty{Clock: clock.System()}, Recent: 1000,
	}}
	c.exec(living)
	for _, run := range []uuid.UUID{w.queued, w.other} {
		c.publish(step(run, "keep"))
	}
	return c
}

// onServer carries out a statement that no transaction may contain. Copies are made one at a time: the source must be unused.
func onServer(t *testing.T, server, statement string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	testkit.Eventually(t, patience, func() error {
		conn, err := pgx.Connect(ctx, server)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(ctx) }()
		_, err = conn.Exec(ctx, statement)
		return err
	})
}

// exec changes the copy's database, at least one row of it.
func (c *copied) exec(statement string, args ...any) {
	c.t.Helper()
	tag, err := c.Pool.Exec(c.t.Context(), statement, args...)
	require.NoError(c.t, err)
	require.True(c.t, strings.HasPrefix(statement, "DROP") || strings.HasPrefix(statement, "\nINSERT") || tag.RowsAffected() > 0, statement)
}

func step(run uuid.UUID, name string) stream.Step {
	return stream.Step{Run: run, Step: name, Shard: -1, Generation: 1}
}

func (c *copied) lane() *stream.Stream { return stream.Steps(c.Redis, c.Prefix, "interactive") }

func (c *copied) publish(s stream.Step) {
	c.t.Helper()
	require.NoError(c.t, c.lane().Publish(c.t.Context(), []stream.Fields{s.Fields()}))
}

// examine carries out all checks, and returns those that have found something.
func (c *copied) examine() map[string]*checkup.Result {
	c.t.Helper()
	checks, err := doctor.Checks()
	require.NoError(c.t, err)
	c.Runs, err = core.Runs(c.t.Context(), c.Target)
	require.NoError(c.t, err)
	found := map[string]*checkup.Result{}
	for _, r := range checkup.Examine(c.t.Context(), c.Target, checks, 3*time.Second) {
		require.NoError(c.t, r.Err, r.Name)
		if len(r.Findings) > 0 {
			found[r.Name] = r
		}
	}
	return found
}

// hasty is a clock on which time passes by sleeping, which takes none.
type hasty struct {
	clock.Clock
	slept time.Duration
}

func (h *hasty) Now() time.Time { return h.Clock.Now().Add(h.slept) }

func (h *hasty) Sleep(ctx context.Context, d time.Duration) error {
	h.slept += d
	return ctx.Err()
}
