package simulated

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"pawl.internal/services/internal/clock"
)

// Limits are what an account is allowed; 0 means no limit.
type Limits struct {
	// Concurrency is how many requests may be in flight at once.
	Concurrency int `json:"concurrency"`
	// RequestsPerMinute is how many requests may begin in any 60 seconds.
	RequestsPerMinute int `json:"requests_per_minute"`
	// TokensPerMinute is how many tokens, of prompts and answers, the requests of any 60 seconds may have. A request counts
	// with its prompt and its max_tokens until it is answered, then with what it used.
	TokensPerMinute int `json:"tokens_per_minute"`
}

const window = time.Minute

// limiter admits requests and keeps account of the last minute. What it refuses it does not count.
type limiter struct {
	clock clock.Clock

	mu           sync.Mutex
	limits       Limits
	inFlight     int
	recent       []admission // of the last minute, oldest first
	first        int         // number of the oldest in recent, counted from the start
	tokens       int         // of recent
	peakRequests int
	peakTokens   int
}

// admission is a request that was let in.
type admission struct {
	at     time.Time
	tokens int
}

func newLimiter(c clock.Clock, l Limits) *limiter { return &limiter{clock: c, limits: l} }

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

// admit lets a request of so many tokens in and returns its number, or says why not. Who is admitted calls leave.
func (l *limiter) admit(tokens int, h http.Header) (number int, refused *apiError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	l.forget(now)
	refused = l.check(tokens, now)
	if refused == nil {
		l.inFlight++
		l.recent = append(l.recent, admission{now, tokens})
		l.tokens += tokens
		l.peak()
	}
	l.headers(h, now)
	return l.first + len(l.recent) - 1, refused
}

// leave ends a request; used is what it cost in tokens.
func (l *limiter) leave(number, used int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	if i := number - l.first; i >= 0 {
		l.tokens += used - l.recent[i].tokens
		l.recent[i].tokens = used
		l.peak()
	}
}

func (l *limiter) peak() {
	l.peakRequests = max(l.peakRequests, len(l.recent))
	l.peakTokens = max(l.peakTokens, l.tokens)
}

// peaks returns the most requests and tokens that any minute had.
func (l *limiter) peaks() (requests, tokens int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peakRequests, l.peakTokens
}

// resetPeaks begins to measure anew.
func (l *limiter) resetPeaks() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peakRequests, l.peakTokens = 0, 0
}

// forget drops what is older than a minute.
func (l *limiter) forget(now time.Time) {
	old := 0
	for old < len(l.recent) && now.Sub(l.recent[old].at) >= window {
		l.tokens -= l.recent[old].tokens
		old++
	}
	l.recent = l.recent[old:]
	l.first += old
}

// check returns the refusal of a request that a limit has no room for.
func (l *limiter) check(tokens int, now time.Time) *apiError {
	requests, perMinute := l.limits.RequestsPerMinute, l.limits.TokensPerMinute
	switch {
	case l.limits.Concurrency > 0 && l.inFlight >= l.limits.Concurrency:
		return limited("requests", fmt.Sprintf("too many concurrent requests: Limit %d, Used %d, Requested 1", l.limits.Concurrency, l.inFlight), time.Second)
	case requests > 0 && len(l.recent) >= requests:
		return limited("requests", fmt.Sprintf("requests per minute: Limit %d, Used %d, Requested 1", requests, len(l.recent)),
			l.untilFree(now, func(left, _ int) bool { return left < requests }))
	case perMinute > 0 && tokens > perMinute:
		return limited("tokens", fmt.Sprintf("request too large for tokens per minute: Limit %d, Requested %d", perMinute, tokens), 0)
	case perMinute > 0 && l.tokens+tokens > perMinute:
		return limited("tokens", fmt.Sprintf("tokens per minute: Limit %d, Used %d, Requested %d", perMinute, l.tokens, tokens),
			l.untilFree(now, func(_, used int) bool { return used+tokens <= perMinute }))
	}
	return nil
}

// untilFree returns how long it takes until enough of the last minute is forgotten.
func (l *limiter) untilFree(now time.Time, enough func(requests, tokens int) bool) time.Duration {
	used := l.tokens
	if enough(len(l.recent), used) {
		return 0
	}
	for i, a := range l.recent {
		used -= a.tokens
		if enough(len(l.recent)-i-1, used) {
			return a.at.Add(window).Sub(now)
		}
	}
	return window
}

func limited(kind, message string, wait time.Duration) *apiError {
	return &apiError{
		status: http.StatusTooManyRequests, retryAfter: wait, Type: kind, Code: "rate_limit_exceeded",
		Message: "Rate limit reached at the simulated provider: " + message + ".",
	}
}

// headers tells the caller how much is left, in the way of OpenAI.
func (l *limiter) headers(h http.Header, now time.Time) {
	set := func(kind string, limit, used int) {
		if limit == 0 {
			return
		}
		h.Set("X-Ratelimit-Limit-"+kind, strconv.Itoa(limit))
		h.Set("X-Ratelimit-Remaining-"+kind, strconv.Itoa(max(0, limit-used)))
		h.Set("X-Ratelimit-Reset-"+kind, l.untilFree(now, func(left, _ int) bool { return left == 0 }).Round(time.Millisecond).String())
	}
	set("Requests", l.limits.RequestsPerMinute, len(l.recent))
	set("Tokens", l.limits.TokensPerMinute, l.tokens)
}
