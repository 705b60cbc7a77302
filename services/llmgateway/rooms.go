package llmgateway

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"pawl.internal/services/llmgateway/permit"
)

// roomsIn reads what an answer's headers say of the account's limits: x-ratelimit-{limit,remaining,reset}-{what}, or
// anthropic-ratelimit-{what}-{limit,remaining,reset}. What makes no sense is ignored.
func roomsIn(h http.Header, now time.Time) []permit.Room {
	var rooms []permit.Room
	for _, dimension := range []struct {
		of   permit.Dimension
		name string
	}{
		{permit.Requests, "requests"},
		{permit.Tokens, "tokens"},
		{permit.InputTokens, "input-tokens"},
		{permit.OutputTokens, "output-tokens"},
	} {
		read := func(what string) string {
			if value := h.Get("x-ratelimit-" + what + "-" + dimension.name); value != "" {
				return value
			}
			return h.Get("anthropic-ratelimit-" + dimension.name + "-" + what)
		}
		limit, remaining := amount(read("limit")), amount(read("remaining"))
		if limit <= 0 && remaining < 0 {
			continue
		}
		rooms = append(rooms, permit.Room{Of: dimension.of, Limit: limit, Remaining: remaining, Reset: resetIn(read("reset"), now)})
	}
	return rooms
}

// amount reads a number of requests or tokens; -1 if there is none.
func amount(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// resetIn reads the time until a limit is whole again: a Go duration, seconds, or a time of day; 0 if it is none of these.
func resetIn(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if d, err := time.ParseDuration(text); err == nil {
		return max(0, d)
	}
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds > 0 && seconds < float64(time.Hour) {
		return time.Duration(seconds * float64(time.Second))
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
