package failure

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Dialect is the family of a provider's errors. Rows of the table belong to one or several.
type Dialect uint8

// The dialects.
const (
	// OpenAI is spoken by OpenAI, Azure OpenAI, and everything that calls itself compatible.
	OpenAI Dialect = 1 << iota
)

// The words that stand for the end of an answer that has no finish reason of its own.
const (
	// FinishRefusal: the model declined in so many words.
	FinishRefusal = "(refusal)"
	// FinishEmpty: the answer has no content.
	FinishEmpty = "(empty)"
	// FinishUnreadable: the answer is not what the provider's format promises.
	FinishUnreadable = "(unreadable)"
	// FinishTooLong: the answer was longer than we read.
	FinishTooLong = "(too long)"
)

// rule is a row of the table: it applies when everything it names holds.
type rule struct {
	of Dialect
	// on is the HTTP status; nil for any.
	on func(status int) bool
	// finish, code, kind and phrase each need one of their words. Phrases are lower case and are looked for in the message
	// and the details; the others are exact.
	finish, code, kind, phrase []string
	// when is a further condition.
	when func(s said) bool

	class Class
	// reason overrides the code that follows from class and status.
	reason string
	// atFault marks an answer that came and is of no use.
	atFault bool
}

// table is all that is known about providers' errors. The first rule that applies decides, so within a stage (finish, code,
// kind, phrase, status) the narrower rule stands first.
func table() []rule {
	return []rule{
		// How the model ended, in an answer with status 200.
		{of: OpenAI, finish: one("length", "max_output_tokens"), class: Truncated, atFault: true},
		{of: OpenAI, finish: one("content_filter", FinishRefusal), class: Content, atFault: true},
		{of: OpenAI, finish: one("insufficient_system_resource"), class: Overloaded}, // DeepSeek
		{of: OpenAI, finish: one(FinishEmpty), class: Transient, reason: ReasonEmpty, atFault: true},
		{of: OpenAI, finish: one(FinishUnreadable), class: Transient, reason: ReasonNotJSON},
		{of: OpenAI, finish: one(FinishTooLong), class: Invalid, reason: ReasonTooLong, atFault: true},

		// Exact codes. They beat types: a code says more.
		{of: OpenAI, on: not5xx, code: one("context_length_exceeded"), class: Context},
		{of: OpenAI, on: is(413), code: one("rate_limit_exceeded"), class: Context}, // Groq: more than a minute's tokens
		{of: OpenAI, on: not5xx, code: one("rate_limit_exceeded"), when: neverFits, class: Context},
		{of: OpenAI, on: not5xx, code: one(
			"insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded",
			"project_spend_limit_exceeded", "organization_usage_limit_exceeded", "blocked_api_access",
		), class: Quota},
		{of: OpenAI, on: not5xx, code: one("rate_limit_exceeded", "slow_down"), class: Rate},
		{of: OpenAI, on: not5xx, code: one(
			"content_filter", "content_policy_violation", "invalid_prompt", "bio_policy", "image_content_policy_violation",
		), class: Content},
		{of: OpenAI, on: not5xx, code: one(
			"model_not_found", "DeploymentNotFound", "ServiceModelDeprecating", "unknown_model", "invalid_model",
			"model_decommissioned",
		), class: Model},
		{of: OpenAI, on: not5xx, code: one("OperationNotSupported"), class: Invalid},
		{of: OpenAI, on: not5xx, code: one("unsupported_country_region_territory"), class: Region},
		{of: OpenAI, on: not5xx, code: one("invalid_api_key", "organization_restricted"), class: Auth},
		{of: OpenAI, code: one("server_is_overloaded", "capacity_exceeded"), class: Overloaded},
		{of: OpenAI, on: is(200), code: one("request_timeout"), class: Unsure},
		{of: OpenAI, on: is(200), code: one("server_error", "vector_store_timeout", "failed_to_download_image"), class: Transient},
		{of: OpenAI, on: is(200), when: codeEndsIn("_policy"), class: Content},
		{of: OpenAI, on: is(200), when: codeBegins("image_", "invalid_", "data_residency_mismatch"), class: Invalid},

		// Exact types.
		{of: OpenAI, on: not5xx, kind: one("insufficient_quota"), class: Quota},
		{of: OpenAI, on: is(200, 429), kind: one("requests", "tokens"), when: neverFits, class: Context},
		{of: OpenAI, on: is(200, 429), kind: one("requests", "tokens", "rate_limit_error"), class: Rate},
		{of: OpenAI, on: is(200, 503), kind: one("service_unavailable_error"), class: Overloaded},
		{of: OpenAI, on: is(400, 404), kind: one("invalid_model", "model_not_found", "NotFoundError"), class: Model},
		{of: OpenAI, on: is(200), kind: one("invalid_request_error"), class: Invalid},

		// Phrases, only where a provider has no code for it. Never for a 5xx; for 401 and 403 only by name.
		{of: OpenAI, on: is(400, 422), phrase: one(
			"maximum context length is", "cannot be greater than max_model_len", "max_tokens must be at least 1, got -",
		), class: Context}, // vLLM, SGLang
		{of: OpenAI, on: is(429), phrase: one("account is not active"), class: Quota},
		{of: OpenAI, on: is(403), when: shaped(shapeFlat), phrase: one("blocked by guardrail"), class: Content}, // Mistral
		{of: OpenAI, on: is(402), when: shaped(shapeStatus), phrase: one("openrouter_in_flight_budget"), class: Rate},
		{of: OpenAI, on: is(403), when: shaped(shapeStatus), phrase: one("key limit exceeded", "budget"), class: Quota},
		{of: OpenAI, on: is(403), when: shaped(shapeStatus), phrase: one("moderation"), class: Content},
		{of: OpenAI, on: is(404), when: shaped(shapeStatus), phrase: one("no endpoints found"), class: Model},
		{of: OpenAI, on: is(404), when: shaped(shapeText), phrase: one("not found"), class: Model},
		{of: OpenAI, on: is(404), phrase: one("try pulling it first"), class: Model}, // Ollama

		// HTTP statuses.
		{of: OpenAI, on: is(200), class: Transient},                            // an error that we know nothing of
		{of: OpenAI, on: within(300, 399), class: Auth, reason: ReasonNetwork}, // the address is not the API's
		{of: OpenAI, on: is(401, 403), class: Auth},
		{of: OpenAI, on: is(402), class: Quota},
		{of: OpenAI, on: is(404), when: namesParam, class: Invalid},
		{of: OpenAI, on: is(404), class: Auth, reason: ReasonUnavailable}, // no such path: the address is wrong
		{of: OpenAI, on: is(408, 409), class: Transient},
		{of: OpenAI, on: is(410), class: Model},
		{of: OpenAI, on: is(429), class: Rate},
		{of: OpenAI, on: is(498, 503, 529), class: Overloaded},
		{of: OpenAI, on: within(400, 499), class: Invalid},
		{of: OpenAI, class: Transient},
	}
}

