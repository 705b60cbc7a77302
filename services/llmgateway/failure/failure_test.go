package failure_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/llmgateway/failure"
)

var now = time.Date(2026, time.November, 30, 12, 0, 0, 0, time.UTC)

// header makes a header of "Name: value" lines.
func header(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Set(name, value)
	}
	return h
}

// errorRow is an answer of a provider and what it must be taken for.
type errorRow struct {
	name   string
	status int
	body   string
	class  failure.Class
	reason string
}

// shapeA is the body of an error in OpenAI's form.
func shapeA(kind, code, message string) string {
	return `{"error":{"message":"` + message + `","type":"` + kind + `","param":null,"code":"` + code + `"}}`
}

func openAIRows() []errorRow {
	return []errorRow{
		{"400 other codes", 400, shapeA("invalid_request_error", "unsupported_value", "Unsupported value"), failure.Invalid, "invalid_input"},
		{"400 bad service tier", 400, `{"error":{"message":"bad","type":"invalid_request_error","param":"service_tier","code":null}}`, failure.Invalid, "invalid_input"},
		{"400 invalid_encrypted_content", 400, shapeA("invalid_request_error", "invalid_encrypted_content", "x"), failure.Invalid, "invalid_input"},
		{"400 context", 400, shapeA("invalid_request_error", "context_length_exceeded", "too long"), failure.Context, "context_too_long"},
		{"400 Azure content filter", 400, shapeA("", "content_filter", "filtered"), failure.Content, "content_refused"},
		{"400 content policy", 400, shapeA("x", "content_policy_violation", "no"), failure.Content, "content_refused"},
		{"400 invalid prompt", 400, shapeA("invalid_request_error", "invalid_prompt", "no"), failure.Content, "content_refused"},
		{"400 bio policy", 400, shapeA("invalid_request_error", "bio_policy", "no"), failure.Content, "content_refused"},
		{"400 image policy", 400, shapeA("invalid_request_error", "image_content_policy_violation", "no"), failure.Content, "content_refused"},
		{"400 Azure operation", 400, `{"error":{"code":"OperationNotSupported","message":"no chat"}}`, failure.Invalid, "invalid_input"},
		{"400 Azure retiring", 400, `{"error":{"code":"ServiceModelDeprecating","message":"retires"}}`, failure.Model, "model_unavailable"},
		{"410 Azure", 410, `{"error":{"code":"Gone","message":"retired"}}`, failure.Model, "model_unavailable"},
		{"401 key", 401, shapeA("invalid_request_error", "invalid_api_key", "Incorrect API key"), failure.Auth, "auth"},
		{"401 no organization", 401, shapeA("invalid_request_error", "", "You must be a member of an organization"), failure.Auth, "auth"},
		{"401 IP", 401, shapeA("invalid_request_error", "ip_not_authorized", "Your IP is not allowed"), failure.Auth, "auth"},
		{"401 Azure subscription", 401, `{"error":{"code":"401","message":"Access denied due to invalid subscription key"}}`, failure.Auth, "auth"},
		{"401 whatever its text", 401, shapeA("x", "", "maximum context length is 5; account is not active"), failure.Auth, "auth"},
		{"403 region", 403, shapeA("request_forbidden", "unsupported_country_region_territory", "no"), failure.Region, "region_refused"},
		{"403 model", 403, shapeA("invalid_request_error", "model_not_found", "no access"), failure.Model, "model_unavailable"},
		{"404 model", 404, shapeA("invalid_request_error", "model_not_found", "does not exist"), failure.Model, "model_unavailable"},
		{"404 Azure deployment", 404, `{"error":{"code":"DeploymentNotFound","message":"none"}}`, failure.Model, "model_unavailable"},
		{"404 parameter", 404, `{"error":{"message":"none","type":"invalid_request_error","param":"previous_response_id","code":null}}`, failure.Invalid, "invalid_input"},
		{"404 bare", 404, `<html>nothing here</html>`, failure.Auth, "model_unavailable"},
		{"403 terminated", 403, shapeA("x", "access_terminated", "violation"), failure.Auth, "auth"},
		{"403 network", 403, `{"error":{"code":"AccessDenied","message":"network rules"}}`, failure.Auth, "auth"},
		{"403 whatever its text", 403, shapeA("x", "", "budget moderation key limit exceeded"), failure.Auth, "auth"},
		{"408", 408, `{}`, failure.Transient, "provider_timeout"},
		{"409", 409, `{}`, failure.Transient, "provider_500"},
		{"413", 413, `{}`, failure.Invalid, "invalid_input"},
		{"415", 415, ``, failure.Invalid, "invalid_input"},
		{"422", 422, `{"error":{"message":"x"}}`, failure.Invalid, "invalid_input"},
		{"429 requests", 429, shapeA("requests", "rate_limit_exceeded", "Rate limit reached: Limit 3, Used 3, Requested 1."), failure.Rate, "provider_429"},
		{"429 tokens", 429, shapeA("tokens", "rate_limit_exceeded", "Limit 30000, Used 29000, Requested 2000."), failure.Rate, "provider_429"},
		{"429 tokens, no code", 429, shapeA("tokens", "", "slow"), failure.Rate, "provider_429"},
		{"429 can never fit", 429, shapeA("tokens", "rate_limit_exceeded", "Request too large: Limit 30000, Requested 41000."), failure.Context, "context_too_long"},
		{"429 can never fit, by type", 429, shapeA("tokens", "", "Limit: 100, Requested: 101"), failure.Context, "context_too_long"},
		{"429 slow down", 429, shapeA("rate_limit_error", "slow_down", "rose too fast"), failure.Rate, "provider_429"},
		{"429 quota by type", 429, shapeA("insufficient_quota", "", "exceeded"), failure.Quota, "quota_exhausted"},
		{"429 quota by code", 429, shapeA("requests", "insufficient_quota", "exceeded"), failure.Quota, "quota_exhausted"},
		{"429 credit", 429, shapeA("x", "credit_balance_exhausted", "x"), failure.Quota, "quota_exhausted"},
		{"429 organization spend", 429, shapeA("x", "organization_spend_limit_exceeded", "x"), failure.Quota, "quota_exhausted"},
		{"429 project spend", 429, shapeA("x", "project_spend_limit_exceeded", "x"), failure.Quota, "quota_exhausted"},
		{"429 organization usage", 429, shapeA("x", "organization_usage_limit_exceeded", "x"), failure.Quota, "quota_exhausted"},
		{"429 inactive", 429, shapeA("x", "", "Your account is not active, please check billing"), failure.Quota, "quota_exhausted"},
		{"429 nothing said", 429, ``, failure.Rate, "provider_429"},
		{"500", 500, shapeA("server_error", "", "sorry"), failure.Transient, "provider_500"},
		{"500 whatever its code", 500, shapeA("server_error", "insufficient_quota", "maximum context length is 5"), failure.Transient, "provider_500"},
		{"502 HTML", 502, `<html>bad gateway</html>`, failure.Transient, "provider_502"},
		{"504", 504, ``, failure.Transient, "provider_502"},
		{"520", 520, ``, failure.Transient, "provider_502"},
		{"524", 524, ``, failure.Transient, "provider_502"},
		{"503 by type", 503, shapeA("service_unavailable_error", "", "busy"), failure.Overloaded, "provider_503"},
		{"503 by code", 503, shapeA("x", "server_is_overloaded", "busy"), failure.Overloaded, "provider_503"},
		{"unknown 4xx", 418, `{}`, failure.Invalid, "invalid_input"},
		{"unknown 5xx", 599, ``, failure.Transient, "provider_500"},
		{"redirect", 307, ``, failure.Auth, "network"},

		{"200 server_error", 200, `{"status":"failed","error":{"code":"server_error","message":"x"}}`, failure.Transient, "provider_500"},
		{"200 vector store", 200, `{"status":"failed","error":{"code":"vector_store_timeout","message":"x"}}`, failure.Transient, "provider_500"},
		{"200 rate", 200, `{"status":"failed","error":{"code":"rate_limit_exceeded","message":"x"}}`, failure.Rate, "provider_429"},
		{"200 policy", 200, `{"status":"failed","error":{"code":"cyber_policy","message":"x"}}`, failure.Content, "content_refused"},
		{"200 image download", 200, `{"status":"failed","error":{"code":"failed_to_download_image","message":"x"}}`, failure.Transient, "provider_500"},
		{"200 image", 200, `{"status":"failed","error":{"code":"image_too_small","message":"x"}}`, failure.Invalid, "invalid_input"},
		{"200 invalid", 200, `{"status":"failed","error":{"code":"invalid_base64_image","message":"x"}}`, failure.Invalid, "invalid_input"},
		{"200 residency", 200, `{"status":"failed","error":{"code":"data_residency_mismatch","message":"x"}}`, failure.Invalid, "invalid_input"},
		{"200 code beats type", 200, shapeA("invalid_request_error", "request_timeout", "x"), failure.Unsure, "provider_timeout"},
		{"shape B, in a 200", 200, `{"type":"error","error":{"type":"invalid_request_error","code":"request_timeout"},"request_id":"r"}`, failure.Unsure, "provider_timeout"},
		{"shape C", 429, `{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED","details":[]}}`, failure.Rate, "provider_429"},
		{"shape F, JSON that is no object", 500, `[1]`, failure.Transient, "provider_500"},
		{"200 error of unknown kind", 200, `{"error":{"message":"oops"}}`, failure.Transient, "provider_500"},
		{"200 null error", 200, `{"error":null,"choices":[{"message":{"content":"x"}}]}`, failure.None, ""},
	}
}

