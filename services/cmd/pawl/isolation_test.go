package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"pawl.internal/gen/openapi"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/intake"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/apijson"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/pipeline"
	"pawl.internal/services/testkit"
)

// secret is in everything of acme's, and in nothing that anybody else may see.
const secret = "only-acme-knows"

// world is the whole system in this process, on real stores.
type world struct {
	database *testkit.Database
	conn     *grpc.ClientConn
	rest     string
	theirs   foreign
}

// TestI17_NoEndpointShowsAnotherTenantsThings asks every method of the public API, over gRPC and over REST, with another
// tenant's foreign, with keys of each role, and with keys that are none.
func TestI17_NoEndpointShowsAnotherTenantsThings(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	rival, operators := w.key(t, "rival", store.RoleAdmin), w.key(t, store.System, store.RoleAdmin)
	methods, table := publicMethods(), rows()
	before := w.snapshot(t)
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		method := methods[name]
		r, ok := table[name]
		require.True(t, ok, "%s has no row in rows(): say how it is asked with another tenant's ids, and what must come of it", name)
		answers, err := w.call(t, rival, method, r.messages(w.theirs)...)
		w.judge(t, name, r.want, answers, err)
		for _, route := range routesOf(method) {
			status, body := w.request(t, rival, route, r.ask(w.theirs))
			w.judgeREST(t, name+" "+route, r.want, status, body)
		}
		w.checkKeys(t, name, method, r)
	}
	for name := range table {
		require.Contains(t, methods, name, "there is no such method")
	}
	require.Equal(t, before, w.snapshot(t), "nothing of acme's has changed")
	described(t, methods)

	answer, err := pawlv1.NewTenantServiceClient(w.conn).GetTenant(as(t, operators), &pawlv1.GetTenantRequest{TenantId: w.theirs.tenant})
	require.NoError(t, err, "operators see every tenant")
	require.Equal(t, int32(1), answer.GetTenant().GetWeight())
}

// startWorld runs all services, and has acme make one of everything.
func startWorld(t *testing.T) *world {
	t.Helper()
	database, keys := testkit.Postgres(t, serve.Schemas()...), testkit.Redis(t)
	w := &world{database: database, rest: freeAddress(t)}
	var c cli
	const anywhere = "127.0.0.1:0"
	_, err := parser(t, &c).Parse([]string{
		"serve", "all", "--database-url", database.URL, "--redis-url", keys.URL, "--redis-prefix", keys.Prefix,
		"--grpc-listen", anywhere, "--orchestrator-listen", anywhere, "--llm-gateway-listen", anywhere,
		"--step-runner-listen", anywhere, "--intake-rest", w.rest, "--admin-listen", "", "--llm-gateway-endpoint", anywhere,
	})
	require.NoError(t, err)
	p := serve.NewProcess(c.Serve.Config, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- serve.Run(ctx, p, c.Serve.Config, serve.Names()) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		require.NoError(t, <-ended)
	})
	awaitReady(t, p)
	w.conn, err = p.Dial(serve.Intake)
	require.NoError(t, err)
	w.fill(t)
	return w
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// fill has acme make one of everything, and waits until all of it has ended.
func (w *world) fill(t *testing.T) {
	t.Helper()
	key := w.key(t, "acme", store.RoleAdmin)
	w.theirs = foreign{
		tenant: "acme", pipeline: "theirs", schedule: "yearly", idempotencyKey: "same-key", prefix: strings.Split(key, "_")[1],
		batch: "01890000-0000-7000-8000-000000000001",
	}
	ctx := as(t, key)
	builtins, err := pipeline.Builtins()
	require.NoError(t, err)
	sources := []string{aPipeline(w.theirs.pipeline)}
	for _, each := range builtins {
		sources = append(sources, string(each.Source))
	}
	for _, source := range sources {
		_, err := pawlv1.NewPipelineServiceClient(w.conn).CreatePipeline(ctx,
			&pawlv1.CreatePipelineRequest{Pipeline: &pawlv1.CreatePipelineRequest_Source{Source: source}})
		require.NoError(t, err)
	}
	document, err := pawlv1.NewDocumentServiceClient(w.conn).CreateDocument(ctx, &pawlv1.CreateDocumentRequest{Text: secret, IdempotencyKey: "same-key"})
	require.NoError(t, err)
	run, err := pawlv1.NewRunServiceClient(w.conn).CreateRun(ctx, &pawlv1.CreateRunRequest{
		Pipeline: w.theirs.pipeline, Input: &pawlv1.JsonValue{Json: `{"text":"` + secret + `"}`}, EntityId: secret, IdempotencyKey: "same-key-run",
	})
	require.NoError(t, err)
	job, err := pawlv1.NewJobServiceClient(w.conn).CreateJob(ctx, &pawlv1.CreateJobRequest{
		Model: "default", Messages: []*pawlv1.ChatMessage{{Role: "user", Content: secret}}, IdempotencyKey: "same-key-job",
	})
	require.NoError(t, err)
	_, err = pawlv1.NewScheduleServiceClient(w.conn).CreateSchedule(ctx, &pawlv1.CreateScheduleRequest{Schedule: aSchedule(w.theirs)})
	require.NoError(t, err)
	w.theirs.document, w.theirs.run, w.theirs.job = document.GetDocumentId(), run.GetRunId(), job.GetJobId()
	waiting := []string{w.theirs.run, w.theirs.job}
	batch, err := pawlv1.NewBatchServiceClient(w.conn).CreateBatch(ctx, aBatch(w.theirs))
	require.NoError(t, err)
	w.theirs.batch = batch.GetBatchId()
	w.awaitEnd(t, ctx, waiting)
	testkit.Eventually(t, time.Minute, func() error {
		got, err := pawlv1.NewBatchServiceClient(w.conn).GetBatch(ctx, &pawlv1.GetBatchRequest{BatchId: w.theirs.batch})
		if err == nil && got.GetBatch().GetFinishedAt() == nil {
			err = errors.New("the batch has not ended")
		}
		return err
	})
	calls, err := pawlv1.NewRunServiceClient(w.conn).ListRunCalls(ctx, &pawlv1.ListRunCallsRequest{RunId: w.theirs.job})
	require.NoError(t, err)
	w.theirs.callKey = calls.GetCalls()[0].GetCallKey()
}

