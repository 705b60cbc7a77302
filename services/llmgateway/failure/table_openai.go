package failure

// openAIEnds are the finish reasons of chat completions, the statuses and reasons of the Responses API, and those of servers
// that are like them.
func openAIEnds() []rule {
	return []rule{
		{finish: one("length", "max_output_tokens", "model_length"), class: Truncated, atFault: true},
		{finish: one("content_filter"), class: Content, atFault: true},
		{finish: one("insufficient_system_resource"), class: Overloaded}, // DeepSeek
		{finish: one("error", "failed"), class: Transient},               // the provider's own failure, with nothing said of it
	}
}

// openAIErrors are the errors of OpenAI, Azure OpenAI and the compatible servers.
func openAIErrors() []rule {
	return []rule{
		// Exact codes. They beat types: a code says more.
		{on: not5xx, code: one("context_length_exceeded"), class: Context},
		{on: is(413), code: one("rate_limit_exceeded"), class: Context}, // Groq: more than a minute's tokens
		{on: not5xx, code: one("rate_limit_exceeded"), text: neverFits, class: Context},
		{on: not5xx, code: one("project_spend_limit_exceeded"), class: Quota, scope: ScopeProject},
		{on: not5xx, code: one(
			"insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded",
			"organization_usage_limit_exceeded", "blocked_api_access",
		), class: Quota},
		{on: not5xx, code: one("rate_limit_exceeded", "slow_down"), class: Rate},
		{on: not5xx, code: one(
			"content_filter", "content_policy_violation", "invalid_prompt", "bio_policy", "image_content_policy_violation",
		), class: Content},
		{on: not5xx, code: one(
			"model_not_found", "DeploymentNotFound", "ServiceModelDeprecating", "unknown_model", "invalid_model",
			"model_decommissioned",
		), class: Model},
		{on: not5xx, code: one("OperationNotSupported"), class: Invalid},
		{on: not5xx, code: one("unsupported_country_region_territory"), class: Region},
		{on: not5xx, code: one("invalid_api_key", "organization_restricted"), class: Auth},
		{code: one("server_is_overloaded", "capacity_exceeded"), class: Overloaded},
		{on: is(200), code: one("request_timeout"), class: Unsure},
		{on: is(200), code: one("server_error", "vector_store_timeout"), class: Transient},
		{on: is(200), code: one("failed_to_download_image"), class: Transient, retries: 1},
		{on: is(200), codeLike: endsIn("_policy"), class: Content},
		{on: is(200), codeLike: begins("image_", "invalid_", "data_residency_mismatch"), class: Invalid},

		// Exact types.
		{on: is(200, 400, 402, 429), kind: one("insufficient_quota"), class: Quota},
		{on: is(200, 429), kind: one("requests", "tokens"), text: neverFits, class: Context},
		{on: is(200, 429), kind: one("requests", "tokens", "rate_limit_error"), class: Rate},
		{on: is(200, 503), kind: one("service_unavailable_error"), class: Overloaded},
		{on: is(400, 404), kind: one("invalid_model", "model_not_found", "NotFoundError"), class: Model},
		{on: is(200), kind: one("invalid_request_error"), class: Invalid},

		// Phrases, only where a provider has no code for it. Never for a 5xx; for 401 and 403 only by name.
		{on: is(400, 422), phrase: one(
			"maximum context length is", "cannot be greater than max_model_len", "max_tokens must be at least 1, got -",
		), class: Context}, // vLLM, SGLang
		{on: is(429), phrase: one("account is not active"), class: Quota},
		{on: is(403), when: shaped(shapeFlat), phrase: one("blocked by guardrail"), class: Content}, // Mistral
		{on: is(402), when: shaped(shapeStatus), phrase: one("openrouter_in_flight_budget"), class: Rate},
		{on: is(403), when: shaped(shapeStatus), phrase: one("key limit exceeded"), class: Quota, scope: ScopeKey},
		{on: is(403), when: shaped(shapeStatus), phrase: one("budget"), class: Quota},
		{on: is(403), when: shaped(shapeStatus), phrase: one("moderation"), class: Content},
		{on: is(404), when: shaped(shapeStatus), phrase: one("no endpoints found"), class: Model},
		{on: is(404), when: shaped(shapeText), phrase: one("not found"), class: Model},
		{on: is(404), phrase: one("try pulling it first"), class: Model}, // Ollama

		// HTTP statuses.
		{on: is(200), class: Transient},                            // an error that we know nothing of
		{on: within(300, 399), class: Auth, reason: ReasonNetwork}, // the address is not the API's
		{on: is(401, 403), class: Auth},
		{on: is(402), class: Quota},
		{on: is(404), when: namesParam, class: Invalid},
		{on: is(404), class: Auth, reason: ReasonUnavailable}, // no such path: the address is wrong
		{on: is(408, 409), class: Transient},
		{on: is(410), class: Model},
		{on: is(429), class: Rate},
		{on: is(498, 503, 529), class: Overloaded},
		{on: within(400, 499), when: saysRetry, class: Transient},
		{on: within(400, 499), class: Invalid},
		{class: Transient},
	}
}
