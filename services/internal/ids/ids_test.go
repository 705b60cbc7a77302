package ids_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/internal/ids"
)

func TestV7CarriesTheTimeAndTheRightMarks(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 6, 7, 8, 9, 123_456_789, time.UTC)
	fake := clocktest.New()
	fake.Advance(at.Sub(fake.Now()))
	u := ids.New(fake).V7()
	require.Equal(t, uuid.Version(7), u.Version())
	require.Equal(t, uuid.RFC4122, u.Variant())
	sec, nsec := u.Time().UnixTime()
	require.Equal(t, at.Truncate(time.Millisecond), time.Unix(sec, nsec).UTC())
}

func TestV7OnlyGrowsAlsoWhenTheClockStepsBack(t *testing.T) {
	t.Parallel()
	fake := clocktest.New()
	s := ids.New(fake)
	last := s.V7()
	for i := range 20_000 { // more than fit into a millisecond of a clock that stands still
		if i == 10_000 {
			fake.Advance(-time.Hour)
		}
		next := s.V7()
		require.Negative(t, bytes.Compare(last[:], next[:]))
		last = next
	}
}

func TestSeededRepeatsItself(t *testing.T) {
	t.Parallel()
	draw := func(seed uint64) []uuid.UUID {
		s := ids.Seeded(clocktest.New(), seed)
		return []uuid.UUID{s.V4(), s.V7(), s.V4(), s.V7()}
	}
	first, again := draw(1), draw(1)
	require.Equal(t, first, again)
	require.NotEqual(t, first, draw(2))
	require.Equal(t, uuid.Version(4), first[0].Version())
}

func TestConcurrentDrawsDiffer(t *testing.T) {
	t.Parallel()
	const drawers, draws = 8, 1000
	s := ids.New(clock.System())
	drawn := make(chan uuid.UUID, drawers*draws)
	for range drawers {
		go func() {
			for range draws {
				drawn <- s.V7()
			}
		}()
	}
	seen := map[uuid.UUID]bool{}
	for range drawers * draws {
		seen[<-drawn] = true
	}
	require.Len(t, seen, drawers*draws)
}