// awaitEnd waits until runs have ended.
func (w *world) awaitEnd(t *testing.T, ctx context.Context, runs []string) { //nolint:revive // the context has the key
	t.Helper()
	for _, id := range runs {
		stream, err := pawlv1.NewRunServiceClient(w.conn).WatchRun(ctx, &pawlv1.WatchRunRequest{RunId: id})
		require.NoError(t, err)
		for {
			seen, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.NotEqual(t, pawlv1.RunStatus_RUN_STATUS_FAILED, seen.GetRun().GetStatus(), seen.GetRun().GetError())
		}
	}
}

func (w *world) key(t *testing.T, tenant string, role store.Role) string {
	t.Helper()
	key, err := intake.EnsureKey(t.Context(), w.database.Pool, tenant, role, "")
	require.NoError(t, err)
	return key
}

func as(t *testing.T, key string) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	if key == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
}

func (r row) messages(theirs foreign) []proto.Message {
	all := []proto.Message{r.ask(theirs)}
	if r.more != nil {
		all = append(all, r.more(theirs)...)
	}
	return all
}

// publicMethods are the methods of all services of pawl.v1, as Service/Method.
func publicMethods() map[string]protoreflect.MethodDescriptor {
	found := map[string]protoreflect.MethodDescriptor{}
	protoregistry.GlobalFiles.RangeFilesByPackage("pawl.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				found[string(service.Name())+"/"+string(method.Name())] = method
			}
		}
		return true
	})
	return found
}

// call asks a method, streaming or not, and returns all that it answers.
func (w *world) call(t *testing.T, key string, method protoreflect.MethodDescriptor, messages ...proto.Message) ([]proto.Message, error) {
	t.Helper()
	output, err := protoregistry.GlobalTypes.FindMessageByName(method.Output().FullName())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(as(t, key))
	defer cancel()
	stream, err := w.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		"/"+string(method.Parent().FullName())+"/"+string(method.Name()))
	if err != nil {
		return nil, fault.FromStatus(err)
	}
	for _, message := range messages {
		if err := stream.SendMsg(message); err != nil { // the answer says why
			break
		}
	}
	_ = stream.CloseSend() // the answer says what went wrong
	var answers []proto.Message
	for {
		answer := output.New().Interface()
		switch err := stream.RecvMsg(answer); {
		case errors.Is(err, io.EOF):
			return answers, nil
		case err != nil:
			return answers, fault.FromStatus(err)
		}
		answers = append(answers, answer)
	}
}

