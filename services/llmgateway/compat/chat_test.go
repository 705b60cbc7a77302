package compat_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/llmgateway/compat"
)

const chatPath = "/v1/chat/completions"

func TestACompletionHasOpenAIsForm(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.post(t, chatPath, hello)
	require.Equal(t, 200, a.status, a.body)
	scope := strings.Split(a.header.Get("X-Pawl-Call"), "/")[0]
	var got struct {
		Created int64 `json:"created"`
	}
	require.NoError(t, json.Unmarshal([]byte(a.body), &got))
	require.WithinDuration(t, time.Now(), time.Unix(got.Created, 0), time.Minute)
	require.JSONEq(t, fmt.Sprintf(`{"id":"chatcmpl-%s","object":"chat.completion","created":%d,"model":"small-1",
		"choices":[{"index":0,"message":{"role":"assistant","content":"Hi","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],
		"usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":4},
		"completion_tokens_details":{"reasoning_tokens":3}}}`, scope, got.Created), a.body)
	require.Equal(t, "0.0000145", a.header.Get("X-Pawl-Cost-Usd"))
	require.Empty(t, a.header.Get("X-Pawl-Replayed"))
	require.NotEmpty(t, a.header.Get("X-Request-Id"))
}

func TestAQuestionSaysWhatTheRequestSaid(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := `{"model":"org/small-1","messages":[
		{"role":"developer","content":"Be brief."},
		{"role":"user","content":[{"type":"text","text":"What is"},{"type":"image_url","image_url":{"url":"https://x/y.png","detail":"low"}},{"type":"text","text":"this?"}]},
		{"role":"assistant","content":null,"refusal":null,"annotations":[],"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c1","content":"a cat"}],
		"tools":[{"type":"function","function":{"name":"look","description":"looks","parameters":{"type":"object","properties":{"b":{},"a":{}}},"strict":true}}],
		"tool_choice":{"type":"function","function":{"name":"look"}},
		"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object","properties":{"z":{},"y":{}}}}},
		"temperature":0.5,"top_p":1,"max_completion_tokens":70,"stop":["END","STOP"],"seed":9007199254740993,
		"n":1,"logprobs":false,"user":"u","metadata":{"a":"b"},"frequency_penalty":0,"parallel_tool_calls":true,"store":false}`
	a := b.post(t, chatPath, body, "X-Pawl-Class: batch", "X-Pawl-Budget-Usd: 0.25", "X-Pawl-Timeout: 90", "X-Pawl-Ambiguous: retry")
	require.Equal(t, 200, a.status, a.body)
	q := b.gateway.question(t)
	require.Len(t, q.GetStep().GetRunId(), 16)
	q.Step.RunId = nil
	want := &systemv1.GenerateRequest{}
	require.NoError(t, protojson.Unmarshal([]byte(`{"step":{"step":"chat","shard":-1},"tenant":"acme","class":"RUN_CLASS_BATCH","route":"org/small-1",
		"origin":"openai-endpoint","callsLeft":8,"fallbackAfter":1,"llmTimeout":"90s","deadlineIn":"90s","budgetPicoUsd":"250000000000","ambiguousOk":1048576,
		"messages":[{"role":"system","content":"Be brief."},
		{"role":"user","content":"What is","parts":[{"imageUrl":"https://x/y.png","detail":"low"},{"text":"this?"}]},
		{"role":"assistant","toolCalls":[{"id":"c1","name":"look","arguments":"{}"}]},
		{"role":"tool","content":"a cat","toolCallId":"c1"}],
		"toolChoice":"look","params":{"temperature":0.5,"topP":1,"maxOutputTokens":70,"stop":["END","STOP"],"seed":"9007199254740993"}}`), want))
	want.Tools = []*systemv1.Tool{{
		Name: "look", Description: "looks", Parameters: []byte(`{"type":"object","properties":{"b":{},"a":{}}}`), Strict: proto.Bool(true),
	}}
	want.OutputSchema = []byte(`{"type":"object","properties":{"z":{},"y":{}}}`)
	require.True(t, proto.Equal(want, q), "%v", q)
}

func TestWhatARequestDoesNotSayIsLeftToTheRoute(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.Equal(t, 200, b.post(t, chatPath, hello).status)
	q := b.gateway.question(t)
	require.Equal(t, pawlv1.RunClass_RUN_CLASS_INTERACTIVE, q.GetClass())
	require.Equal(t, time.Minute, q.GetDeadlineIn().AsDuration())
	require.Equal(t, 20*time.Second, q.GetLlmTimeout().AsDuration())
	require.Zero(t, q.GetAmbiguousOk())
	require.Nil(t, q.BudgetPicoUsd)
	require.True(t, proto.Equal(&systemv1.SamplingParams{}, q.GetParams()))
	require.Equal(t, []bool{false}, b.gateway.live)

	require.Equal(t, 200, b.post(t, chatPath, strings.Replace(hello, "{", `{"response_format":{"type":"json_object"},"stop":"END",`, 1)).status)
	require.JSONEq(t, `{"type":"object"}`, string(b.gateway.question(t).GetOutputSchema()))
	require.Equal(t, []string{"END"}, b.gateway.question(t).GetParams().GetStop())
}

