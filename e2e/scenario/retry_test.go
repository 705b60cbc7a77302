package scenario

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// retried asks once, and once more after each transient failure: after 1 s and then after 2 s at least, each lengthened by up
// to a half.
const retried = `
name: retried_%[1]d
version: v1
steps:
  - name: ask
    llm: {route: account-%[1]d, prompt: "Question ${input.case}"}
    llm_timeout: 5s
    retry: {max_attempts: 3, initial: 1s, factor: 2, jitter: 0.5}
`

// trial is what a provider does to a question, and what must come of it.
type trial struct {
	faults []simulated.Fault
	// reason is why the run fails; empty if it is done.
	reason string
	// requests is how many the provider gets.
	requests int
	// waits are the least times between them; what is not named is 0.
	waits []time.Duration
	// attempts is how many the step has used; 0 if that does not matter.
	attempts int
}

// always is a fault that hits every request; times one that hits the first n.
func always(kind, argument string) []simulated.Fault { return times(0, kind, argument) }

func times(n int, kind, argument string) []simulated.Fault {
	return []simulated.Fault{{Kind: kind, Argument: argument, Count: n}}
}

// refusal is an error of the OpenAI form.
func refusal(status int, kind, code string) []simulated.Fault {
	body := fmt.Sprintf(`{"error":{"message":"no","type":%q,"code":%q}}`, kind, code)
	return []simulated.Fault{{Kind: "reply", Reply: &simulated.Reply{Status: status, Body: body}}}
}

// permanent are the failures that no repetition would cure: exactly one request is sent.
func permanent() map[string]trial {
	trials := map[string]trial{
		"400":                {faults: always("400", ""), reason: "invalid_input"},
		"401":                {faults: always("echo_key", ""), reason: "auth"},
		"402":                {faults: always("402", ""), reason: "quota_exhausted"},
		"403":                {faults: always("403", ""), reason: "auth"},
		"404":                {faults: always("404", ""), reason: "model_unavailable"},
		"410":                {faults: always("410", ""), reason: "model_unavailable"},
		"413":                {faults: always("413", ""), reason: "invalid_input"},
		"415":                {faults: always("415", ""), reason: "invalid_input"},
		"422":                {faults: always("422", ""), reason: "invalid_input"},
		"418":                {faults: always("418", ""), reason: "invalid_input"},
		"quota":              {faults: always("quota", ""), reason: "quota_exhausted"},
		"spend limit":        {faults: refusal(429, "requests", "project_spend_limit_exceeded"), reason: "quota_exhausted"},
		"context length":     {faults: always("context_length", ""), reason: "context_too_long"},
		"content filter":     {faults: always("content_filter", ""), reason: "content_refused"},
		"content policy":     {faults: refusal(400, "invalid_request_error", "content_policy_violation"), reason: "content_refused"},
		"refusal":            {faults: always("refusal", ""), reason: "content_refused"},
		"truncated":          {faults: always("truncated", ""), reason: "truncated"},
		"unknown model":      {faults: refusal(404, "invalid_request_error", "model_not_found"), reason: "model_unavailable"},
		"region":             {faults: refusal(403, "request_forbidden", "unsupported_country_region_territory"), reason: "region_refused"},
		"wait past deadline": {faults: always("429", "2h"), reason: "deadline_exceeded"},
	}
	for name, one := range trials {
		one.requests, one.attempts = 1, 1
		trials[name] = one
	}
	return trials
}

// transient are the failures that may pass: they are tried again with growing waits, and never for ever.
func transient() map[string]trial {
	backoff := []time.Duration{time.Second, 2 * time.Second}
	trials := map[string]trial{}
	for kind, reason := range map[string]string{
		"408": "provider_timeout", "409": "provider_500", "429": "provider_429", "500": "provider_500", "502": "provider_502",
		"503": "provider_503", "504": "provider_502", "520": "provider_502", "529": "provider_529", "599": "provider_500",
		"error_in_200": "provider_500", "not_json": "json_validation_error", "unfinished": "json_validation_error",
		"empty": "answer_empty",
	} {
		trials[kind+" for ever"] = trial{faults: always(kind, ""), reason: reason, requests: 3, waits: backoff, attempts: 3}
		trials[kind+" twice"] = trial{faults: times(2, kind, ""), requests: 3, waits: backoff, attempts: 3}
	}
	return trials
}

// unsure are the failures that leave it open whether the answer was charged: one more request, and no third.
func unsure() map[string]trial {
	return map[string]trial{
		"cut for ever":      {faults: always("cut", ""), reason: "call_ambiguous", requests: 2},
		"cut once":          {faults: times(1, "cut", ""), requests: 2},
		"cut body for ever": {faults: always("cut_body", ""), reason: "call_ambiguous", requests: 2},
		"hang for ever":     {faults: always("hang", ""), reason: "call_ambiguous", requests: 2, waits: []time.Duration{time.Second}},
		"keep alive only":   {faults: always("keep_alive", "500ms"), reason: "call_ambiguous", requests: 2, waits: []time.Duration{time.Second}},
	}
}

