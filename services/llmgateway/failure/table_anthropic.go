package failure

// anthropicEnds are the stop reasons. After pause_turn the call is to be continued; that is no failure.
func anthropicEnds() []rule {
	return []rule{
		{finish: one("max_tokens", "model_context_window_exceeded"), class: Truncated, atFault: true},
		{finish: one("refusal"), class: Content, atFault: true},
	}
}

// anthropicErrors are the errors of the Messages API. Inside a stream, whose status is 200, the type alone says what it is.
func anthropicErrors() []rule {
	return []rule{
		// Exact codes: those of the details, and those of servers that put them beside the type.
		{
			on: is(200, 429), code: one("enforced_spend_limit_reached"), when: withoutRetryAfter,
			class: Quota, until: nextMonth,
		},
		{on: is(200), code: one("request_timeout"), class: Unsure},

		// Exact types.
		{on: is(200, 429), kind: one("rate_limit_error"), class: Rate},
		{on: is(200, 503, 529), kind: one("overloaded_error"), class: Overloaded},
		{on: is(200), kind: one("api_error"), class: Transient},
		{on: is(200, 504), kind: one("timeout_error"), class: Unsure},
		{on: is(200, 400, 402, 403), kind: one("billing_error"), class: Quota},
		{on: is(200), kind: one("authentication_error", "permission_error"), class: Auth},
		{
			on: is(403), kind: one("permission_error"), phrase: one("claude-", "model:", "this model", "the model"),
			class: Model,
		},
		{on: is(200, 404), kind: one("not_found_error"), phrase: one("model:", "is not available"), class: Model},
		{on: is(200, 404), kind: one("not_found_error"), class: Invalid},
		{on: is(200, 413), kind: one("request_too_large"), class: Invalid},

		// Phrases: invalid_request_error is one type for all of these.
		{on: is(200, 400), phrase: one("prompt is too long", "exceed context limit"), class: Context},
		{on: is(200, 400), phrase: one("credit balance is too low"), class: Quota},
		{
			on: is(200, 400), phrase: one("you have reached your specified workspace api usage limits"),
			class: Quota, scope: ScopeProject, until: regained,
		},
		{on: is(200, 400), phrase: one("you have reached your specified api usage limits"), class: Quota, until: regained},

		// HTTP statuses. Inside a 200, the types that are left say that the request is wrong, or nothing that we know.
		{on: is(200), when: ofType("invalid_request_error"), class: Invalid},
		{on: is(200), class: Transient},
		{on: within(300, 399), class: Auth, reason: ReasonNetwork}, // the address is not the API's
		{on: is(401, 403), class: Auth},
		{on: is(402), class: Quota},
		{on: is(404), class: Auth, reason: ReasonUnavailable}, // no such path: the address is wrong
		{on: is(408, 409), class: Transient},
		{on: is(429), class: Rate},
		{on: is(503, 529), class: Overloaded},
		{on: is(504), class: Unsure}, // a long answer that was not streamed
		{on: within(400, 499), when: saysRetry, class: Transient},
		{on: within(400, 499), class: Invalid},
		{class: Transient},
	}
}

func ofType(kind string) func(said) bool {
	return func(s said) bool { return s.kind == kind }
}
