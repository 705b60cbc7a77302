package simulated

import "time"

const window = time.Minute

// load is what a request weighs.
type load struct {
	tokens int // of prompt and answer
	input  int // of the prompt, without what came from the cache
	output int
}

// minute keeps account of what was admitted in the last 60 seconds, and of the most that any 60 seconds had.
type minute struct {
	inFlight int
	recent   []admission // oldest first
	first    int         // number of the oldest in recent, counted from the start
	sum      load        // of recent
	peak     Peaks
}

// admission is a request that was let in.
type admission struct {
	at   time.Time
	load load
}

// Peaks are the most that was admitted: in flight at once, and in any 60 seconds.
type Peaks struct {
	InFlight              int `json:"in_flight"`
	RequestsPerMinute     int `json:"requests_per_minute"`
	TokensPerMinute       int `json:"tokens_per_minute"`
	InputTokensPerMinute  int `json:"input_tokens_per_minute"`
	OutputTokensPerMinute int `json:"output_tokens_per_minute"`
}

// add lets a request in and returns its number.
func (m *minute) add(now time.Time, l load) (number int) {
	m.inFlight++
	m.recent = append(m.recent, admission{now, l})
	m.change(l, 1)
	return m.first + len(m.recent) - 1
}

// leave ends a request; used is what it weighed in the end.
func (m *minute) leave(number int, used load) {
	m.inFlight--
	if i := number - m.first; i >= 0 {
		m.change(m.recent[i].load, -1)
		m.recent[i].load = used
		m.change(used, 1)
	}
}

// change adds l to the sums, or takes it away if sign is -1.
func (m *minute) change(l load, sign int) {
	m.sum.tokens += sign * l.tokens
	m.sum.input += sign * l.input
	m.sum.output += sign * l.output
	if sign < 0 {
		return
	}
	m.peak.InFlight = max(m.peak.InFlight, m.inFlight)
	m.peak.RequestsPerMinute = max(m.peak.RequestsPerMinute, len(m.recent))
	m.peak.TokensPerMinute = max(m.peak.TokensPerMinute, m.sum.tokens)
	m.peak.InputTokensPerMinute = max(m.peak.InputTokensPerMinute, m.sum.input)
	m.peak.OutputTokensPerMinute = max(m.peak.OutputTokensPerMinute, m.sum.output)
}

// forget drops what is older than a minute.
func (m *minute) forget(now time.Time) {
	old := 0
	for old < len(m.recent) && now.Sub(m.recent[old].at) >= window {
		m.change(m.recent[old].load, -1)
		old++
	}
	m.recent = m.recent[old:]
	m.first += old
}

// idle reports whether the minute remembers nothing that counts.
func (m *minute) idle() bool { return m.inFlight == 0 && len(m.recent) == 0 }

// untilFree returns how long it takes until enough of the last minute is forgotten.
func (m *minute) untilFree(now time.Time, enough func(requests int, used load) bool) time.Duration {
	used := m.sum
	if enough(len(m.recent), used) {
		return 0
	}
	for i, a := range m.recent {
		used = load{used.tokens - a.load.tokens, used.input - a.load.input, used.output - a.load.output}
		if enough(len(m.recent)-i-1, used) {
			return a.at.Add(window).Sub(now)
		}
	}
	return window
}