// judge checks what came of a call with acme's ids.
func (w *world) judge(t *testing.T, name string, want outcome, answers []proto.Message, err error) {
	t.Helper()
	if want == notFound || want == denied {
		code := map[outcome]codes.Code{notFound: codes.NotFound, denied: codes.PermissionDenied}[want]
		require.Equal(t, code, fault.CodeOf(err), "%s: %v %v", name, answers, err)
		require.Empty(t, answers, name)
		require.NotContains(t, err.Error(), secret)
		return
	}
	require.NoError(t, err, name)
	for _, answer := range answers {
		text, err := apijson.Marshal(answer)
		require.NoError(t, err)
		w.judgeText(t, name, want, string(text))
	}
}

// judgeREST is judge for an answer of REST.
func (w *world) judgeREST(t *testing.T, name string, want outcome, status int, body string) {
	t.Helper()
	switch want {
	case notFound:
		require.Equal(t, http.StatusNotFound, status, "%s: %s", name, body)
		require.NotContains(t, body, "NO_SUCH_ENDPOINT", name)
	case denied:
		require.Equal(t, http.StatusForbidden, status, "%s: %s", name, body)
	default:
		require.Less(t, status, http.StatusMultipleChoices, "%s: %s", name, body)
		w.judgeText(t, name, want, body)
	}
	require.NotContains(t, body, secret, name)
}

func (w *world) judgeText(t *testing.T, name string, want outcome, text string) {
	t.Helper()
	for _, mark := range []string{
		secret, w.theirs.tenant, w.theirs.run, w.theirs.document, w.theirs.job, w.theirs.batch, w.theirs.callKey, w.theirs.pipeline, w.theirs.prefix,
	} {
		require.NotContains(t, text, mark, name)
	}
	if want == empty {
		require.Regexp(t, `^\{"[a-z]+":\[\]\}\s*$`, text, name)
	}
}

// checkKeys asks as a tenant that has nothing: with each role, and with keys that open nothing.
func (w *world) checkKeys(t *testing.T, name string, method protoreflect.MethodDescriptor, r row) {
	t.Helper()
	nothing := foreign{
		tenant: "third", run: w.theirs.batch, document: w.theirs.batch, job: w.theirs.batch, batch: w.theirs.batch, pipeline: "nothing",
		schedule: "nothing", prefix: "nothing", callKey: w.theirs.callKey, idempotencyKey: "third",
	}
	for _, role := range store.Roles() {
		_, err := w.call(t, w.key(t, "third", role), method, r.messages(nothing)...)
		allowed := role.Allows(r.role) && r.want != denied
		if name == "TenantService/UpdateTenant" { // its own tenant, which only operators change
			allowed = false
		}
		require.Equal(t, allowed, fault.CodeOf(err) != codes.PermissionDenied, "%s with the role %s: %v", name, role, err)
	}
	for why, key := range w.uselessKeys(t) {
		answers, err := w.call(t, key, method, r.messages(w.theirs)...)
		require.Equal(t, codes.Unauthenticated, fault.CodeOf(err), "%s with a key that is %s: %v", name, why, answers)
	}
	for _, route := range routesOf(method) {
		status, body := w.request(t, "", route, r.ask(w.theirs))
		require.Equal(t, http.StatusUnauthorized, status, "%s %s: %s", name, route, body)
	}
}

// uselessKeys are keys of acme's administrators that open nothing, by the reason.
func (w *world) uselessKeys(t *testing.T) map[string]string {
	t.Helper()
	keys := map[string]string{"none": "", "made up": "pawl_unknown0_0123456789abcdef"}
	for why, change := range map[string]string{
		"revoked": "revoked_at = clock_timestamp()", "expired": "expires_at = clock_timestamp()",
	} {
		keys[why] = w.key(t, "former", store.RoleAdmin)
		_, err := w.database.Pool.Exec(t.Context(), "UPDATE access.api_key SET "+change+" WHERE prefix = $1", strings.Split(keys[why], "_")[1])
		require.NoError(t, err)
	}
	keys["of a disabled tenant"] = w.key(t, "disabled", store.RoleAdmin)
	_, err := w.database.Pool.Exec(t.Context(), "UPDATE access.tenant SET disabled = true WHERE id = 'disabled'")
	require.NoError(t, err)
	return keys
}

