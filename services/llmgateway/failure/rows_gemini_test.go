package failure_test

import (
	"strconv"
	"strings"
	"time"

	"pawl.internal/services/llmgateway/failure"
)

// shapeC is the body of an error in Google's form.
func shapeC(code int, status, message string, details ...string) string {
	return `{"error":{"code":` + strconv.Itoa(code) + `,"message":"` + message + `","status":"` + status + `","details":[` +
		strings.Join(details, ",") + `]}}`
}

// violations are the details of an exceeded quota.
func violations(quotaIDs ...string) string {
	list := make([]string, len(quotaIDs))
	for i, id := range quotaIDs {
		list[i] = `{"quotaMetric":"generativelanguage.googleapis.com/generate_content_free_tier_requests","quotaId":"` + id + `"}`
	}
	return `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[` + strings.Join(list, ",") + `]}`
}

func retryInfo(delay string) string {
	return `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"` + delay + `"}`
}

func geminiRows() []errorRow {
	const (
		perMinute = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"
		perDay    = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
		invalid   = "INVALID_ARGUMENT"
		exhausted = "RESOURCE_EXHAUSTED"
		nothing   = `* Quota exceeded for metric: generate_content_free_tier_requests, limit: 0, model: gemini-4-neon\nPlease retry in 22s.`
	)
	reset := time.Date(2026, time.December, 1, 8, 0, 0, 0, time.UTC) // midnight in California
	keyInvalid := `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}`
	return []errorRow{
		{"400 bad key", 400, shapeC(400, invalid, "API key not valid. Please pass a valid API key.", keyInvalid), failure.Auth, "auth", &more{code: "API_KEY_INVALID"}},
		{"400 expired key", 400, shapeC(400, invalid, "API key expired. Please renew the API key."), failure.Auth, "auth", nil},
		{"400 context", 400, shapeC(400, invalid, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."), failure.Context, "context_too_long", nil},
		{"400 other", 400, shapeC(400, invalid, "Invalid JSON payload received."), failure.Invalid, "invalid_input", &more{code: invalid}},
		{"400 location", 400, shapeC(400, "FAILED_PRECONDITION", "User location is not supported for the API use."), failure.Region, "region_refused", nil},
		{"400 country", 400, shapeC(400, "FAILED_PRECONDITION", "not available in your country"), failure.Region, "region_refused", nil},
		{"400 publisher model", 400, shapeC(400, "FAILED_PRECONDITION", "Publisher Model `x` is not servable in region us-central1."), failure.Model, "model_unavailable", nil},
		{"400 publisher model not allowed", 400, shapeC(400, "FAILED_PRECONDITION", "Publisher Model x is not allowed here"), failure.Model, "model_unavailable", nil},
		{"400 other precondition", 400, shapeC(400, "FAILED_PRECONDITION", "x"), failure.Invalid, "invalid_input", nil},
		{"401", 401, shapeC(401, "UNAUTHENTICATED", "Request had invalid authentication credentials."), failure.Auth, "auth", nil},
		{"401 whatever its text", 401, shapeC(401, "UNAUTHENTICATED", "models/x requires billing, limit: 0"), failure.Auth, "auth", nil},
		{"403", 403, shapeC(403, "PERMISSION_DENIED", "The caller does not have permission"), failure.Auth, "auth", nil},
		{"403 model", 403, shapeC(403, "PERMISSION_DENIED", "You do not have permission to access models/gemini-4-neon"), failure.Model, "model_unavailable", nil},
		{"403 billing", 403, shapeC(403, "PERMISSION_DENIED", "This API method requires billing to be enabled."), failure.Quota, "quota_exhausted", nil},
		{"402", 402, shapeC(402, exhausted, "Your prepayment credits are depleted."), failure.Quota, "quota_exhausted", nil},
		{"402 in words", 402, `{"error":{"code":"payment_required","message":"x"}}`, failure.Quota, "quota_exhausted", nil},
		{"404", 404, shapeC(404, "NOT_FOUND", "models/gemini-1 is not found for API version v1beta"), failure.Model, "model_unavailable", nil},
		{"404 retired", 404, shapeC(404, "NOT_FOUND", "This model is no longer available."), failure.Model, "model_unavailable", nil},
		{"404 of no API", 404, `<html>Error 404</html>`, failure.Auth, "model_unavailable", nil},
		// Case 9: a minute's limit is back after the delay, a day's only when the day is over.
		{"429 per minute", 429, shapeC(429, exhausted, "You exceeded your current quota", violations(perMinute), retryInfo("30s")), failure.Rate, "provider_429", &more{wait: 30 * time.Second}},
		{"429 per day", 429, shapeC(429, exhausted, "You exceeded your current quota", violations(perDay), retryInfo("22s")), failure.Daily, "provider_429", &more{wait: 20 * time.Hour, resume: reset}},
		{"429 per minute and per day", 429, shapeC(429, exhausted, "x", violations(perMinute, perDay), retryInfo("8s")), failure.Daily, "provider_429", &more{wait: 20 * time.Hour, resume: reset}},
		{"429 per day, in two details", 429, shapeC(429, exhausted, "x", violations(perMinute), violations(perDay)), failure.Daily, "provider_429", &more{wait: 20 * time.Hour}},
		{"429 nothing allowed", 429, shapeC(429, exhausted, nothing, violations(perMinute, perDay), retryInfo("22s")), failure.Quota, "quota_exhausted", &more{
			wait: 22 * time.Second, scope: failure.ScopeModel,
		}},
		{"429 a limit that only begins with a zero", 429, shapeC(429, exhausted, "limit: 0.5 per second", violations(perMinute)), failure.Rate, "provider_429", nil},
		{"429 spending cap", 429, shapeC(429, exhausted, "Your project has exceeded its monthly spending cap."), failure.Quota, "quota_exhausted", nil},
		{"429 prepayment", 429, shapeC(429, exhausted, "Your prepayment credits are depleted."), failure.Quota, "quota_exhausted", nil},
		{"429 Vertex", 429, shapeC(429, exhausted, "Resource exhausted. Please try again later."), failure.Rate, "provider_429", nil},
		{"429 in a list", 429, "[" + shapeC(429, exhausted, "x", violations(perMinute), retryInfo("1.5s")) + "\n]", failure.Rate, "provider_429", &more{wait: 1500 * time.Millisecond}},
		{"499", 499, shapeC(499, "CANCELLED", "The operation was cancelled."), failure.Cancelled, "cancelled", nil},
		{"500", 500, shapeC(500, "INTERNAL", "An internal error has occurred."), failure.Transient, "provider_500", &more{retries: 2}},
		{"500 whatever its text", 500, shapeC(500, "INTERNAL", "input token count exceeds; limit: 0"), failure.Transient, "provider_500", &more{retries: 2}},
		{"502", 502, `<html>`, failure.Transient, "provider_502", nil},
		{"503", 503, shapeC(503, "UNAVAILABLE", "The model is overloaded. Please try again later."), failure.Overloaded, "provider_503", nil},
		{"504", 504, shapeC(504, "DEADLINE_EXCEEDED", "x"), failure.Unsure, "provider_timeout", nil},
		{"redirect", 302, ``, failure.Auth, "network", nil},
		{"unknown 4xx", 418, ``, failure.Invalid, "invalid_input", nil},
		{"unknown 4xx that may be retried", 425, ``, failure.Transient, "provider_500", &more{header: header("X-Should-Retry: true")}},

		{"SSE 503", 200, shapeC(503, "UNAVAILABLE", "x"), failure.Overloaded, "provider_503", nil},
		{"SSE per day", 200, shapeC(429, exhausted, "x", violations(perDay)), failure.Daily, "provider_429", &more{wait: 20 * time.Hour}},
		{"SSE 500", 200, shapeC(500, "INTERNAL", "x"), failure.Transient, "provider_500", &more{retries: 2}},
		{"SSE interaction, overloaded", 200, `{"event_type":"error","error":{"code":"unavailable","message":"x"}}`, failure.Overloaded, "provider_503", nil},
		{"SSE interaction, late", 200, `{"event_type":"error","error":{"code":"deadline_exceeded","message":"x"}}`, failure.Unsure, "provider_timeout", nil},
		{"SSE interaction, rate", 200, `{"event_type":"error","error":{"code":"rate_limit_exceeded","message":"x"}}`, failure.Rate, "provider_429", nil},
		{"SSE interaction, invalid", 200, `{"event_type":"error","error":{"code":"invalid_request","message":"x"}}`, failure.Invalid, "invalid_input", nil},
		{"SSE interaction, unknown", 200, `{"event_type":"error","error":{"code":"odd","message":"x"}}`, failure.Transient, "provider_500", nil},
		{"SSE candidates", 200, `{"candidates":[{"content":{"parts":[{"text":"error"}]}}]}`, failure.None, "", nil},
	}
}
