package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/sdk"
	"pawl.internal/services/intake"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// What must not be written anywhere but where data are kept. The word has no form by which it could be found: it stands for
// everything in a prompt.
const (
	canaryEmail = "canary.person@example.com"
	canaryCard  = "4111 1111 1111 1111"
	canaryIBAN  = "DE89 3704 0044 0532 0130 00"
	canaryWord  = "zyzzyvacanary"
	// canarySecret is somebody's key in a prompt, and canaryKey the one that asks.
	canarySecret = "sk-canary-0123456789abcdef"
	canaryKey    = "pawl_canary00_canarysecretcanarysecretcanarysecret"
	// providerKey is the key that the harness gives to the gateway.
	providerKey = "secret-of-the-test"
)

// formed are the canaries that have a form.
func formed() []string {
	return []string{canaryEmail, canaryCard, canaryIBAN, canarySecret, providerKey}
}

func canaries() []string { return append(formed(), canaryWord, canaryKey) }

const personalPipeline = `
name: personal
version: v1
steps:
  - name: ask
    llm: {prompt: "${input.text}"}
    retry: {max_attempts: 2, initial: 50ms, factor: 1, jitter: 0}
`

const personalSchemaPipeline = `
name: personal_schema
version: v1
steps:
  - name: ask
    llm: {prompt: "${input.text}", output_schema: {type: object, required: [name], properties: {name: {type: string}}}}
    retry: {max_attempts: 2, initial: 50ms, factor: 1, jitter: 0}
`

// personalFaults are the ways in which requests fail: the provider's own, and one that says everything it knows.
func personalFaults() map[string]simulated.Fault {
	all := "for " + canaryWord + ": mail " + canaryEmail + ", card " + canaryCard + ", IBAN " + canaryIBAN + ", keys " + canarySecret + " and " + providerKey
	faults := map[string]simulated.Fault{
		"": {},
		"repeats everything": {Kind: "reply", Reply: &simulated.Reply{Status: http.StatusBadRequest, Body: fmt.Sprintf(
			`{"error":{"message":"bad request %s","type":"invalid_request_error","code":%q}}`, all, canaryEmail)}},
		"answers everything": {Kind: "reply", Reply: &simulated.Reply{Status: http.StatusOK, Body: `{"choices":[{"message":{"content":"` + all}},
	}
	for _, kind := range []string{
		"echo_key", "echo_prompt", "500", "quota", "error_in_200", "cut_body", "not_json", "html", "empty", "truncated", "content_filter",
		"refusal", "bad_schema", "no_usage",
	} {
		faults[kind] = simulated.Fault{Kind: kind}
	}
	return faults
}

// No key, prompt or personal datum is written into logs, errors of others, metrics or Redis, however requests end, and also when
// the provider repeats all of it.
func TestNothingPersonalIsWritten(t *testing.T) {
	t.Parallel()
	p := harness.StartProvider(t)
	s := harness.Start(t, harness.Config{
		// A provider that fails so often would be left alone for a while.
		Models: p.Models("breaker: {failures: 1000}"), Env: []string{"PAWL_LOG_LEVEL=debug"},
		Expected: []string{"provider refuses our key or address"},
	})
	b := personalBench{t: t, System: s}
	b.prepare()
	text := fmt.Sprintf("Tell %s of %s, card %s, IBAN %s, key %s.", canaryWord, canaryEmail, canaryCard, canaryIBAN, canarySecret)
	for name, fault := range personalFaults() {
		for _, pipeline := range []string{"personal", "personal_schema"} {
			remove := func() {}
			if fault.Kind != "" {
				remove = p.Inject(fault)
			}
			b.run(pipeline, name, text)
			remove()
		}
	}
	b.refused(text)
	b.look()
}

type personalBench struct {
	t *testing.T
	*harness.System

	// rival is another tenant's key.
	rival string
	runs  []string
	// written is everything that others than the owner of the data may read, by where it stood.
	written map[string]string
}

func (b *personalBench) prepare() {
	var err error
	tenant := b.Text("SELECT tenant FROM access.api_key LIMIT 1")
	_, err = intake.EnsureKey(b.t.Context(), b.DB, tenant, store.RoleAdmin, canaryKey)
	require.NoError(b.t, err)
	b.rival, err = intake.EnsureKey(b.t.Context(), b.DB, "rival", store.RoleAdmin, "")
	require.NoError(b.t, err)
	b.written = map[string]string{}
	for _, source := range []string{personalPipeline, personalSchemaPipeline} {
		got := b.call(canaryKey, http.MethodPost, "/v1/pipelines", source, http.Header{"Content-Type": {"application/yaml"}})
		require.Less(b.t, got.Status, 300, "%s", got.Body)
	}
}

func (b *personalBench) call(key, method, path string, body any, more http.Header) harness.Response {
	header := http.Header{"Authorization": {"Bearer " + key}}
	for name, values := range more {
		header[name] = values
	}
	got, err := b.Try(b.Record().REST, method, path, header, body)
	require.NoError(b.t, err)
	return got
}

// run carries a run to its end and looks at what its owner is shown: providers' words, but nothing in them that has a form.
func (b *personalBench) run(pipeline, name, text string) {
	body := map[string]any{"pipeline": pipeline, "input": map[string]any{"text": text}}
	got := b.call(canaryKey, http.MethodPost, "/v1/runs", body, http.Header{"Idempotency-Key": {pipeline + " " + name}})
	require.Less(b.t, got.Status, 300, "%s", got.Body)
	id, _ := got.JSON(b.t)["run_id"].(string)
	b.runs = append(b.runs, id)
	run := b.AwaitRun(id, harness.RunState.Ended)
	for _, canary := range append(formed(), canaryKey) {
		require.NotContains(b.t, run.Reason+run.Error, canary, "the error of the run %q", name)
		calls := b.call(canaryKey, http.MethodGet, "/v1/runs/"+id+"/llm_calls", nil, nil)
		require.NotContains(b.t, string(calls.Body), canary, "the call log of the run %q", name)
	}
}

