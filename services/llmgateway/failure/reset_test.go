package failure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func momentOfTests() time.Time { return time.Date(2026, time.November, 30, 12, 0, 0, 0, time.UTC) }

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return at.UTC()
}

func TestGooglesDayIsCalifornias(t *testing.T) {
	t.Parallel()
	for now, want := range map[string]string{
		"2026-11-30T12:00:00Z":      "2026-12-01T08:00:00Z", // winter time
		"2026-07-01T06:59:59Z":      "2026-07-01T07:00:00Z", // summer time
		"2026-07-01T07:00:00Z":      "2026-07-02T07:00:00Z",
		"2026-03-08T09:00:00Z":      "2026-03-09T07:00:00Z", // the day on which summer time begins
		"2026-11-01T12:00:00Z":      "2026-11-02T08:00:00Z", // and ends
		"2026-12-31T20:00:00Z":      "2027-01-01T08:00:00Z",
		"2026-11-30T20:00:00+03:00": "2026-12-01T08:00:00Z",
	} {
		require.Equal(t, moment(t, want), nextPacificDay(said{}, moment(t, now)), now)
	}
}

func TestTheNextMonthBeginsInUTC(t *testing.T) {
	t.Parallel()
	for now, want := range map[string]string{
		"2026-11-30T12:00:00Z":      "2026-12-01T00:00:00Z",
		"2026-12-01T00:00:00Z":      "2027-01-01T00:00:00Z",
		"2026-12-01T01:00:00+03:00": "2026-12-01T00:00:00Z",
		"2026-01-31T23:59:59Z":      "2026-02-01T00:00:00Z",
	} {
		require.Equal(t, moment(t, want), nextMonth(said{}, moment(t, now)), now)
	}
}

func TestWhenAccessReturns(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Time{
		"You will regain access on 2026-12-01 at 00:00 UTC.": moment(t, "2026-12-01T00:00:00Z"),
		"until 2026-12-01T15:30:00Z":                         moment(t, "2026-12-01T15:30:00Z"),
		"until 2026-12-02.":                                  moment(t, "2026-12-02T00:00:00Z"),
		"on 2026-13-45 at 00:00":                             {},
		"some day":                                           {},
	} {
		require.Equal(t, want, regained(said{message: text}, time.Time{}), text)
	}
}