func otherRows() []errorRow {
	return []errorRow{
		{"Mistral 400", 400, `{"object":"error","message":"bad","type":"invalid_request_error","param":null,"code":null}`, failure.Invalid, "invalid_input"},
		{"Mistral 422 list", 422, `{"detail":[{"loc":["body","messages"],"msg":"field required","type":"missing"}]}`, failure.Invalid, "invalid_input"},
		{"Mistral 422 wrapped", 422, `{"object":"error","message":{"detail":[{"loc":[],"msg":"field required"}]},"type":"invalid_request_error"}`, failure.Invalid, "invalid_input"},
		{"Mistral 401", 401, `{"message":"Unauthorized"}`, failure.Auth, "auth"},
		{"Mistral guardrail", 403, `{"object":"error","message":"Request blocked by guardrail","type":"forbidden"}`, failure.Content, "content_refused"},
		{"Mistral 402", 402, `{"object":"error","message":"pay"}`, failure.Quota, "quota_exhausted"},
		{"Mistral invalid_model", 400, `{"object":"error","message":"Invalid model: x","type":"invalid_model","code":"1500"}`, failure.Model, "model_unavailable"},
		{"Mistral model_not_found", 404, `{"object":"error","message":"x","type":"model_not_found"}`, failure.Model, "model_unavailable"},
		{"Mistral unknown_model", 400, `{"object":"error","message":"x","code":"unknown_model"}`, failure.Model, "model_unavailable"},
		{"Mistral 429", 429, `{"object":"error","message":"Requests rate limit exceeded","type":"rate_limited","code":"1300"}`, failure.Rate, "provider_429"},
		{"Mistral 500", 500, `{"object":"error","message":"x"}`, failure.Transient, "provider_500"},
		{"Mistral 503", 503, `{"object":"error","message":"x"}`, failure.Overloaded, "provider_503"},
		{"DeepSeek 402", 402, shapeA("unknown_error", "invalid_request_error", "Insufficient Balance"), failure.Quota, "quota_exhausted"},
		{"DeepSeek 422", 422, shapeA("invalid_request_error", "invalid_request_error", "x"), failure.Invalid, "invalid_input"},
		{"DeepSeek 429", 429, shapeA("", "", "too fast"), failure.Rate, "provider_429"},
		{"DeepSeek 503", 503, shapeA("", "", "busy"), failure.Overloaded, "provider_503"},
		{"vLLM new", 404, `{"error":{"message":"The model x does not exist.","type":"NotFoundError","param":"model","code":404}}`, failure.Model, "model_unavailable"},
		{"vLLM old", 404, `{"object":"error","message":"The model x does not exist.","type":"NotFoundError","param":null,"code":404}`, failure.Model, "model_unavailable"},
		{"vLLM bad request", 400, `{"error":{"message":"bad","type":"BadRequestError","param":null,"code":400}}`, failure.Invalid, "invalid_input"},
		{"vLLM unprocessable", 422, `{"error":{"message":"bad","type":"UnprocessableEntityError","param":null,"code":422}}`, failure.Invalid, "invalid_input"},
		{"vLLM internal", 500, `{"error":{"message":"bad","type":"InternalServerError","param":null,"code":500}}`, failure.Transient, "provider_500"},
		{"vLLM context 1", 400, `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}`, failure.Context, "context_too_long"},
		{"vLLM context 2", 400, `{"error":{"message":"max_tokens cannot be greater than max_model_len=4096","type":"BadRequestError","code":400}}`, failure.Context, "context_too_long"},
		{"vLLM context 3", 400, `{"error":{"message":"max_tokens must be at least 1, got -12.","type":"BadRequestError","code":400}}`, failure.Context, "context_too_long"},
		{"vLLM context, but a 500", 500, `{"error":{"message":"maximum context length is 4096","type":"InternalServerError","code":500}}`, failure.Transient, "provider_500"},
		{"Ollama native", 404, `{"error":"model 'x' not found"}`, failure.Model, "model_unavailable"},
		{"Ollama compatible", 404, `{"error":{"message":"model \"x\" not found, try pulling it first","type":"api_error","param":null,"code":null}}`, failure.Model, "model_unavailable"},
		{"Scaleway", 429, `{"status":429,"error":"INSUFFICIENT QUOTA","message":"limit of concurrent requests"}`, failure.Rate, "provider_429"},
		{"OpenRouter in flight", 402, `{"error":{"code":402,"message":"x","metadata":{"limit_source":"openrouter_in_flight_budget"}}}`, failure.Rate, "provider_429"},
		{"OpenRouter 402", 402, `{"error":{"code":402,"message":"Insufficient credits"}}`, failure.Quota, "quota_exhausted"},
		{"OpenRouter moderation", 403, `{"error":{"code":403,"message":"requires moderation","metadata":{"reasons":["x"]}}}`, failure.Content, "content_refused"},
		{"OpenRouter key limit", 403, `{"error":{"code":403,"message":"Key limit exceeded (total limit)"}}`, failure.Quota, "quota_exhausted"},
		{"OpenRouter budget", 403, `{"error":{"code":403,"message":"over the budget of the workspace"}}`, failure.Quota, "quota_exhausted"},
		{"OpenRouter no endpoints", 404, `{"error":{"code":404,"message":"No endpoints found for x"}}`, failure.Model, "model_unavailable"},
		{"OpenRouter 408", 408, `{"error":{"code":408,"message":"x"}}`, failure.Transient, "provider_timeout"},
		{"OpenRouter 502", 502, `{"error":{"code":502,"message":"x"}}`, failure.Transient, "provider_502"},
		{"OpenRouter 503", 503, `{"error":{"code":503,"message":"x"}}`, failure.Overloaded, "provider_503"},
		{"OpenRouter error in a 200", 200, `{"error":{"code":502,"message":"upstream"}}`, failure.Transient, "provider_502"},
		{"OpenRouter error in a choice", 200, `{"choices":[{"finish_reason":"error","error":{"code":429,"message":"slow"}}]}`, failure.Rate, "provider_429"},
		{"Groq too large", 413, shapeA("tokens", "rate_limit_exceeded", "Limit 6000, Requested 9000"), failure.Context, "context_too_long"},
		{"Groq capacity", 498, shapeA("x", "capacity_exceeded", "x"), failure.Overloaded, "provider_503"},
		{"Groq blocked", 400, shapeA("invalid_request_error", "blocked_api_access", "x"), failure.Quota, "quota_exhausted"},
		{"Groq restricted", 400, shapeA("invalid_request_error", "organization_restricted", "x"), failure.Auth, "auth"},
		{"Groq retired", 400, shapeA("invalid_request_error", "model_decommissioned", "x"), failure.Model, "model_unavailable"},
	}
}

