package failure

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Bare numbers are ambiguous: a time of day in epoch seconds or milliseconds, or a number of seconds.
const (
	leastEpochSeconds = 1e9
	leastEpochMillis  = 1e12
)

// longest bounds a stated wait, so that a time plus a wait never overflows; it is far beyond any run's deadline.
const longest = 366 * 24 * time.Hour

// statedWait returns the longest of the waits that the answer states: Retry-After in its forms, Google's RetryInfo, and
// the reset of every exhausted dimension of a limit. It is never cut short; what makes no sense is ignored.
func statedWait(s said, now time.Time) time.Duration {
	wait := max(
		parseMillis(s.header.Get("Retry-After-Ms")), parseWait(s.header.Get("Retry-After"), now), parseWait(s.delay, now),
	)
	for name := range s.header {
		if reset, ok := resetOf(name); ok && isZero(s.header.Get(name)) {
			wait = max(wait, parseWait(s.header.Get(reset), now))
		}
	}
	return wait
}

// resetOf returns the header that says when the dimension is free again whose remaining amount the named header gives.
func resetOf(name string) (string, bool) {
	lower := strings.ToLower(name)
	switch {
	case !strings.Contains(lower, "ratelimit") || !strings.Contains(lower, "remaining"):
		return "", false
	case strings.HasPrefix(lower, "x-ratelimitbysize-remaining"): // Mistral
		return "ratelimitbysize-reset", true
	default:
		return strings.Replace(lower, "remaining", "reset", 1), true
	}
}

func isZero(value string) bool {
	n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	return err == nil && n == 0
}

func parseMillis(value string) time.Duration {
	n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil {
		return 0
	}
	return clamp(n * float64(time.Millisecond))
}

// parseWait reads a wait in any of the forms in use: "22", "1.5", "120ms", "1h2m3s", an HTTP date, RFC 3339, and the epoch
// in seconds or milliseconds. Past times, negative and meaningless values are 0.
func parseWait(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if n, err := strconv.ParseFloat(value, 64); err == nil {
		return numericWait(n, now)
	}
	if d, err := time.ParseDuration(value); err == nil {
		return bounded(d)
	}
	for _, layout := range []string{time.RFC1123, time.RFC1123Z, time.RFC850, time.ANSIC, time.RFC3339} {
		if at, err := time.Parse(layout, value); err == nil {
			return until(at, now)
		}
	}
	return 0
}

func numericWait(n float64, now time.Time) time.Duration {
	switch {
	case n >= leastEpochMillis && n < math.MaxInt64/float64(time.Millisecond):
		return until(time.UnixMilli(int64(n)), now)
	case n >= leastEpochSeconds && n < leastEpochMillis:
		whole, part := math.Modf(n)
		return until(time.Unix(int64(whole), int64(part*float64(time.Second))), now)
	default:
		return clamp(n * float64(time.Second))
	}
}

// until is the time from now to a moment, exactly; 0 for one that has passed, and for the zero time.
func until(at, now time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return bounded(at.Sub(now))
}

func bounded(d time.Duration) time.Duration { return min(max(d, 0), longest) }

// clamp makes a duration of nanoseconds; what is negative or no number is 0.
func clamp(ns float64) time.Duration {
	if math.IsNaN(ns) || ns <= 0 {
		return 0
	}
	return time.Duration(min(ns, float64(longest)))
}
