package failure_test

import (
	"time"

	"pawl.internal/services/llmgateway/failure"
)

// otherRows are those of servers that are compatible with OpenAI.
func otherRows() []errorRow {
	return []errorRow{
		{"Mistral 400", 400, `{"object":"error","message":"bad","type":"invalid_request_error","param":null,"code":null}`, failure.Invalid, "invalid_input", nil},
		{"Mistral 422 list", 422, `{"detail":[{"loc":["body","messages"],"msg":"field required","type":"missing"}]}`, failure.Invalid, "invalid_input", nil},
		{"Mistral 422 wrapped", 422, `{"object":"error","message":{"detail":[{"loc":[],"msg":"field required"}]},"type":"invalid_request_error"}`, failure.Invalid, "invalid_input", nil},
		{"Mistral 401", 401, `{"message":"Unauthorized"}`, failure.Auth, "auth", nil},
		{"Mistral guardrail", 403, `{"object":"error","message":"Request blocked by guardrail","type":"forbidden"}`, failure.Content, "content_refused", nil},
		{"Mistral 402", 402, `{"object":"error","message":"pay"}`, failure.Quota, "quota_exhausted", nil},
		{"Mistral invalid_model", 400, `{"object":"error","message":"Invalid model: x","type":"invalid_model","code":"1500"}`, failure.Model, "model_unavailable", nil},
		{"Mistral model_not_found", 404, `{"object":"error","message":"x","type":"model_not_found"}`, failure.Model, "model_unavailable", nil},
		{"Mistral unknown_model", 400, `{"object":"error","message":"x","code":"unknown_model"}`, failure.Model, "model_unavailable", nil},
		{"Mistral 429", 429, `{"object":"error","message":"Requests rate limit exceeded","type":"rate_limited","code":"1300"}`, failure.Rate, "provider_429", &more{header: header("X-Ratelimitbysize-Remaining-Minute: 0", "Ratelimitbysize-Reset: 13"), wait: 13 * time.Second, code: "rate_limited"}},
		{"Mistral 500", 500, `{"object":"error","message":"x"}`, failure.Transient, "provider_500", nil},
		{"Mistral 502", 502, `{"object":"error","message":"x"}`, failure.Transient, "provider_502", nil},
		{"Mistral 504", 504, `{"object":"error","message":"x"}`, failure.Transient, "provider_502", nil},
		{"Mistral 403", 403, `{"object":"error","message":"Forbidden"}`, failure.Auth, "auth", nil},
		{"Mistral invalid_model as a 404", 404, `{"object":"error","message":"x","type":"invalid_model"}`, failure.Model, "model_unavailable", nil},
		{"Mistral unknown_model as a 404", 404, `{"object":"error","message":"x","code":"unknown_model"}`, failure.Model, "model_unavailable", nil},
		{"Mistral 503", 503, `{"object":"error","message":"x"}`, failure.Overloaded, "provider_503", nil},
		{"DeepSeek 402", 402, shapeA("unknown_error", "invalid_request_error", "Insufficient Balance"), failure.Quota, "quota_exhausted", nil},
		{"DeepSeek 422", 422, shapeA("invalid_request_error", "invalid_request_error", "x"), failure.Invalid, "invalid_input", nil},
		{"DeepSeek 429", 429, shapeA("", "", "too fast"), failure.Rate, "provider_429", nil},
		{"DeepSeek 400", 400, shapeA("invalid_request_error", "invalid_request_error", "x"), failure.Invalid, "invalid_input", nil},
		{"DeepSeek 401", 401, shapeA("authentication_error", "invalid_request_error", "Authentication Fails"), failure.Auth, "auth", nil},
		{"DeepSeek 500", 500, shapeA("", "", "x"), failure.Transient, "provider_500", nil},
		{"DeepSeek 503", 503, shapeA("", "", "busy"), failure.Overloaded, "provider_503", nil},
		{"vLLM new", 404, `{"error":{"message":"The model x does not exist.","type":"NotFoundError","param":"model","code":404}}`, failure.Model, "model_unavailable", nil},
		{"vLLM old", 404, `{"object":"error","message":"The model x does not exist.","type":"NotFoundError","param":null,"code":404}`, failure.Model, "model_unavailable", nil},
		{"vLLM bad request", 400, `{"error":{"message":"bad","type":"BadRequestError","param":null,"code":400}}`, failure.Invalid, "invalid_input", nil},
		{"vLLM unprocessable", 422, `{"error":{"message":"bad","type":"UnprocessableEntityError","param":null,"code":422}}`, failure.Invalid, "invalid_input", nil},
		{"vLLM internal", 500, `{"error":{"message":"bad","type":"InternalServerError","param":null,"code":500}}`, failure.Transient, "provider_500", nil},
		{"vLLM in a stream", 200, `{"object":"error","message":"engine died","type":"InternalServerError","param":null,"code":500}`, failure.Transient, "provider_500", nil},
		{"vLLM in a stream, new", 200, `{"error":{"message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}}`, failure.Context, "context_too_long", nil},
		{"vLLM context 1", 400, `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}`, failure.Context, "context_too_long", nil},
		{"vLLM context 2", 400, `{"error":{"message":"max_tokens cannot be greater than max_model_len=4096","type":"BadRequestError","code":400}}`, failure.Context, "context_too_long", nil},
		{"vLLM context 3", 400, `{"error":{"message":"max_tokens must be at least 1, got -12.","type":"BadRequestError","code":400}}`, failure.Context, "context_too_long", nil},
		{"vLLM context, but a 500", 500, `{"error":{"message":"maximum context length is 4096","type":"InternalServerError","code":500}}`, failure.Transient, "provider_500", nil},
		{"Ollama native", 404, `{"error":"model 'x' not found"}`, failure.Model, "model_unavailable", nil},
		{"Ollama compatible", 404, `{"error":{"message":"model \"x\" not found, try pulling it first","type":"api_error","param":null,"code":null}}`, failure.Model, "model_unavailable", nil},
		{"Scaleway, case 7", 429, `{"status":429,"error":"INSUFFICIENT QUOTA","message":"limit of concurrent requests"}`, failure.Rate, "provider_429", &more{header: header("Retry-After: 1"), wait: time.Second}},
		{"OpenRouter in flight", 402, `{"error":{"code":402,"message":"x","metadata":{"limit_source":"openrouter_in_flight_budget"}}}`, failure.Rate, "provider_429", &more{header: header("Retry-After: 3"), wait: 3 * time.Second}},
		{"OpenRouter 402", 402, `{"error":{"code":402,"message":"Insufficient credits"}}`, failure.Quota, "quota_exhausted", nil},
		{"OpenRouter moderation", 403, `{"error":{"code":403,"message":"requires moderation","metadata":{"reasons":["x"]}}}`, failure.Content, "content_refused", nil},
		{"OpenRouter key limit", 403, `{"error":{"code":403,"message":"Key limit exceeded (total limit)"}}`, failure.Quota, "quota_exhausted", &more{scope: failure.ScopeKey}},
		{"OpenRouter budget", 403, `{"error":{"code":403,"message":"over the budget of the workspace"}}`, failure.Quota, "quota_exhausted", nil},
		{"OpenRouter no endpoints", 404, `{"error":{"code":404,"message":"No endpoints found for x"}}`, failure.Model, "model_unavailable", nil},
		{"OpenRouter 408", 408, `{"error":{"code":408,"message":"x"}}`, failure.Transient, "provider_timeout", nil},
		{"OpenRouter 502", 502, `{"error":{"code":502,"message":"x"}}`, failure.Transient, "provider_502", nil},
		{"OpenRouter 503", 503, `{"error":{"code":503,"message":"x"}}`, failure.Overloaded, "provider_503", nil},
		{"OpenRouter error in a 200", 200, `{"error":{"code":502,"message":"upstream"}}`, failure.Transient, "provider_502", nil},
		{"OpenRouter error in a choice", 200, `{"choices":[{"finish_reason":"error","error":{"code":429,"message":"slow"}}]}`, failure.Rate, "provider_429", nil},
		{"Groq too large", 413, shapeA("tokens", "rate_limit_exceeded", "Limit 6000, Requested 9000"), failure.Context, "context_too_long", nil},
		{"Groq capacity", 498, shapeA("x", "capacity_exceeded", "x"), failure.Overloaded, "provider_503", nil},
		{"Groq blocked", 400, shapeA("invalid_request_error", "blocked_api_access", "x"), failure.Quota, "quota_exhausted", nil},
		{"Groq restricted", 400, shapeA("invalid_request_error", "organization_restricted", "x"), failure.Auth, "auth", nil},
		{"Groq retired", 400, shapeA("invalid_request_error", "model_decommissioned", "x"), failure.Model, "model_unavailable", nil},
	}
}
