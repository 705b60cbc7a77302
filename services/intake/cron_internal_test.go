package intake

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return parsed
}

func TestRecurrences(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cron, zone, now string
		next            []string
	}{
		"every quarter of an hour": {"*/15 * * * *", "", "2026-12-01T10:07:00Z", []string{"2026-12-01T10:15:00Z", "2026-12-01T10:30:00Z"}},
		"working days":             {"30 6 * * mon-fri", "Europe/Berlin", "2026-12-04T12:00:00Z", []string{"2026-12-07T05:30:00Z", "2026-12-08T05:30:00Z"}},
		"a word":                   {"@daily", "America/New_York", "2026-07-01T12:00:00Z", []string{"2026-07-02T04:00:00Z"}},
		"an hour that clocks repeat comes twice": {
			"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"},
		},
		"an hour that clocks leave out is moved": {
			"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"},
		},
		"29 February": {"0 0 29 2 *", "", "2026-12-01T00:00:00Z", []string{"2028-02-29T00:00:00Z"}},
	} {
		r, err := parseRecurrence(c.cron, c.zone, at(t, c.now))
		require.NoError(t, err, name)
		now := at(t, c.now)
		for _, next := range c.next {
			now = r.Next(now)
			require.WithinDuration(t, at(t, next), now, 0, name)
		}
	}
}

func TestWhatIsNoRecurrence(t *testing.T) {
	t.Parallel()
	for cron, zone := range map[string]string{
		"": "", "* * * *": "", "61 * * * *": "", "* * * * * *": "", "@every 1s": "", "@never": "", "0 0 30 2 *": "",
		"TZ=UTC * * * * *": "", "CRON_TZ=UTC * * * * *": "", "* * * * 1": "Europe/Atlantis", "* * * * 2": "../etc/passwd",
	} {
		_, err := parseRecurrence(cron, zone, at(t, "2026-12-01T00:00:00Z"))
		require.Error(t, err, "%s in %s", cron, zone)
	}
}

func TestOfMissedTimesTheLastCounts(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-12-01T10:07:00Z")
	r, err := parseRecurrence("*/15 * * * *", "", now)
	require.NoError(t, err)
	missed := at(t, "2026-12-01T08:15:00Z")
	require.WithinDuration(t, at(t, "2026-12-01T10:00:00Z"), r.latest(missed, now, time.Hour), 0)
	require.WithinDuration(t, at(t, "2026-12-01T10:15:00Z"), r.latest(missed, now, time.Minute), 0, "none is recent enough: the next one")
	require.WithinDuration(t, at(t, "2026-12-01T10:00:00Z"), r.latest(at(t, "2026-12-01T10:00:00Z"), now, time.Hour), 0)
	require.WithinDuration(t, at(t, "2026-12-01T10:15:00Z"), r.after(missed, now), 0)
	require.WithinDuration(t, at(t, "2026-12-01T10:30:00Z"), r.after(at(t, "2026-12-01T10:15:00Z"), now), 0,
		"a clock that is behind does not bring the same time again")
}
