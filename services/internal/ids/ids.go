// Package ids draws the identifiers of the system: UUID v7 for what is stored by time (runs, batches, deliveries) and
// UUID v4 for what only has to be unguessable (fences, instances).
//
// A Source is passed explicitly, so that tests can repeat a run with the very same ids. It is safe for concurrent use.
package ids

import (
	"crypto/rand"
	"encoding/binary"
	"io"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/clock"
)

// Source draws ids.
type Source struct {
	clock clock.Clock

	mu     sync.Mutex
	random io.Reader // guarded by mu
	last   uint64    // guarded by mu; the newest v7 tick given out
}

// New returns a Source with the operating system's randomness.
func New(c clock.Clock) *Source { return &Source{clock: c, random: rand.Reader} }

// Seeded returns a Source whose random bits follow from seed alone. For tests: its ids can be guessed.
func Seeded(c clock.Clock, seed uint64) *Source {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return &Source{clock: c, random: mathrand.NewChaCha8(key)}
}

// V4 returns a random UUID.
func (s *Source) V4() uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draw()
}

// V7 returns a UUID that sorts by time. Ids of one Source are strictly increasing, also within a millisecond and when the
// clock steps back.
func (s *Source) V7() uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.draw()
	s.last = max(s.last+1, tick(s.clock.Now()))
	const version = 7
	binary.BigEndian.PutUint64(u[:8], s.last>>12<<16|version<<12|s.last&0xfff)
	return u
}

// draw returns a v4 UUID. s.mu is held.
func (s *Source) draw() uuid.UUID {
	// Neither source of randomness fails: crypto/rand ends the program rather than return an error.
	return uuid.Must(uuid.NewRandomFromReader(s.random))
}

// tick is a time as the 60 bits that v7 has for it: 48 bits of milliseconds and 12 bits of a fraction of one.
func tick(t time.Time) uint64 {
	const fractions = 1 << 12
	ms := uint64(t.UnixMilli())
	ns := uint64(t.Nanosecond()) % uint64(time.Millisecond)
	return ms<<12 | ns*fractions/uint64(time.Millisecond)
}