func TestBadRequestsAreRefusedByName(t *testing.T) {
	t.Parallel()
	b := setup(t)
	with := func(members string) string { return strings.Replace(hello, "{", "{"+members+",", 1) }
	messages := func(list string) string { return `{"model":"default","messages":` + list + `}` }
	for body, want := range map[string]string{
		``:                          "invalid_json ",
		`[]`:                        "invalid_json ",
		`{"model":`:                 "invalid_json ",
		`{"model":"a","model":"b"}`: "invalid_json ",
		`{"messages":[{"role":"user","content":"x"}]}`:           "invalid_value model",
		`{"model":"default"}`:                                    "invalid_value messages",
		messages(`[]`):                                           "invalid_value messages",
		messages(`"x"`):                                          "invalid_value messages",
		messages(`["x"]`):                                        "invalid_value messages[0]",
		messages(`[{"role":"function","content":"x"}]`):          "invalid_value messages[0].role",
		messages(`[{"role":"user"}]`):                            "invalid_value messages[0].content",
		messages(`[{"role":"user","content":7}]`):                "invalid_value messages[0].content",
		messages(`[{"role":"user","content":"x","name":"bob"}]`): "unsupported_parameter messages[0].name",
		messages(`[{"role":"user","content":"x","colour":1}]`):   "unknown_parameter messages[0].colour",
		messages(`[{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}]`):                       "invalid_value messages[0].content[0].type",
		messages(`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}]`): "invalid_value messages[0].content[0].image_url.url",
		messages(`[{"role":"system","content":[{"type":"image_url","image_url":{"url":"https://x"}}]}]`):        "invalid_value messages[0].content[0].type",
		messages(`[{"role":"tool","content":"x"}]`):                                                             "invalid_value messages[0].tool_call_id",
		messages(`[{"role":"assistant","tool_calls":[{"id":"a","type":"custom"}]}]`):                            "invalid_value messages[0].tool_calls[0].type",
		with(`"n":2`):                                    "unsupported_parameter n",
		with(`"logprobs":true`):                          "unsupported_parameter logprobs",
		with(`"top_logprobs":3`):                         "unsupported_parameter top_logprobs",
		with(`"logit_bias":{"1":2}`):                     "unsupported_parameter logit_bias",
		with(`"presence_penalty":0.1`):                   "unsupported_parameter presence_penalty",
		with(`"modalities":["text","audio"]`):            "unsupported_parameter modalities",
		with(`"audio":{"voice":"x"}`):                    "unsupported_parameter audio",
		with(`"functions":[]`):                           "unsupported_parameter functions",
		with(`"reasoning_effort":"high"`):                "unsupported_parameter reasoning_effort",
		with(`"parallel_tool_calls":false`):              "unsupported_parameter parallel_tool_calls",
		with(`"service_tier":"flex"`):                    "unsupported_parameter service_tier",
		with(`"store":true`):                             "unsupported_parameter store",
		with(`"temprature":1`):                           "unknown_parameter temprature",
		with(`"temperature":2.1`):                        "invalid_value temperature",
		with(`"temperature":"hot"`):                      "invalid_value temperature",
		with(`"top_p":-1`):                               "invalid_value top_p",
		with(`"max_tokens":0`):                           "invalid_value max_tokens",
		with(`"max_tokens":1.5`):                         "invalid_value max_tokens",
		with(`"max_tokens":1,"max_completion_tokens":2`): "invalid_value max_tokens",
		with(`"seed":9223372036854775808`):               "invalid_value seed",
		with(`"stop":["a","b","c","d","e"]`):             "invalid_value stop",
		with(`"stream":"yes"`):                           "invalid_value stream",
		with(`"stream_options":{"include_usage":true}`):  "invalid_value stream_options",
		with(`"response_format":{"type":"yaml"}`):        "invalid_value response_format.type",
		with(`"response_format":{"type":"json_schema"}`): "invalid_value response_format.json_schema",
		with(`"response_format":{"type":"json_schema","json_schema":{"name":"x"}}`):                                             "invalid_value response_format.json_schema.schema",
		with(`"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":[]}}`):                                 "invalid_value response_format.json_schema.schema",
		with(`"tools":[{"type":"custom","custom":{"name":"x"}}]`):                                                               "invalid_value tools[0].type",
		with(`"tools":[{"type":"function"}]`):                                                                                   "invalid_value tools[0].function",
		with(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"g"}}`): "invalid_value tool_choice.function.name",
		with(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"always"`):                                    "invalid_value tool_choice",
		with(`"tool_choice":"required"`):                                                                                        "invalid_value tool_choice",
	} {
		a := b.post(t, chatPath, body)
		require.Equal(t, 400, a.status, "%s: %s", body, a.body)
		p := a.problem(t)
		require.Equal(t, "invalid_request_error", p.Type)
		require.Equal(t, want, *p.Code+" "+p.param(), "%s: %s", body, p.Message)
	}
	for header, want := range map[string]string{
		"X-Pawl-Class: urgent": "X-Pawl-Class", "X-Pawl-Budget-Usd: -1": "X-Pawl-Budget-Usd", "X-Pawl-Timeout: 2h": "X-Pawl-Timeout",
		"X-Pawl-Timeout: soon": "X-Pawl-Timeout", "X-Pawl-Ambiguous: yes": "X-Pawl-Ambiguous", "Idempotency-Key: é": "Idempotency-Key",
		"Idempotency-Key: " + strings.Repeat("k", 256): "Idempotency-Key",
	} {
		p := b.post(t, chatPath, hello, header).problem(t)
		require.Equal(t, want, p.param(), header)
	}
	require.Zero(t, b.gateway.count(), "nothing of it was asked")

	large := b.post(t, chatPath, `{"model":"`+strings.Repeat("x", 5<<10)+`"}`)
	require.Equal(t, 413, large.status)
	require.Equal(t, "request_too_large", *large.problem(t).Code)
	unknown := b.post(t, chatPath, strings.Replace(hello, "default", "gpt-9", 1))
	require.Equal(t, 404, unknown.status)
	require.Equal(t, "model_not_found model", *unknown.problem(t).Code+" "+unknown.problem(t).param())
}

