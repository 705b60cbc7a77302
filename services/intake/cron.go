package intake

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// recurrence says at which times a schedule starts runs.
type recurrence struct{ cron.Schedule }

// parseRecurrence reads five fields, or a word such as @daily, in a time zone; an empty one is UTC. One that has no time is an
// error.
func parseRecurrence(text, zone string, now time.Time) (*recurrence, error) {
	if strings.Contains(text, "=") || strings.HasPrefix(text, "@every") {
		return nil, errors.New("must be five fields, such as 30 6 * * mon-fri, or @hourly, @daily, @weekly, @monthly or @yearly")
	}
	if zone == "" {
		zone = "UTC"
	}
	parsed, err := cron.ParseStandard("CRON_TZ=" + zone + " " + text)
	if err != nil {
		return nil, fmt.Errorf("is not understood: %w", err)
	}
	r := &recurrence{parsed}
	if r.Next(now).IsZero() {
		return nil, errors.New("never comes")
	}
	return r, nil
}

// after is the first time that is still to come, of those behind one that has passed.
func (r *recurrence) after(passed, now time.Time) time.Time {
	if passed.After(now) {
		return r.Next(passed)
	}
	return r.Next(now)
}

// latest is the last of the times from one that has come until now: of those that were missed, only it counts.
func (r *recurrence) latest(come, now time.Time, catchUp time.Duration) time.Time {
	if early := now.Add(-catchUp); come.Before(early) {
		come = r.Next(early)
	}
	for next := r.Next(come); !next.After(now); next = r.Next(next) {
		come = next
	}
	return come
}
