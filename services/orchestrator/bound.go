package orchestrator

import "time"

const (
	// unboundedEvery is how often a sweep looks also behind its bound.
	unboundedEvery = 5 * time.Minute
	// commitTime is how long a group may take from the moment it takes for now to its commit: what it writes may be due
	// before it can be seen, so a bound stays that much behind.
	commitTime = 10 * time.Second
)

// bound is the time before which a sweep need not look again: all that was due then has had its event. It keeps a sweep from
// walking over what is dealt with, which an old snapshot of the database keeps from being removed.
type bound struct {
	from    time.Time // by PostgreSQL's clock
	cleared time.Time // when it last looked without a bound, by this process's clock
}

// start returns from when on to look.
func (b *bound) start(now time.Time) time.Time {
	if now.Sub(b.cleared) >= unboundedEvery {
		b.from, b.cleared = time.Time{}, now
	}
	return b.from
}

// pass moves the bound: until then all has been dealt with.
func (b *bound) pass(until time.Time) {
	if from := until.Add(-commitTime); from.After(b.from) {
		b.from = from
	}
}