func TestEveryKnownErrorOfOpenAICompatibleProviders(t *testing.T) {
	t.Parallel()
	for _, row := range append(openAIRows(), otherRows()...) {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got := failure.Classify(failure.OpenAI, row.status, http.Header{}, []byte(row.body), now)
			require.Equal(t, row.class.String(), got.Class.String())
			require.Equal(t, row.reason, got.Reason)
			require.False(t, got.AnswerAtFault, "an error is not an answer")
		})
	}
}

func TestEveryEndOfAnAnswer(t *testing.T) {
	t.Parallel()
	rows := []struct {
		word    string
		class   failure.Class
		reason  string
		atFault bool
	}{
		{"stop", failure.None, "", false},
		{"tool_calls", failure.None, "", false},
		{"function_call", failure.None, "", false},
		{"", failure.None, "", false},
		{"eos", failure.None, "", false},
		{"length", failure.Truncated, "truncated", true},
		{"max_output_tokens", failure.Truncated, "truncated", true},
		{"content_filter", failure.Content, "content_refused", true},
		{failure.FinishRefusal, failure.Content, "content_refused", true},
		{"insufficient_system_resource", failure.Overloaded, "provider_503", false},
		{failure.FinishEmpty, failure.Transient, "answer_empty", true},
		{failure.FinishUnreadable, failure.Transient, "json_validation_error", false},
		{failure.FinishTooLong, failure.Invalid, "answer_too_long", true},
	}
	for _, row := range rows {
		got := failure.Finish(failure.OpenAI, row.word)
		require.Equal(t, row.class.String(), got.Class.String(), row.word)
		require.Equal(t, row.reason, got.Reason, row.word)
		require.Equal(t, row.atFault, got.AnswerAtFault, row.word)
		require.Equal(t, row.class == failure.None, got.Message == "", row.word)
		require.False(t, strings.HasPrefix(row.word, "(") && strings.Contains(got.Message, row.word), "%s is a word of ours", row.word)
	}
	require.Contains(t, failure.Finish(failure.OpenAI, "length").Message, "raise max_output_tokens")
}

