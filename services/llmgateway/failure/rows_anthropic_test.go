package failure_test

import (
	"time"

	"pawl.internal/services/llmgateway/failure"
)

// shapeB is the body of an error in Anthropic's form.
func shapeB(kind, message string) string {
	return `{"type":"error","error":{"type":"` + kind + `","message":"` + message + `"},"request_id":"req_011CSHoEeqs5C35K2UUqR7Fy"}`
}

func anthropicRows() []errorRow {
	const (
		accountLimit   = "You have reached your specified API usage limits. You will regain access on 2027-01-01 at 00:00 UTC."
		workspaceLimit = "You have reached your specified workspace API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."
		spendLimit     = `{"type":"error","error":{"type":"rate_limit_error","message":"spend limit","details":{"error_code":"enforced_spend_limit_reached"}}}`
	)
	newYear := time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC)
	december := time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC)
	return []errorRow{
		{"400 prompt too long", 400, shapeB("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"), failure.Context, "context_too_long", &more{code: "invalid_request_error"}},
		{"400 prompt and answer too long", 400, shapeB("invalid_request_error", "input length and `max_tokens` exceed context limit: 199000 + 4096 > 200000"), failure.Context, "context_too_long", nil},
		{"400 credit", 400, shapeB("invalid_request_error", "Your credit balance is too low to access the Anthropic API."), failure.Quota, "quota_exhausted", nil},
		{"400 usage limits", 400, shapeB("invalid_request_error", accountLimit), failure.Quota, "quota_exhausted", &more{wait: newYear.Sub(now), resume: newYear}},
		{"400 workspace usage limits", 400, shapeB("invalid_request_error", workspaceLimit), failure.Quota, "quota_exhausted", &more{
			wait: 12 * time.Hour, resume: december, scope: failure.ScopeProject,
		}},
		{"400 usage limits without a date", 400, shapeB("invalid_request_error", "You have reached your specified API usage limits."), failure.Quota, "quota_exhausted", nil},
		{"400 other", 400, shapeB("invalid_request_error", "messages: at least one message is required"), failure.Invalid, "invalid_input", nil},
		{"422 of the same type", 422, shapeB("invalid_request_error", "x"), failure.Invalid, "invalid_input", nil},
		{"401", 401, shapeB("authentication_error", "invalid x-api-key"), failure.Auth, "auth", nil},
		{"401 whatever its text", 401, shapeB("authentication_error", "your credit balance is too low; prompt is too long"), failure.Auth, "auth", nil},
		{"402", 402, shapeB("billing_error", "x"), failure.Quota, "quota_exhausted", nil},
		{"403 names a model", 403, shapeB("permission_error", "Your API key does not have access to claude-opus-5-5."), failure.Model, "model_unavailable", nil},
		{"403 other", 403, shapeB("permission_error", "Your API key does not have permission to use the specified resource."), failure.Auth, "auth", nil},
		{"403 not Anthropic's", 403, `<html>claude- this model</html>`, failure.Auth, "auth", nil},
		{"404 model", 404, shapeB("not_found_error", "model: claude-3"), failure.Model, "model_unavailable", nil},
		{"404 not available", 404, shapeB("not_found_error", "Claude X is not available."), failure.Model, "model_unavailable", nil},
		{"404 other", 404, shapeB("not_found_error", "file not found"), failure.Invalid, "invalid_input", nil},
		{"404 of no API", 404, `404 page not found`, failure.Auth, "model_unavailable", nil},
		{"409", 409, shapeB("conflict_error", "x"), failure.Transient, "provider_500", nil},
		{"413", 413, shapeB("request_too_large", "Request exceeds the maximum size"), failure.Invalid, "invalid_input", nil},
		{"413 of Cloudflare", 413, `<html><center><h1>413 Request Entity Too Large</h1></center></html>`, failure.Invalid, "invalid_input", nil},
		{"429", 429, shapeB("rate_limit_error", "would exceed your organization's rate limit"), failure.Rate, "provider_429", &more{
			header: header("Retry-After: 31", "Anthropic-Ratelimit-Output-Tokens-Remaining: 0", "Anthropic-Ratelimit-Output-Tokens-Reset: 2026-11-30T12:00:07Z"),
			wait:   31 * time.Second, code: "rate_limit_error",
		}},
		{"429 exhausted for longer than it says", 429, shapeB("rate_limit_error", "x"), failure.Rate, "provider_429", &more{
			header: header("Retry-After: 3", "Anthropic-Ratelimit-Output-Tokens-Remaining: 0", "Anthropic-Ratelimit-Output-Tokens-Reset: 2026-11-30T12:00:07Z"),
			wait:   7 * time.Second,
		}},
		{"429 sudden growth", 429, shapeB("rate_limit_error", "acceleration limit"), failure.Rate, "provider_429", &more{header: header("Retry-After: 5"), wait: 5 * time.Second}},
		{"429 spend limit", 429, spendLimit, failure.Quota, "quota_exhausted", &more{
			wait: 12 * time.Hour, resume: december, code: "enforced_spend_limit_reached",
		}},
		{"429 spend limit with a wait", 429, spendLimit, failure.Rate, "provider_429", &more{header: header("Retry-After: 5"), wait: 5 * time.Second}},
		{"500", 500, shapeB("api_error", "Internal server error"), failure.Transient, "provider_500", nil},
		{"500 whatever its text", 500, shapeB("invalid_request_error", "credit balance is too low"), failure.Transient, "provider_500", nil},
		{"502", 502, `<html>`, failure.Transient, "provider_502", nil},
		{"503", 503, ``, failure.Overloaded, "provider_503", nil},
		{"504", 504, shapeB("timeout_error", "Request timed out"), failure.Unsure, "provider_timeout", nil},
		{"504 of a front", 504, ``, failure.Unsure, "provider_timeout", nil},
		{"529", 529, shapeB("overloaded_error", "Overloaded"), failure.Overloaded, "provider_529", nil},
		{"redirect", 301, ``, failure.Auth, "network", nil},
		{"408", 408, ``, failure.Transient, "provider_timeout", nil},
		{"unknown 4xx that may be retried", 425, `{}`, failure.Transient, "provider_500", &more{header: header("X-Should-Retry: true")}},

		{"SSE overloaded", 200, shapeB("overloaded_error", "Overloaded"), failure.Overloaded, "provider_503", nil},
		{"SSE api_error", 200, shapeB("api_error", "x"), failure.Transient, "provider_500", nil},
		{"SSE rate", 200, shapeB("rate_limit_error", "x"), failure.Rate, "provider_429", nil},
		{"SSE timeout", 200, shapeB("timeout_error", "x"), failure.Unsure, "provider_timeout", nil},
		{"SSE invalid", 200, shapeB("invalid_request_error", "x"), failure.Invalid, "invalid_input", nil},
		{"SSE unknown", 200, shapeB("new_error", "x"), failure.Transient, "provider_500", nil},
		{"SSE key", 200, shapeB("authentication_error", "x"), failure.Auth, "auth", nil},
		{"SSE ping", 200, `{"type":"ping"}`, failure.None, "", nil},
		// Case 31: the type says that we are at fault, the code that time ran out.
		{"SSE code against type, case 31", 200, `{"type":"error","error":{"type":"invalid_request_error","code":"request_timeout"}}`, failure.Unsure, "provider_timeout", &more{code: "request_timeout"}},
	}
}