// routesOf are the REST routes of a method, as "GET /v1/runs/{run_id}".
func routesOf(method protoreflect.MethodDescriptor) []string {
	var routes []string
	for route, twin := range byHand() {
		if strings.HasSuffix(string(method.FullName()), strings.ReplaceAll("."+twin, "/", ".")) {
			routes = append(routes, route)
		}
	}
	rule, _ := proto.GetExtension(method.Options(), annotations.E_Http).(*annotations.HttpRule)
	if rule == nil {
		return routes
	}
	for _, binding := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		for verb, path := range map[string]string{
			http.MethodGet: binding.GetGet(), http.MethodPost: binding.GetPost(), http.MethodPut: binding.GetPut(),
			http.MethodPatch: binding.GetPatch(), http.MethodDelete: binding.GetDelete(),
		} {
			if path != "" {
				routes = append(routes, verb+" "+path)
			}
		}
	}
	slices.Sort(routes)
	return routes
}

// request sends a message over REST: what the path does not name goes into the query of a GET, and else into the body.
func (w *world) request(t *testing.T, key, route string, message proto.Message) (status int, body string) {
	t.Helper()
	verb, path, _ := strings.Cut(route, " ")
	rest := proto.Clone(message).ProtoReflect()
	query := url.Values{}
	fields := rest.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if place := "{" + string(field.Name()) + "}"; strings.Contains(path, place) {
			path = strings.ReplaceAll(path, place, rest.Get(field).String())
			rest.Clear(field)
		} else if verb == http.MethodGet && rest.Has(field) {
			query.Set(string(field.Name()), rest.Get(field).String())
		}
	}
	var sent []byte
	if verb != http.MethodGet {
		var err error
		sent, err = apijson.Marshal(rest.Interface())
		require.NoError(t, err)
	}
	header := http.Header{}
	if upload, ok := message.(*pawlv1.UploadBatchRequest); ok { // whose header is in the query, and whose body are lines
		query.Set("pipeline", upload.GetBatch().GetPipeline())
		header.Set("Idempotency-Key", upload.GetBatch().GetIdempotencyKey())
		header.Set("Content-Type", "application/jsonl")
		sent = []byte(`{"input":{"text":"x"}}` + "\n")
	}
	request, err := http.NewRequestWithContext(t.Context(), verb, "http://"+w.rest+path+"?"+query.Encode(), bytes.NewReader(sent))
	require.NoError(t, err)
	request.Header = header
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

// described checks that every route of the API's description belongs to a method that was asked.
func described(t *testing.T, methods map[string]protoreflect.MethodDescriptor) {
	t.Helper()
	known := map[string]bool{}
	for _, method := range methods {
		for _, route := range routesOf(method) {
			known[route] = true
		}
	}
	var document struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(openapi.Document, &document))
	for path, verbs := range document.Paths {
		for verb := range verbs {
			require.True(t, known[strings.ToUpper(verb)+" "+path], "%s %s is in no proto file: add it to byHand()", verb, path)
		}
	}
}

// snapshot is everything of acme's in the database, but for what changes by itself: by table.
func (w *world) snapshot(t *testing.T) map[string]string {
	t.Helper()
	rows, err := w.database.Pool.Query(t.Context(), `SELECT n.nspname || '.' || c.relname FROM pg_class AS c
		JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'tenant'
		WHERE n.nspname IN ('core', 'llm', 'access', 'callback') AND c.relkind IN ('r', 'p') AND NOT c.relispartition
		  AND c.relname NOT IN ('tenant_count', 'tenant_delta')`)
	require.NoError(t, err)
	seen := map[string]string{}
	for rows.Next() {
		var table string
		require.NoError(t, rows.Scan(&table))
		seen[table] = ""
	}
	require.NoError(t, rows.Err())
	require.GreaterOrEqual(t, len(seen), 5)
	for table := range seen {
		var digest string
		require.NoError(t, w.database.Pool.QueryRow(t.Context(), fmt.Sprintf(`SELECT coalesce(string_agg(md5(
			(to_jsonb(r) - ARRAY['last_used_at', 'updated_at', 'dirty', 'pace_at', 'pace_ended', 'per_minute', 'input', 'output', 'request', 'raw'])::text), ',' ORDER BY to_jsonb(r)::text COLLATE "C"), '')
			FROM (SELECT * FROM %s WHERE tenant = $1) AS r`, table), w.theirs.tenant).Scan(&digest), table)
		seen[table] = digest
	}
	return seen
}
