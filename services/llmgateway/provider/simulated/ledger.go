package simulated

import (
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"sync"

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

// record is a Record that is being written: by its request alone, until the ledger copies it at its end.
type record struct {
	Record
	try int // how many requests with this fingerprint came before
}

func (r *record) fail(outcome string, status int) { r.Outcome, r.Status = outcome, status }

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
	tally         tally // of those that ended
	others        map[string]int
	admissions    []Admission // a ring once it is full
	nextAdmission int
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
	l.tally, l.others, l.admissions, l.nextAdmission = newTally(), map[string]int{}, nil, 0
	for _, r := range l.running {
		l.count(r, 1)
	}
	if l.running == nil {
		l.running = map[int]*Record{}
	}
}

// begin notes the arrival of a request.
func (l *ledger) begin(r *http.Request, f form) *record {
	rec := &record{Record: Record{
		ReceivedAt: l.clock.Now(), Outcome: outcomeRunning, Format: f.name(), Key: KeyName(f.key(r)), CallKey: r.Header.Get(headerCallKey),
	}}
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
	rec.Model, rec.Streamed = c.model, c.stream
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
	l.tally.add(&rec.Record)
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
	counts := l.tally.clone()
	for _, r := range l.running {
		requests = append(requests, *r)
		counts.add(r)
	}
	slices.SortFunc(requests, func(a, b Record) int { return a.Number - b.Number })
	return Report{
		Received: l.received, InFlight: l.inFlight, MaxInFlight: l.maxInFlight, Outcomes: maps.Clone(l.outcomes),
		ByKey: counts.keys, ByModel: counts.models, ByFormat: counts.formats, Others: maps.Clone(l.others),
		AttemptsPerAnswer: attemptsPerAnswer(requests),
		ByCallKey:         maps.Clone(l.byCallKey), ByFingerprint: maps.Clone(l.byFingerprint), Requests: requests[max(0, len(requests)-last):],
	}
}