// refused makes every kind of refusal, to the owner and to another tenant.
func (b *personalBench) refused(text string) {
	for _, body := range []string{
		`{"pipeline": "` + text + `"}`, `{"` + canaryWord + `": 1}`, `{"pipeline": "personal", "input": "` + text, text,
	} {
		b.call(canaryKey, http.MethodPost, "/v1/runs", body, http.Header{"Idempotency-Key": {"refused"}})
	}
	b.call(canaryKey, http.MethodPost, "/v1/pipelines", "name: "+canaryWord+"\n"+text, http.Header{"Content-Type": {"application/yaml"}})
	b.call(canaryKey, http.MethodGet, "/v1/runs?"+canaryWord+"=1&entity_id="+canaryWord, nil, nil)
	b.call(canaryKey+"x", http.MethodGet, "/v1/runs", nil, nil)
	b.call(canaryKey, http.MethodGet, "/v1/"+canaryWord, nil, nil)
	client, err := sdk.New(b.Record().GRPC, b.rival)
	require.NoError(b.t, err)
	defer client.Close()
	for _, id := range b.runs {
		for _, path := range []string{"", "/steps", "/events", "/llm_calls", "/llm_calls/" + strings.Repeat("0", 64)} {
			got := b.call(b.rival, http.MethodGet, "/v1/runs/"+id+path, nil, nil)
			require.Equal(b.t, http.StatusNotFound, got.Status)
			b.written["problems of another tenant"] += string(got.Body)
		}
		_, err := client.GetRun(b.t.Context(), &pawlv1.GetRunRequest{RunId: id})
		require.Error(b.t, err)
		b.written["errors of another tenant"] += err.Error()
	}
}

// look gathers everything that was written, and searches it.
func (b *personalBench) look() {
	record := b.Record()
	b.written["logs"] = b.Output()
	for name, service := range record.Services {
		got, err := harness.Exchange(b.t.Context(), http.MethodGet, service.Admin+"/metrics", nil, nil)
		require.NoError(b.t, err)
		require.Equal(b.t, http.StatusOK, got.Status, name)
		b.written["metrics of "+name] = string(got.Body)
	}
	b.written["Redis"] = dump(b.t.Context(), b.t, b.System)
	found := harness.Run(b.t, "", "doctor", "--database-url", record.DatabaseURL, "--redis-url", record.RedisURL, "--redis-prefix", record.RedisPrefix,
		"--patience", "10s")
	b.written["doctor"] = fmt.Sprint(found)
	b.written["call log"] = b.Text(`SELECT (SELECT string_agg(c.request::text, ' ') FROM llm.llm_call_log c) ||
		(SELECT string_agg(to_jsonb(t)::text, ' ') FROM (SELECT message, reason, finish_reason, key_id, provider_request_id FROM llm.llm_try) t)`)
	require.Contains(b.t, b.written["call log"], "[EMAIL]")
	require.Contains(b.t, b.written["logs"], `"level":"DEBUG"`)
	require.GreaterOrEqual(b.t, b.Count("SELECT count(*) FROM llm.llm_try WHERE state = 'answered'"), 2, "some were answered")
	raw := b.Text("SELECT string_agg(convert_from(answer, 'UTF8'), ' ') FROM llm.llm_try WHERE http_status IN (200, 400, 401)")
	require.Contains(b.t, raw, canaryEmail, "the provider did repeat it")
	require.NotContains(b.t, raw, providerKey, "our own key is taken out even of raw answers")
	for where, text := range b.written {
		require.NotEmpty(b.t, text, where)
		wanted := canaries()
		if where == "call log" { // the prompt is there, masked
			wanted = slices.DeleteFunc(wanted, func(c string) bool { return c == canaryWord })
		}
		for _, canary := range wanted {
			require.NotContains(b.t, lines(text, canary), canary, where)
		}
	}
}

// lines are those of a text that have the canary, so that a failure shows little.
func lines(text, canary string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return !strings.Contains(line, canary) }), "\n")
}

// dump is everything that Redis holds for the system.
func dump(ctx context.Context, t *testing.T, s *harness.System) string {
	t.Helper()
	var all strings.Builder
	client := s.Redis.Client
	keys, err := client.Keys(ctx, s.Redis.Prefix+"*").Result()
	require.NoError(t, err)
	require.NotEmpty(t, keys)
	for _, key := range keys {
		value, err := valueOf(ctx, client, key)
		require.NoError(t, err, key)
		text, err := json.Marshal(value)
		require.NoError(t, err)
		fmt.Fprintf(&all, "%s %s\n", key, text)
	}
	return all.String()
}

func valueOf(ctx context.Context, client redis.UniversalClient, key string) (any, error) {
	switch kind, err := client.Type(ctx, key).Result(); kind {
	case "string":
		return client.Get(ctx, key).Result()
	case "hash":
		return client.HGetAll(ctx, key).Result()
	case "list":
		return client.LRange(ctx, key, 0, -1).Result()
	case "set":
		return client.SMembers(ctx, key).Result()
	case "zset":
		return client.ZRangeWithScores(ctx, key, 0, -1).Result()
	case "stream":
		return client.XRange(ctx, key, "-", "+").Result()
	case "none":
		return nil, err
	default:
		return nil, fmt.Errorf("a key of the type %q: %w", kind, err)
	}
}
