// Package failure knows what it means when a provider's answer is not the answer that was asked for: its class, a stable
// reason code, and the wait that the provider asked for.
//
// All knowledge about providers' errors stands in one table (table.go), with a part for each dialect. It is consulted in a
// fixed order: exact code, exact type, a narrow phrase of the message, HTTP status. Texts decide only where the table says
// so: providers write "quota" when they mean a rate, and echo what they were sent. Whatever is said with it, a 5xx never is
// permanent, and a 401 or 403 is a matter of the key unless a row names it. The package is pure.
package failure

import (
	"net/http"
	"strconv"
)

// Class says what may be done about a failure.
type Class uint8

// The classes. The words in capitals are those of the providers' error map.
const (
	// None: it is no failure.
	None Class = iota
	// Transient (TRANS): the same target may be tried again with backoff.
	Transient
	// Rate (RATE): we ask too fast; wait, and ask more slowly.
	Rate
	// Overloaded (OVER): the provider is out of capacity; that is not a limit of ours.
	Overloaded
	// Daily (DAILY): a limit whose window is hours long.
	Daily
	// Unsure (UNSURE): the request was sent and no whole answer came, so it may be charged.
	Unsure
	// Quota (QUOTA): the account's money or credit is used up.
	Quota
	// Auth (AUTH): the key, its permissions or the address are wrong; somebody must act.
	Auth
	// Invalid (INVALID): the request itself is wrong.
	Invalid
	// Context (CTX): the request is longer than the model takes.
	Context
	// Content (CONTENT): refused by the provider's policy.
	Content
	// Model (MODEL): the model does not exist, is retired, or is not open to us.
	Model
	// Region (REGION): the provider does not serve this region.
	Region
	// Truncated (TRUNC): the answer was cut off by a token limit.
	Truncated
	// Cancelled (CANCEL): we ended the request ourselves.
	Cancelled
)

// String returns the word of the providers' error map.
func (c Class) String() string {
	words := [...]string{
		"NONE", "TRANS", "RATE", "OVER", "DAILY", "UNSURE", "QUOTA", "AUTH", "INVALID", "CTX", "CONTENT", "MODEL",
		"REGION", "TRUNC", "CANCEL",
	}
	if int(c) < len(words) {
		return words[c]
	}
	return "CLASS(" + strconv.Itoa(int(c)) + ")"
}

// Passing reports whether the failure may pass by itself, so that a later try of the same target may succeed.
func (c Class) Passing() bool {
	switch c {
	case Transient, Rate, Overloaded, Daily:
		return true
	default:
		return false
	}
}

// MovesOn reports whether the next target of a route may be tried at once, however often this one has failed.
func (c Class) MovesOn() bool {
	switch c {
	case Quota, Context, Model, Region:
		return true
	default:
		return false
	}
}

// Parks reports whether a wait that the provider stated spends no attempt.
func (c Class) Parks() bool { return c == Rate || c == Daily || c == Overloaded }

// Reason codes. They are those of pipeline steps, which show them to people.
const (
	ReasonTimeout     = "provider_timeout"
	ReasonRate        = "provider_429"
	ReasonNetwork     = "network"
	ReasonAmbiguous   = "call_ambiguous"
	ReasonCancelled   = "cancelled"
	ReasonEmpty       = "answer_empty"
	ReasonTooLong     = "answer_too_long"
	ReasonNotJSON     = "json_validation_error"
	ReasonMismatch    = "schema_mismatch"
	ReasonTruncated   = "truncated"
	ReasonUnavailable = "model_unavailable"
	ReasonAuth        = "auth"
	ReasonQuota       = "quota_exhausted"
	ReasonContext     = "context_too_long"
	ReasonBreaker     = "breaker_open"
	ReasonDeadline    = "deadline_exceeded"
	ReasonBudget      = "budget_exceeded"
	ReasonInput       = "invalid_input"
)

// reasonOf gives the code that follows from class and HTTP status where the table names none.
func reasonOf(class Class, status int) string {
	switch class {
	case None:
		return ""
	case Rate, Daily:
		return ReasonRate
	case Overloaded:
		return overloadReason(status)
	case Unsure:
		return ReasonTimeout
	case Quota:
		return ReasonQuota
	case Auth:
		return ReasonAuth
	case Invalid:
		return ReasonInput
	case Context:
		return ReasonContext
	case Content:
		return "content_refused"
	case Model:
		return ReasonUnavailable
	case Region:
		return "region_refused"
	case Truncated:
		return ReasonTruncated
	case Cancelled:
		return ReasonCancelled
	case Transient:
		return transientReason(status)
	}
	return transientReason(status)
}

func overloadReason(status int) string {
	const overloaded = 529 // Anthropic's own
	if status == overloaded {
		return "provider_529"
	}
	return "provider_503"
}

// transientReason folds the statuses into the few codes that people can tell apart: the front said that its server is
// unreachable, nobody answered in time, or the provider had an error of its own.
func transientReason(status int) string {
	switch {
	case status == http.StatusRequestTimeout:
		return ReasonTimeout
	case status == http.StatusBadGateway, status == http.StatusGatewayTimeout, status >= 520 && status <= 527:
		return "provider_502"
	case status == http.StatusServiceUnavailable:
		return "provider_503"
	default:
		return "provider_500"
	}
}
