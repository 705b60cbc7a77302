package simulated

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"pawl.internal/services/internal/clock"
)

// BatchPace is how fast batches go.
type BatchPace struct {
	// Step is how long a batch is validating, finalizing and cancelling, each.
	Step Span `json:"step"`
	// Item is how long each of its requests takes, one after the other.
	Item Span `json:"item"`
	// Expire is after how long a batch that has not ended expires; 0 means 24 hours.
	Expire Span `json:"expire"`
	// Hold keeps batches where they are, though not from expiring or being canceled.
	Hold bool `json:"hold"`
}

// Span is a duration whose text is that of time.Duration, such as 1.5s.
type Span time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil || d < 0 {
		return fmt.Errorf("%q is no duration: write one such as 500ms or 2s", text)
	}
	*s = Span(d)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (s Span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

const defaultExpiry = 24 * time.Hour

// maxBatches bounds the batches that are remembered; the oldest that have ended are forgotten first.
const maxBatches = 1000

// batches are those of all formats, oldest first.
type batches struct {
	clock  clock.Clock
	answer func(b *batch, item *batchItem)
	closed func(b *batch) // is told once that a batch has ended

	mu     sync.Mutex
	pace   BatchPace
	number int
	list   []*batch
}

// add begins a batch and returns what read makes of it.
func (s *batches) add(b *batch, read func(*batch)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) >= maxBatches {
		if old := slices.IndexFunc(s.list, (*batch).ended); old >= 0 {
			s.list = slices.Delete(s.list, old, old+1)
		}
	}
	s.number++
	now := s.clock.Now()
	expiry := time.Duration(s.pace.Expire)
	if expiry == 0 {
		expiry = defaultExpiry
	}
	b.id += fmt.Sprintf("simulated_%d", s.number)
	b.created, b.seen, b.expires, b.pace = now, now, now.Add(expiry), s.pace
	b.stage, b.at = stageValidating, map[stage]time.Time{}
	for _, item := range b.items {
		item.state = itemPending
	}
	s.list = append(s.list, b)
	read(b)
}

// advance brings a batch up to now. s.mu is held.
func (s *batches) advance(b *batch) {
	if b.ended() {
		return
	}
	b.advance(s.clock.Now(), func(item *batchItem) { s.answer(b, item) })
	if b.ended() {
		s.closed(b)
	}
}

// with brings a batch of a format up to now and hands it to use; it reports whether there is one with this id.
func (s *batches) with(form, id string, use func(*batch)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.list, func(b *batch) bool { return b.id == id && (form == "" || b.form == form) })
	if i < 0 {
		return false
	}
	s.advance(s.list[i])
	use(s.list[i])
	return true
}

// newest brings all batches of a format up to now and hands them to use, the newest first.
func (s *batches) newest(form string, use func(*batch)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range slices.Backward(s.list) {
		if form == "" || b.form == form {
			s.advance(b)
			use(b)
		}
	}
}

// remove forgets a batch.
func (s *batches) remove(b *batch) {
	s.list = slices.DeleteFunc(s.list, func(other *batch) bool { return other == b })
}

// cancel begins to cancel a batch, unless it has ended. s.mu is held.
func (s *batches) cancel(b *batch) {
	if b.ended() || b.stage == stageCanceling {
		return
	}
	b.stage, b.at[stageCanceling] = stageCanceling, s.clock.Now()
	s.advance(b)
}

// set changes the pace, also of the batches that are going on.
func (s *batches) set(pace BatchPace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pace = pace
	for _, b := range s.list {
		s.advance(b)
		if b.ended() {
			continue
		}
		b.pace = pace
		if pace.Expire > 0 {
			b.expires = b.created.Add(time.Duration(pace.Expire))
		}
	}
}

func (s *batches) get() BatchPace {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pace
}

// completeNow ends a batch at once, with all its items done. s.mu is held.
func (s *batches) completeNow(b *batch) {
	b.pace.Hold = false
	b.worked = b.total()
	s.advance(b)
}

// expireNow ends a batch at once, with only its first items done. s.mu is held.
func (s *batches) expireNow(b *batch, done int) {
	for _, item := range b.items[:min(done, len(b.items))] {
		if item.state == itemPending {
			s.answer(b, item)
		}
	}
	b.end(stageExpired, itemExpired, s.clock.Now())
	s.closed(b)
}