// applies reports whether everything that the rule names holds.
func (r rule) applies(d Dialect, s said) bool {
	return r.of&d != 0 &&
		(r.on == nil || r.on(s.status)) &&
		(r.finish == nil && s.finish == "" || slices.Contains(r.finish, s.finish)) &&
		(r.code == nil || slices.Contains(r.code, s.code)) &&
		(r.kind == nil || slices.Contains(r.kind, s.kind)) &&
		(r.phrase == nil || s.mentions(r.phrase)) &&
		(r.when == nil || r.when(s))
}

func (s said) mentions(phrases []string) bool {
	text := strings.ToLower(s.message + "\n" + s.details)
	return slices.ContainsFunc(phrases, func(phrase string) bool { return strings.Contains(text, phrase) })
}

func one(words ...string) []string { return words }

func is(statuses ...int) func(int) bool {
	return func(status int) bool { return slices.Contains(statuses, status) }
}

func within(least, most int) func(int) bool {
	return func(status int) bool { return status >= least && status <= most }
}

// not5xx keeps a server's own failure what it is, whatever code comes with it.
func not5xx(status int) bool { return status < 500 }

func shaped(want shape) func(said) bool {
	return func(s said) bool { return s.shape == want }
}

func codeBegins(prefixes ...string) func(said) bool {
	return func(s said) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s.code, p) })
	}
}

func codeEndsIn(suffix string) func(said) bool {
	return func(s said) bool { return strings.HasSuffix(s.code, suffix) }
}

// namesParam: the request names something else than the model that does not exist.
func namesParam(s said) bool { return s.param != "" && s.param != "model" }

// neverFits reports whether the message says that one request asks for more than a whole window allows: waiting is in vain.
func neverFits(s said) bool {
	amounts := regexp.MustCompile(`(?i)limit:? ([0-9]+)[^0-9].*requested:? ([0-9]+)`).FindStringSubmatch(s.message)
	if amounts == nil {
		return false
	}
	limit, err1 := strconv.ParseInt(amounts[1], 10, 64)
	requested, err2 := strconv.ParseInt(amounts[2], 10, 64)
	return err1 == nil && err2 == nil && requested > limit
}
