package simulated

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"pawl.internal/services/internal/clock"
)

// Limits are what an account is allowed, over all formats together; 0 means no limit.
type Limits struct {
	// Concurrency is how many requests may be in flight at once.
	Concurrency int `json:"concurrency"`
	// RequestsPerMinute is how many requests may begin in any 60 seconds.
	RequestsPerMinute int `json:"requests_per_minute"`
	// TokensPerMinute is how many tokens, of prompts and answers, the requests of any 60 seconds may have. A request counts
	// with its prompt and its max_tokens until it is answered, then with what it used.
	TokensPerMinute int `json:"tokens_per_minute"`
	// InputTokensPerMinute is the same for prompts alone. What came from the cache does not count once it is known.
	InputTokensPerMinute int `json:"input_tokens_per_minute,omitempty"`
	// OutputTokensPerMinute is the same for answers alone.
	OutputTokensPerMinute int `json:"output_tokens_per_minute,omitempty"`
	// PerKey gives every API key limits of its own; otherwise all keys are one account.
	PerKey bool `json:"per_key,omitempty"`
}

// check says which limit cannot be.
func (l Limits) check() error {
	least := min(l.Concurrency, l.RequestsPerMinute, l.TokensPerMinute, l.InputTokensPerMinute, l.OutputTokensPerMinute)
	if least < 0 {
		return fmt.Errorf("a limit must not be negative, and one is %d; 0 means no limit", least)
	}
	return nil
}

// maxKeys bounds the API keys of which account is kept; those that rest are forgotten first.
const maxKeys = 10_000

// limiter admits requests and keeps account of the last minute, of all requests and by key. What it refuses it does not count.
type limiter struct {
	clock clock.Clock

	mu     sync.Mutex
	limits Limits
	all    minute
	keys   map[string]*minute // by the key's public name
}

func newLimiter(c clock.Clock, l Limits) *limiter {
	return &limiter{clock: c, limits: l, keys: map[string]*minute{}}
}

// set changes the limits for the requests to come.
func (l *limiter) set(limits Limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits = limits
}

func (l *limiter) get() Limits {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limits
}

// ticket is a request's place in the accounts.
type ticket struct {
	key           string
	inAll, inKeys int
}

// admit lets a request of a key in, or says why not, and how the account stands. Who is admitted calls leave.
func (l *limiter) admit(key string, asked load) (ticket, standing, *failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	l.all.forget(now)
	own := l.of(key, now)
	account := &l.all
	if l.limits.PerKey {
		account = own
	}
	refused := l.check(account, asked, now)
	t := ticket{key: key}
	if refused == nil {
		t.inAll, t.inKeys = l.all.add(now, asked), own.add(now, asked)
	}
	return t, l.standing(account, now), refused
}

// of returns the account of a key. l.mu is held.
func (l *limiter) of(key string, now time.Time) *minute {
	own := l.keys[key]
	if own == nil {
		if len(l.keys) >= maxKeys {
			maps.DeleteFunc(l.keys, func(_ string, m *minute) bool {
				m.forget(now)
				return m.idle()
			})
		}
		own = &minute{}
		l.keys[key] = own
	}
	own.forget(now)
	return own
}

// leave ends a request; used is what it cost.
func (l *limiter) leave(t ticket, used load) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.leave(t.inAll, used)
	l.keys[t.key].leave(t.inKeys, used)
}

// peaks returns the most of all requests, and by key.
func (l *limiter) peaks() (Peaks, map[string]Peaks) {
	l.mu.Lock()
	defer l.mu.Unlock()
	byKey := map[string]Peaks{}
	for key, m := range l.keys {
		byKey[key] = m.peak
	}
	return l.all.peak, byKey
}

// inFlight returns how many admitted requests are not yet answered.
func (l *limiter) inFlight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.inFlight
}

// resetPeaks begins to measure anew.
func (l *limiter) resetPeaks() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for m := range maps.Values(l.keys) {
		m.peak = Peaks{InFlight: m.inFlight}
	}
	l.all.peak = Peaks{InFlight: l.all.inFlight}
}

// rule is one limit of tokens.
type rule struct {
	name               string
	limit, used, asked int
	of                 func(load) int
}

// check returns the refusal of a request that a limit has no room for. l.mu is held.
func (l *limiter) check(m *minute, asked load, now time.Time) *failure {
	requests := l.limits.RequestsPerMinute
	switch {
	case l.limits.Concurrency > 0 && m.inFlight >= l.limits.Concurrency:
		return limited(failConnected, time.Second, "too many concurrent requests: Limit %d, Used %d, Requested 1", l.limits.Concurrency, m.inFlight)
	case requests > 0 && len(m.recent) >= requests:
		wait := m.untilFree(now, func(left int, _ load) bool { return left < requests })
		return limited(failRequests, wait, "requests per minute: Limit %d, Used %d, Requested 1", requests, len(m.recent))
	}
	for _, r := range l.rules(m, asked) {
		switch {
		case r.limit == 0:
		case r.asked > r.limit:
			return limited(failTokens, 0, "request too large for "+r.name+": Limit %d, Requested %d", r.limit, r.asked)
		case r.used+r.asked > r.limit:
			wait := m.untilFree(now, func(_ int, used load) bool { return r.of(used)+r.asked <= r.limit })
			return limited(failTokens, wait, r.name+": Limit %d, Used %d, Requested %d", r.limit, r.used, r.asked)
		}
	}
	return nil
}

func (l *limiter) rules(m *minute, asked load) []rule {
	total := func(l load) int { return l.tokens }
	input := func(l load) int { return l.input }
	output := func(l load) int { return l.output }
	return []rule{
		{"tokens per minute", l.limits.TokensPerMinute, m.sum.tokens, asked.tokens, total},
		{"input tokens per minute", l.limits.InputTokensPerMinute, m.sum.input, asked.input, input},
		{"output tokens per minute", l.limits.OutputTokensPerMinute, m.sum.output, asked.output, output},
	}
}

func limited(kind failKind, wait time.Duration, format string, numbers ...any) *failure {
	return &failure{kind: kind, wait: wait, message: "Rate limit reached at the simulated provider: " + fmt.Sprintf(format, numbers...) + "."}
}

// standing is what of each limit is used, and when it is whole again.
type standing struct {
	now                             time.Time
	requests, tokens, input, output gauge
}

// gauge is one limit; without a limit it is empty.
type gauge struct {
	limit, left int
	reset       time.Duration
}

func (l *limiter) standing(m *minute, now time.Time) standing {
	reset := m.untilFree(now, func(left int, _ load) bool { return left == 0 })
	of := func(limit, used int) gauge {
		if limit == 0 {
			return gauge{}
		}
		return gauge{limit: limit, left: max(0, limit-used), reset: reset.Round(time.Millisecond)}
	}
	return standing{
		now: now, requests: of(l.limits.RequestsPerMinute, len(m.recent)), tokens: of(l.limits.TokensPerMinute, m.sum.tokens),
		input: of(l.limits.InputTokensPerMinute, m.sum.input), output: of(l.limits.OutputTokensPerMinute, m.sum.output),
	}
}