func TestFailuresHaveTheTypesThatClientsKnow(t *testing.T) {
	t.Parallel()
	const (
		transient = systemv1.Outcome_FAILURE_CLASS_TRANSIENT
		permanent = systemv1.Outcome_FAILURE_CLASS_PERMANENT
		ambiguous = systemv1.Outcome_FAILURE_CLASS_AMBIGUOUS
		budget    = systemv1.Outcome_FAILURE_CLASS_BUDGET
	)
	for _, c := range []struct {
		class  systemv1.Outcome_FailureClass
		reason string
		wait   time.Duration
		park   bool
		status int
		said   string
		after  string
		final  bool
	}{
		{class: permanent, reason: "invalid_input", status: 400, said: "invalid_request_error invalid_request"},
		{class: permanent, reason: "context_too_long", status: 400, said: "invalid_request_error context_length_exceeded"},
		{class: permanent, reason: "content_refused", status: 400, said: "invalid_request_error content_filter"},
		{class: permanent, reason: "model_unavailable", status: 404, said: "invalid_request_error model_not_found"},
		{class: transient, reason: "provider_429", wait: 1500 * time.Millisecond, status: 429, said: "rate_limit_error rate_limit_exceeded", after: "2"},
		{class: transient, reason: "provider_429", status: 429, said: "rate_limit_error rate_limit_exceeded", after: "1"},
		{class: transient, reason: "provider_529", wait: 90 * time.Second, park: true, status: 429, said: "rate_limit_error rate_limit_exceeded", after: "90"},
		{class: transient, reason: "deadline_exceeded", status: 429, said: "rate_limit_error rate_limit_exceeded", after: "1"},
		{class: budget, reason: "budget_exceeded", status: 429, said: "insufficient_quota insufficient_quota", final: true},
		{class: permanent, reason: "quota_exhausted", status: 429, said: "insufficient_quota insufficient_quota", final: true},
		{class: transient, reason: "provider_529", status: 503, said: "server_error provider_529"},
		{class: transient, reason: "provider_503", status: 503, said: "server_error provider_503"},
		{class: transient, reason: "network", status: 502, said: "server_error network"},
		{class: permanent, reason: "auth", status: 502, said: "server_error auth", final: true},
		{class: ambiguous, reason: "provider_timeout", status: 504, said: "server_error provider_timeout", final: true},
		{class: ambiguous, reason: "call_ambiguous", status: 409, said: "server_error call_ambiguous", final: true},
		{class: permanent, reason: "cancelled", status: 499, said: "server_error cancelled", final: true},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.gateway.call = newCall()
			b.gateway.call.fail(failureOf(c.class, c.reason, c.wait, c.park))
			for _, body := range []string{hello, strings.Replace(hello, "{", `{"stream":true,`, 1)} {
				a := b.post(t, chatPath, body)
				require.Equal(t, c.status, a.status, a.body)
				p := a.problem(t)
				require.Equal(t, c.said, p.Type+" "+*p.Code)
				require.Equal(t, c.after, a.header.Get("Retry-After"))
				require.Equal(t, c.final, a.header.Get("X-Should-Retry") == "false")
				require.NotEmpty(t, a.header.Get("X-Request-Id"))
			}
		})
	}
}

func TestAnswersOfLittleUseAreAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, finish, text string
		want                 string
	}{
		"cut off":  {"truncated", "length", "Once upon", `{"finish_reason":"length","index":0,"logprobs":null,"message":{"role":"assistant","content":"Once upon","refusal":null,"annotations":[]}}`},
		"filtered": {"content_refused", "content_filter", "", `{"finish_reason":"content_filter","index":0,"logprobs":null,"message":{"role":"assistant","content":"","refusal":null,"annotations":[]}}`},
		"refused":  {"content_refused", "(refusal)", "I cannot.", `{"finish_reason":"stop","index":0,"logprobs":null,"message":{"role":"assistant","content":null,"refusal":"I cannot.","annotations":[]}}`},
		"empty":    {"answer_empty", "(empty)", "", `{"finish_reason":"stop","index":0,"logprobs":null,"message":{"role":"assistant","content":"","refusal":null,"annotations":[]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.gateway.call = newCall()
			b.gateway.call.result.Answer = &systemv1.Answer{Text: c.text, FinishReason: c.finish, Model: "small-1"}
			b.gateway.call.fail(failureOf(systemv1.Outcome_FAILURE_CLASS_PERMANENT, c.reason, 0, false))
			a := b.post(t, chatPath, hello)
			require.Equal(t, 200, a.status, a.body)
			var got struct {
				Choices []json.RawMessage `json:"choices"`
			}
			require.NoError(t, json.Unmarshal([]byte(a.body), &got))
			require.JSONEq(t, c.want, string(got.Choices[0]))
		})
	}
}

func TestToolCallsAreAnswered(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.gateway.call = newCall()
	b.gateway.call.answer(&systemv1.Answer{Model: "small-1", ToolCalls: []*systemv1.ToolCall{{Id: "c1", Name: "look", Arguments: `{"at":1}`}}})
	a := b.post(t, chatPath, hello)
	require.Contains(t, a.body, `"message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{\"at\":1}"}}],"annotations":[]},"logprobs":null,"finish_reason":"tool_calls"`)
}

func TestOneKeyIsOneScope(t *testing.T) {
	t.Parallel()
	b := setup(t)
	scopeOf := func(headers ...string) string {
		a := b.post(t, chatPath, hello, headers...)
		require.Equal(t, 200, a.status, a.body)
		return string(b.gateway.question(t).GetStep().GetRunId())
	}
	first := scopeOf("Idempotency-Key: k")
	require.Equal(t, first, scopeOf(`Idempotency-Key: "k"`))
	require.NotEqual(t, first, scopeOf("Idempotency-Key: other"))
	keyless := scopeOf()
	require.NotEqual(t, keyless, scopeOf(), "without a key each request is a question of its own")

	b.gateway.call.replayed = true
	require.Equal(t, "true", b.post(t, chatPath, hello).header.Get("X-Pawl-Replayed"))
	b.gateway.reused = true
	reused := b.post(t, chatPath, hello, "Idempotency-Key: k")
	require.Equal(t, 422, reused.status)
	require.Equal(t, "idempotency_key_reused Idempotency-Key", *reused.problem(t).Code+" "+reused.problem(t).param())
}

func failureOf(class systemv1.Outcome_FailureClass, reason string, wait time.Duration, park bool) *systemv1.CallFailure {
	f := &systemv1.CallFailure{Class: class, Reason: reason, Message: "it said so", Park: park, CallKey: make([]byte, 32)}
	if wait > 0 {
		f.RetryAfter = durationOf(wait)
	}
	return f
}

var _ compat.Gateway = (*gateway)(nil)

// Where our providers are is nothing that their clients need to know.
func TestProblemsDoNotNameAddressesOfProviders(t *testing.T) {
	t.Parallel()
	for reason, class := range map[string]systemv1.Outcome_FailureClass{
		"network":          systemv1.Outcome_FAILURE_CLASS_TRANSIENT,
		"provider_timeout": systemv1.Outcome_FAILURE_CLASS_AMBIGUOUS,
	} {
		b := setup(t)
		b.gateway.call = newCall()
		f := failureOf(class, reason, 0, false)
		f.Message = "post to http://llm.internal:9000/v1: connection refused"
		b.gateway.call.fail(f)
		require.NotContains(t, b.post(t, chatPath, hello).body, "llm.internal", reason)
	}
}
