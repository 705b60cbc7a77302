package simulated

import (
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"pawl.internal/services/internal/clock"
)

// How a request ended. Outcomes of faults are followed by the fault's kind.
const (
	outcomeRunning   = "running"
	outcomeAnswered  = "answered"
	outcomeLimited   = "limited"   // refused by a limit
	outcomeInvalid   = "invalid"   // refused as the caller's mistake
	outcomeAbandoned = "abandoned" // the caller went away before it was answered
	outcomeFault     = "fault:"
)

// Headers by which a caller names its call; the first that is set counts.
const (
	headerCallKey   = "X-Pawl-Call-Key"
	headerRequestID = "X-Client-Request-Id"
)

// Record is what the provider remembers of one request.
type Record struct {
	// Number counts requests from 1, in the order of their arrival.
	Number     int       `json:"number"`
	ReceivedAt time.Time `json:"received_at"`
	// CallKey is the header X-Pawl-Call-Key, or else X-Client-Request-Id.
	CallKey string `json:"call_key,omitempty"`
	// Fingerprint is a digest of the request's body: equal requests have the same.
	Fingerprint      string `json:"fingerprint,omitempty"`
	Model            string `json:"model,omitempty"`
	Streamed         bool   `json:"streamed,omitempty"`
	Outcome          string `json:"outcome"`
	Status           int    `json:"status,omitempty"` // 0: no answer began
	PromptTokens     int    `json:"prompt_tokens,omitempty"`
	CompletionTokens int    `json:"completion_tokens,omitempty"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
}

// record is a Record that is being written: by its request alone, until the ledger copies it at its end.
type record struct {
	Record
	try int // how many requests with this fingerprint came before
}

func (r *record) fail(outcome string, status int) { r.Outcome, r.Status = outcome, status }

// Report is what the provider has seen since it started or was told to forget.
type Report struct {
	Received int `json:"received"`
	InFlight int `json:"in_flight"`
	// MaxInFlight is the most requests at once, refused ones included.
	MaxInFlight int `json:"max_in_flight"`
	// Outcomes counts the requests that ended, by how.
	Outcomes map[string]int `json:"outcomes"`
	// PeakRequestsPerMinute and PeakTokensPerMinute are the most that was admitted in any 60 seconds.
	PeakRequestsPerMinute int `json:"peak_requests_per_minute"`
	PeakTokensPerMinute   int `json:"peak_tokens_per_minute"`
	// ByCallKey and ByFingerprint count the remembered requests.
	ByCallKey     map[string]int `json:"by_call_key"`
	ByFingerprint map[string]int `json:"by_fingerprint"`
	// Requests are the newest ones, oldest first.
	Requests []Record `json:"requests"`
}

// ledger remembers requests.
type ledger struct {
	clock    clock.Clock
	remember int

	mu            sync.Mutex
	number        int
	received      int
	inFlight      int
	maxInFlight   int
	outcomes      map[string]int
	byCallKey     map[string]int
	byFingerprint map[string]int
	running       map[int]*Record // as they were when they were identified
	ended         []Record        // a ring once it is full
	oldest        int             // in ended
}

func newLedger(c clock.Clock, remember int) *ledger {
	l := &ledger{clock: c, remember: remember}
	l.clear()
	return l
}

// forget begins anew; requests in flight stay.
func (l *ledger) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
}

func (l *ledger) clear() {
	l.received, l.maxInFlight, l.oldest, l.ended = l.inFlight, l.inFlight, 0, nil
	l.outcomes, l.byCallKey, l.byFingerprint = map[string]int{}, map[string]int{}, map[string]int{}
	for _, r := range l.running {
		l.count(r, 1)
	}
	if l.running == nil {
		l.running = map[int]*Record{}
	}
}

// begin notes the arrival of a request.
func (l *ledger) begin(r *http.Request) *record {
	rec := &record{Record: Record{ReceivedAt: l.clock.Now(), Outcome: outcomeRunning, CallKey: r.Header.Get(headerCallKey)}}
	if rec.CallKey == "" {
		rec.CallKey = r.Header.Get(headerRequestID)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number++
	l.received++
	l.inFlight++
	l.maxInFlight = max(l.maxInFlight, l.inFlight)
	rec.Number = l.number
	l.note(rec)
	return rec
}

// identify notes what a request is, once it has been read.
func (l *ledger) identify(rec *record, c *call) {
	rec.Fingerprint = hex.EncodeToString(c.fingerprint[:16])
	rec.Model, rec.Streamed = c.Model, c.Stream
	l.mu.Lock()
	defer l.mu.Unlock()
	rec.try = l.byFingerprint[rec.Fingerprint]
	l.count(l.running[rec.Number], -1)
	l.note(rec)
}

// note keeps what is known of a running request. l.mu is held.
func (l *ledger) note(rec *record) {
	known := rec.Record
	l.running[rec.Number] = &known
	l.count(&known, 1)
}

// end notes how a request ended: one that got neither an answer nor a fault was abandoned by its caller.
func (l *ledger) end(rec *record) {
	rec.Seconds = l.clock.Now().Sub(rec.ReceivedAt).Seconds()
	if rec.Outcome == outcomeRunning {
		rec.Outcome = outcomeAbandoned
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	delete(l.running, rec.Number)
	l.outcomes[rec.Outcome]++
	if len(l.ended) < l.remember {
		l.ended = append(l.ended, rec.Record)
		return
	}
	l.count(&l.ended[l.oldest], -1)
	l.ended[l.oldest] = rec.Record
	l.oldest = (l.oldest + 1) % l.remember
}

// count adds n to the counts of a request's names. l.mu is held.
func (l *ledger) count(r *Record, n int) {
	add := func(counts map[string]int, name string) {
		if name == "" {
			return
		}
		if counts[name] += n; counts[name] == 0 {
			delete(counts, name)
		}
	}
	add(l.byCallKey, r.CallKey)
	add(l.byFingerprint, r.Fingerprint)
}

// report returns the counts and the last newest requests.
func (l *ledger) report(last int) Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	requests := slices.Concat(l.ended[l.oldest:], l.ended[:l.oldest])
	for _, r := range l.running {
		requests = append(requests, *r)
	}
	slices.SortFunc(requests, func(a, b Record) int { return a.Number - b.Number })
	return Report{
		Received: l.received, InFlight: l.inFlight, MaxInFlight: l.maxInFlight, Outcomes: maps.Clone(l.outcomes),
		ByCallKey: maps.Clone(l.byCallKey), ByFingerprint: maps.Clone(l.byFingerprint), Requests: requests[max(0, len(requests)-last):],
	}
}
