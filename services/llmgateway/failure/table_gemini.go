package failure

// geminiEnds are the finish reasons of candidates. The reasons why a prompt was blocked go by FinishBlocked. All are paid.
func geminiEnds() []rule {
	return []rule{
		{finish: one("MAX_TOKENS"), class: Truncated, atFault: true},
		{finish: one("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"), class: Content, atFault: true},
		{finishLike: begins("IMAGE_"), class: Content, atFault: true},
		{finish: one("LANGUAGE", "OTHER", "NO_IMAGE"), class: Invalid, atFault: true},
		// The model's own faults: the step asks once more, and the gateway does not.
		{finish: one("MALFORMED_FUNCTION_CALL"), class: Transient, reason: ReasonNotJSON, atFault: true, retries: 1},
		{
			finish: one("UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"),
			class:  Transient, reason: ReasonMismatch, atFault: true, retries: 1,
		},
		{finish: one(FinishEmpty), class: Transient, reason: ReasonEmpty, atFault: true, retries: 1},
	}
}

// geminiErrors are the errors of the Gemini API and Vertex AI. The Interactions API has words where they have numbers.
func geminiErrors() []rule {
	return []rule{
		// Exact codes: the reasons of the details, and the words of the Interactions API.
		{on: not5xx, code: one("API_KEY_INVALID"), class: Auth},
		{on: is(200, 402), code: one("payment_required"), class: Quota},
		{on: is(200), code: one("unavailable", "overloaded"), class: Overloaded},
		{on: is(200), code: one("deadline_exceeded", "request_timeout"), class: Unsure},

		// Exact statuses. Of these, FAILED_PRECONDITION and PERMISSION_DENIED stand for several things.
		{on: is(400), kind: one("FAILED_PRECONDITION"), phrase: one("publisher model"), class: Model},
		{on: is(400), kind: one("FAILED_PRECONDITION"), phrase: one("location", "country"), class: Region},
		{on: is(403), kind: one("PERMISSION_DENIED"), phrase: one("requires billing"), class: Quota},
		{on: is(403), kind: one("PERMISSION_DENIED"), phrase: one("models/"), class: Model},

		// Phrases and details.
		{on: is(400), phrase: one("api key expired", "api key not valid"), class: Auth},
		{on: is(400), phrase: one("input token count"), class: Context},
		// Quotas of nothing come with ids and delays as if they would ever be free.
		{on: is(200, 429), text: noAllowance, class: Quota, scope: ScopeModel},
		{on: is(429), phrase: one("spending cap", "prepayment credits"), class: Quota},
		// The delay of a few seconds that comes with a day's quota is wrong.
		{on: is(429), text: quotaOf("PerDay"), class: Daily, until: nextPacificDay},
		{on: is(429), text: quotaOf("PerMinute"), class: Rate},

		// HTTP statuses.
		{on: is(200), when: saysKind("RESOURCE_EXHAUSTED", "resource_exhausted", "rate_limit_exceeded"), class: Rate},
		{on: is(200), when: saysKind("INVALID_ARGUMENT", "invalid_argument", "invalid_request"), class: Invalid},
		{on: is(200), class: Transient},
		{on: within(300, 399), class: Auth, reason: ReasonNetwork}, // the address is not the API's
		{on: is(401, 403), class: Auth},
		{on: is(402), class: Quota},
		{on: is(404), when: shaped(shapeNone), class: Auth, reason: ReasonUnavailable}, // no such path: the address is wrong
		{on: is(404), class: Model},
		{on: is(408, 409), class: Transient},
		{on: is(429), class: Rate},
		{on: is(499), class: Cancelled},
		{on: is(500), class: Transient, retries: 2}, // now and then it means a context that is too large
		{on: is(503), class: Overloaded},
		{on: is(504), class: Unsure},
		{on: within(400, 499), when: saysRetry, class: Transient},
		{on: within(400, 499), class: Invalid},
		{class: Transient},
	}
}

// saysKind: the word stands where either API has it.
func saysKind(words ...string) func(said) bool {
	return func(s said) bool {
		for _, word := range words {
			if s.kind == word || s.code == word {
				return true
			}
		}
		return false
	}
}
