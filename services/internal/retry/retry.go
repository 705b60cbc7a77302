// Package retry computes how long to wait before another attempt: exponential backoff with jitter, and the wait that the
// other side asked for. It is pure arithmetic: it neither waits nor counts, and randomness comes in as an argument.
package retry

import (
	"math"
	"time"
)

// Longest bounds every wait, so that a time plus a wait never overflows: about 100 years.
const Longest = 100 * 365 * 24 * time.Hour

// spread is how far waits that the other side asked for are spread out, so that those who were told the same time do not
// all come back at once.
const spread = time.Second

// Policy says how often and how patiently something is tried again.
type Policy struct {
	// MaxAttempts bounds the attempts; 1 (or less) means no retry.
	MaxAttempts int
	// Initial is the wait after the first failure.
	Initial time.Duration
	// Factor multiplies the wait after each further failure; below 1 it counts as 1.
	Factor float64
	// Max bounds the wait before jitter; 0 means Longest.
	Max time.Duration
	// Jitter lengthens each wait by a random part of it, at most this one: 0.2 is up to 20 %.
	Jitter float64
}

// UsedUp reports whether the policy allows no further attempt after so many failures.
func (p Policy) UsedUp(failures int) bool { return failures >= max(p.MaxAttempts, 1) }

// Delay returns the wait after the given number of failures (at least 1): the backoff lengthened by jitter, but never
// shorter than retryAfter, which is the wait that the other side asked for (0 if none) and gets up to a second on top.
// Random returns numbers in [0, 1).
func (p Policy) Delay(failures int, retryAfter time.Duration, random func() float64) time.Duration {
	backoff := p.Backoff(failures)
	wait := max(backoff, clamp(float64(backoff)*(1+positive(p.Jitter)*random())))
	if retryAfter <= 0 {
		return wait
	}
	return max(wait, clamp(float64(retryAfter)+float64(spread)*random()), min(retryAfter, Longest))
}

// Backoff returns the wait after the given number of failures (at least 1) without jitter.
func (p Policy) Backoff(failures int) time.Duration {
	ceiling := Longest
	if p.Max > 0 {
		ceiling = min(p.Max, Longest)
	}
	factor := max(1, positive(p.Factor))
	wait := clamp(float64(max(p.Initial, 0)) * math.Pow(factor, float64(max(failures, 1)-1)))
	return min(wait, ceiling)
}

// positive returns x, or 0 where x is negative or no number.
func positive(x float64) float64 {
	if x > 0 {
		return x
	}
	return 0
}

// clamp converts nanoseconds to a duration of at most Longest. 0 × ∞, a wait of nothing without end, is nothing.
func clamp(ns float64) time.Duration {
	if math.IsNaN(ns) {
		return 0
	}
	return time.Duration(min(ns, float64(Longest)))
}
