package failure

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rule is a row of the table: it applies when everything it names holds.
type rule struct {
	// on is the HTTP status; nil for any.
	on func(status int) bool
	// finish, code, kind and phrase each need one of their words. Phrases are lower case and are looked for in the message
	// and the details; the others are exact.
	finish, code, kind, phrase []string
	// finishLike and codeLike are conditions on these words where there are too many to be listed.
	finishLike, codeLike func(word string) bool
	// text is a condition on what the message or the details say.
	text func(s said) bool
	// when is a further condition.
	when func(s said) bool

	class Class
	// reason overrides the code that follows from class and status.
	reason string
	// atFault marks an answer that came and is of no use.
	atFault bool
	// scope says what a quota is used up for.
	scope Scope
	// retries bounds how often the same is worth trying again; 0 for no bound.
	retries int
	// until says when it will be over, where the provider's own wait does not; the zero time if the text does not say it.
	until func(s said, now time.Time) time.Time
}

// applies reports whether everything that the rule names holds.
func (r rule) applies(s said) bool {
	return (r.on == nil || r.on(s.status)) &&
		r.ends() == (s.finish != "") &&
		names(r.finish, r.finishLike, s.finish) &&
		names(r.code, r.codeLike, s.code) &&
		names(r.kind, nil, s.kind) &&
		(r.phrase == nil || s.mentions(r.phrase)) &&
		(r.text == nil || r.text(s)) &&
		(r.when == nil || r.when(s))
}

// names reports whether the word is one of those that a rule names; a rule without words asks for none.
func names(words []string, like func(string) bool, word string) bool {
	return (words == nil || slices.Contains(words, word)) && (like == nil || like(word))
}

// ends reports whether the rule is about how an answer ended, and not about an error.
func (r rule) ends() bool { return r.finish != nil || r.finishLike != nil }

// failure is what the rule makes of what was said.
func (r rule) failure(s said) Failure {
	f := Failure{
		Class: r.class, Reason: r.reason, Code: s.plainCode(), Scope: r.scope, MostRetries: r.retries, AnswerAtFault: r.atFault,
	}
	if f.Reason == "" {
		f.Reason = reasonOf(r.class, s.status)
	}
	return f
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

func begins(prefixes ...string) func(string) bool {
	return func(word string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(word, p) })
	}
}

func endsIn(suffix string) func(string) bool {
	return func(word string) bool { return strings.HasSuffix(word, suffix) }
}

// namesParam: the request names something else than the model that does not exist.
func namesParam(s said) bool { return s.param != "" && s.param != "model" }

// saysRetry: the provider says that the same request may be tried again.
func saysRetry(s said) bool { return strings.EqualFold(s.header.Get("X-Should-Retry"), "true") }

// withoutRetryAfter: the provider names no wait, although it usually does.
func withoutRetryAfter(s said) bool { return s.header.Get("Retry-After") == "" }

// quotaOf: one of the quotas that Google names is of the window, such as PerDay.
func quotaOf(window string) func(said) bool {
	return func(s said) bool {
		return slices.ContainsFunc(s.quotas, func(id string) bool { return strings.Contains(id, window) })
	}
}

var (
	limitAndRequested = regexp.MustCompile(`(?i)limit:? ([0-9]+)[^0-9].*requested:? ([0-9]+)`)
	limitOfNothing    = regexp.MustCompile(`(?i)limit: 0(?:[^0-9.]|\.(?:\s|$)|$)`)
)

// neverFits reports whether the message says that one request asks for more than a whole window allows: waiting is in vain.
func neverFits(s said) bool {
	amounts := limitAndRequested.FindStringSubmatch(s.message)
	if amounts == nil {
		return false
	}
	limit, err1 := strconv.ParseInt(amounts[1], 10, 64)
	requested, err2 := strconv.ParseInt(amounts[2], 10, 64)
	return err1 == nil && err2 == nil && requested > limit
}

// noAllowance: the account's tier allows nothing of the model.
func noAllowance(s said) bool { return limitOfNothing.MatchString(s.message) }