func TestConnectionFailuresAreUnsureOnlyOnceTheRequestIsOut(t *testing.T) {
	t.Parallel()
	rows := []struct {
		sent, timedOut bool
		class          failure.Class
		reason         string
	}{
		{false, false, failure.Transient, "network"},
		{false, true, failure.Transient, "network"},
		{true, false, failure.Unsure, "network"},
		{true, true, failure.Unsure, "provider_timeout"},
	}
	for _, row := range rows {
		got := failure.Transport(row.sent, row.timedOut, "x")
		require.Equal(t, row.class.String(), got.Class.String())
		require.Equal(t, row.reason, got.Reason)
	}
}

func TestStatedWaits(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name   string
		header http.Header
		body   string
		want   time.Duration
	}{
		{"none", header(), "", 0},
		{"milliseconds", header("Retry-After-Ms: 1500"), "", 1500 * time.Millisecond},
		{"seconds", header("Retry-After: 3600"), "", time.Hour},
		{"fraction of seconds", header("Retry-After: 0.25"), "", 250 * time.Millisecond},
		{"HTTP date", header("Retry-After: Mon, 30 Nov 2026 12:00:22 GMT"), "", 22 * time.Second},
		{"date that has passed", header("Retry-After: Mon, 30 Nov 2026 11:00:00 GMT"), "", 0},
		{"the longest wins", header("Retry-After-Ms: 900", "Retry-After: 5"), "", 5 * time.Second},
		{"negative", header("Retry-After: -1"), "", 0},
		{"no number", header("Retry-After: NaN"), "", 0},
		{"nonsense", header("Retry-After: soon"), "", 0},
		{"infinite", header("Retry-After: Inf"), "", 366 * 24 * time.Hour},
		{"exhausted requests", header("X-Ratelimit-Remaining-Requests: 0", "X-Ratelimit-Reset-Requests: 6m0s"), "", 6 * time.Minute},
		{"exhausted tokens", header("X-Ratelimit-Remaining-Tokens: 0", "X-Ratelimit-Reset-Tokens: 120ms"), "", 120 * time.Millisecond},
		{"both exhausted", header(
			"X-Ratelimit-Remaining-Requests: 0", "X-Ratelimit-Reset-Requests: 1s",
			"X-Ratelimit-Remaining-Tokens: 0", "X-Ratelimit-Reset-Tokens: 1h2m3s",
		), "", time.Hour + 2*time.Minute + 3*time.Second},
		{"not exhausted", header("X-Ratelimit-Remaining-Requests: 7", "X-Ratelimit-Reset-Requests: 6m0s"), "", 0},
		{"unknown to Azure", header("X-Ratelimit-Remaining-Requests: -1", "X-Ratelimit-Reset-Requests: 0"), "", 0},
		{"usage based", header(
			"X-Ratelimit-Remaining-Tokens_usage_based: 0", "X-Ratelimit-Reset-Tokens_usage_based: 2s",
		), "", 2 * time.Second},
		{"epoch milliseconds", header("X-Ratelimit-Remaining: 0", "X-Ratelimit-Reset: 1796040060000"), "", time.Minute},
		{"epoch seconds", header("X-Ratelimit-Remaining: 0", "X-Ratelimit-Reset: 1796040060"), "", time.Minute},
		{"RFC 3339", header(
			"Anthropic-Ratelimit-Tokens-Remaining: 0", "Anthropic-Ratelimit-Tokens-Reset: 2026-11-30T12:00:07Z",
		), "", 7 * time.Second},
		{"Mistral", header("X-Ratelimitbysize-Remaining-Minute: 0", "Ratelimitbysize-Reset: 13"), "", 13 * time.Second},
		{"RetryInfo", header(), `{"error":{"code":429,"details":[
			{"@type":"type.googleapis.com/google.rpc.Help"},
			{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"22s"}]}}`, 22 * time.Second},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got := failure.Classify(failure.OpenAI, 429, row.header, []byte(row.body), now)
			require.Equal(t, row.want, got.Wait)
		})
	}
}

func TestMessagesAreOneLineAndBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ж", 1000)
	got := failure.Classify(failure.OpenAI, 400, http.Header{}, []byte(shapeA("a_type", "", `two\nlines `+long)), now)
	require.True(t, strings.HasPrefix(got.Message, "status 400 a_type: two lines ж"), got.Message)
	require.Less(t, len(got.Message), 310)
	require.NotContains(t, got.Message, "�")
}

func FuzzClassify(f *testing.F) {
	for _, row := range append(openAIRows(), otherRows()...) {
		f.Add(row.status, row.body)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		got := failure.Classify(failure.OpenAI, status, http.Header{}, []byte(body), now)
		require.Equal(t, got.Class == failure.None, got.Reason == "")
		require.False(t, status >= 500 && got.Class == failure.Context)
	})
}
