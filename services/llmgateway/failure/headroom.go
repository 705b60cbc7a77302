package failure

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Dimension is what a provider's limit counts.
type Dimension string

// The dimensions.
const (
	Requests     Dimension = "requests"
	Tokens       Dimension = "tokens"
	InputTokens  Dimension = "input_tokens"
	OutputTokens Dimension = "output_tokens"
)

// Room is how much of a limit the provider says is left. Nothing in it is negative.
type Room struct {
	Of Dimension
	// Limit is the whole of it; 0 where the provider does not say.
	Limit int64
	// Remaining is what is left. Anthropic rounds tokens to thousands.
	Remaining int64
	// Reset is the time until the limit is free again in full, which is longer than a single call must wait; 0 where the
	// provider does not say, or has named a time that has passed.
	Reset time.Duration
}

// meter names the headers of one limit.
type meter struct {
	of                      Dimension
	limit, remaining, reset string
}

// meters are the headers in use.
var meters = sync.OnceValue(func() []meter { //nolint:gochecknoglobals // a constant that Go cannot write as one
	var list []meter
	for _, of := range []Dimension{Requests, Tokens} { // OpenAI and those who are like it
		for _, variant := range []string{"", "_usage_based"} {
			name := string(of) + variant
			list = append(list, meter{of, "X-Ratelimit-Limit-" + name, "X-Ratelimit-Remaining-" + name, "X-Ratelimit-Reset-" + name})
		}
	}
	for _, of := range []Dimension{Requests, Tokens, InputTokens, OutputTokens} {
		name := "Anthropic-Ratelimit-" + strings.ReplaceAll(string(of), "_", "-")
		list = append(list, meter{of, name + "-Limit", name + "-Remaining", name + "-Reset"})
	}
	return append(list,
		meter{Tokens, "X-Ratelimitbysize-Limit-Minute", "X-Ratelimitbysize-Remaining-Minute", "Ratelimitbysize-Reset"}, // Mistral
		meter{Requests, "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"},                             // OpenRouter
	)
})

// Headroom returns what an answer's headers say of the account's limits, one Room for each dimension that they name, in the
// order of the dimensions' names; of several limits on the same, that of which least is left. Values that mean "unknown",
// such as Azure's -1 and a limit of 0, are left out.
func Headroom(header http.Header, now time.Time) []Room {
	least := map[Dimension]Room{}
	for _, m := range meters() {
		room, ok := m.read(header, now)
		if known, seen := least[m.of]; ok && (!seen || room.Remaining < known.Remaining) {
			least[m.of] = room
		}
	}
	rooms := make([]Room, 0, len(least))
	for _, room := range least {
		rooms = append(rooms, room)
	}
	slices.SortFunc(rooms, func(a, b Room) int { return cmp.Compare(a.Of, b.Of) })
	return rooms
}

func (m meter) read(header http.Header, now time.Time) (Room, bool) {
	remaining, known := amount(header.Get(m.remaining))
	if !known {
		return Room{}, false
	}
	limit, known := amount(header.Get(m.limit))
	if header.Get(m.limit) != "" && (!known || limit == 0) {
		return Room{}, false
	}
	return Room{Of: m.of, Limit: limit, Remaining: remaining, Reset: parseWait(header.Get(m.reset), now)}, true
}

// amount reads a count; it is unknown when it is missing, negative, or no number.
func amount(value string) (int64, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || math.IsNaN(n) || n < 0 || n >= math.MaxInt64 {
		return 0, false
	}
	return int64(n), true
}