// stated are refusals that say when to come back: that is waited for and never cut short, and costs no attempt.
func stated() map[string]trial {
	both := append(times(1, "429", "1s"), times(1, "429", "4s")...)
	mixed := append(times(1, "503", ""), append(times(1, "503", "3s"), times(1, "529", "2s")...)...)
	return map[string]trial{
		"wait 3 s":             {faults: times(1, "429", "3s"), requests: 2, waits: []time.Duration{3 * time.Second}, attempts: 1},
		"wait 1 s, then 4 s":   {faults: both, requests: 3, waits: []time.Duration{time.Second, 4 * time.Second}, attempts: 1},
		"none, 3 s, then 2 s":  {faults: mixed, requests: 4, waits: []time.Duration{time.Second, 3 * time.Second, 2 * time.Second}, attempts: 2},
		"wait 1 s for ever":    {faults: always("429", "1s"), reason: "provider_429", requests: 8, waits: slices.Repeat([]time.Duration{time.Second}, 7)},
		"overloaded, 2 s":      {faults: times(1, "529", "2s"), requests: 2, waits: []time.Duration{2 * time.Second}, attempts: 1},
		"a wait that is a NaN": {faults: []simulated.Fault{oddWait("NaN")}, requests: 2, waits: []time.Duration{time.Second}, attempts: 2},
		"a wait below zero":    {faults: []simulated.Fault{oddWait("-7")}, requests: 2, waits: []time.Duration{time.Second}, attempts: 2},
	}
}

// oddWait is one 429 with a Retry-After that says nothing.
func oddWait(after string) simulated.Fault {
	return simulated.Fault{Kind: "reply", Count: 1, Reply: &simulated.Reply{
		Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": after},
		Body: `{"error":{"message":"slow","type":"requests","code":"rate_limit_exceeded"}}`,
	}}
}

// accounts is a models file with so many accounts of one provider, each with a route of its own: what one account is refused
// stops that account, and no other.
func accounts(p *harness.Provider, n int) string {
	var providers, routes, prices strings.Builder
	for i := range n {
		fmt.Fprintf(&providers, "  - {name: account-%d, kind: openai, base_url: %s/v1, api_key_env: PAWL_E2E_KEY}\n", i, p.URL)
		fmt.Fprintf(&routes, "  account-%[1]d: [{provider: account-%[1]d, model: sim-small}]\n", i)
		fmt.Fprintf(&prices, "  - {provider: account-%d, model: sim-small, from: 2026-01-01, input: \"0.50\", output: \"2.00\"}\n", i)
	}
	return "providers:\n" + providers.String() + "routes:\n" + routes.String() + "prices:\n" + prices.String()
}

// TestI07_OnlyTransientFailuresAreRetried lets a provider fail in all the ways that it can, each against a run of its own with
// an account of its own, and counts and times what is sent.
func TestI07_OnlyTransientFailuresAreRetried(t *testing.T) {
	trials := map[string]trial{}
	for sort, some := range map[string]map[string]trial{
		"permanent": permanent(), "transient": transient(), "unsure": unsure(), "stated": stated(),
	} {
		for name, one := range some {
			trials["["+sort+": "+name+"]"] = one
		}
	}
	p := harness.StartProvider(t)
	s := harness.Start(t, harness.Config{Models: accounts(p, len(trials)), Expected: []string{"provider refuses our key or address"}})
	names := slices.Sorted(maps.Keys(trials))
	for i, name := range names {
		registerSource(t, s, fmt.Sprintf(retried, i))
		for _, fault := range trials[name].faults {
			fault.Contains = name
			p.Inject(fault)
		}
	}
	var group errgroup.Group
	runs := make([]string, len(names))
	for i, name := range names {
		group.Go(func() (err error) {
			runs[i], err = s.Submit(fmt.Sprintf("retried_%d", i), "i07 "+name, map[string]any{"case": name})
			return err
		})
	}
	require.NoError(t, group.Wait())
	for i, name := range names {
		t.Run(name, func(t *testing.T) { trials[name].requireEnd(t, s.For(t), p.For(t), runs[i]) })
	}
}

// requireEnd waits for the end of the run and fails unless it is the right one, after the right requests.
func (one trial) requireEnd(t *testing.T, s *harness.System, p *harness.Provider, id string) {
	run := s.AwaitEnd(id)
	if one.reason == "" {
		require.Equal(t, "done", run.Status, "%s: %s", run.Reason, run.Error)
	} else {
		require.Equal(t, "failed", run.Status)
		require.Equal(t, one.reason, run.Reason, run.Error)
		require.NotEmpty(t, run.Error)
	}
	sent := requestsOf(s, p, id)
	require.Len(t, sent, one.requests, "requests that the provider got")
	for i, least := range one.waits {
		requireWaited(t, sent[i], sent[i+1], least)
	}
	if one.attempts > 0 {
		require.Equal(t, one.attempts, stepNamed(t, s.Steps(id), "ask").Attempt)
	}
}

// requestsOf are the requests that the provider got for the questions of a run, oldest first.
func requestsOf(s *harness.System, p *harness.Provider, run string) []simulated.Record {
	mine := map[string]bool{}
	for _, call := range s.Calls(run) {
		mine[call.CallKey] = true
	}
	return slices.DeleteFunc(p.Report().Requests, func(r simulated.Record) bool { return !mine[r.CallKey] })
}
