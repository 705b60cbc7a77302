package machine

import (
	"cmp"
	"slices"
	"time"
)

// ID is a fence or the instance of a runner: a UUID's bytes. The zero ID is NULL.
type ID [16]byte

// Whole is the shard number of a step's own row.
const Whole = -1

// Key names a step's or a shard's row within its run.
type Key struct {
	Step  int // index in the plan
	Shard int // Whole for the step itself
}

// Live is a row of core.step_live: a step or shard that is neither finished nor merely pending (a pending shard has one,
// as it holds the shard's item, which is the caller's business). Zero times and IDs are NULL.
type Live struct {
	Key
	Generation int
	Status     StepStatus
	Class      Class
	// Attempt counts the claims that were not given back, Failures the transient failures, Losses the leases lost,
	// Calls the requests sent to models in this generation.
	Attempt, Failures, Losses, Calls int
	// ClaimNo counts the claims of this generation; it never decreases.
	ClaimNo int
	// Fence is the claim whose outcome is still owed: the holder's while RUNNING; kept when a lease runs out, until
	// somebody else claims.
	Fence ID
	// LastFence is the newest claim's fence.
	LastFence ID
	// Worker is the instance that holds or last held the claim.
	Worker ID
	// AskBase is the number of the next attempt's first question to a model.
	AskBase int
	// AmbiguousOK is how many calls of unknown fate may be sent again.
	AmbiguousOK int
	// Unsure says that an earlier attempt may have made the step's outside effect without telling.
	Unsure bool
	// DueAt is the timer of the state: RUNNING the hard timeout, BACKOFF the retry, WAITING the wake-up or re-check.
	DueAt time.Time
	// ReadyAt, QueuedAt and ClaimedAt are when the row last entered READY, QUEUED and RUNNING.
	ReadyAt, QueuedAt, ClaimedAt time.Time
	// Reason is that of the newest failure, wait or review.
	Reason Reason
}

// revoke takes the claim away from whoever has it: its outcome is not wanted any more.
func (l *Live) revoke() { l.Fence, l.LastFence = ID{}, ID{} }

// Result is what the machine must know of a stored row of core.pipeline_step_result.
type Result struct {
	Key
	Generation int
	Status     StepStatus
	Reason     Reason
	// Fence is that of the claim whose outcome it is; zero when the orchestrator or a person decided.
	Fence                     ID
	Attempt, ClaimNo, AskBase int
}

// Drop names live rows of a run that are deleted by one statement, without having been loaded.
type Drop struct {
	// Step is the step whose rows are deleted; AllSteps for all of the run.
	Step int
	// Keep names the rows that stay.
	Keep []Key
}

// AllSteps as a step's index stands for all steps of the run.
const AllSteps = -1

// Changes is what is to be written to core.step_live, in this order.
type Changes struct {
	Drops []Drop
	// Promoted, if not empty, is the class that all rows of the run get; those that are QUEUED become READY.
	Promoted Class
	Deleted  []Key
	Inserted []Live
	Updated  []Live
}

// Rows are the rows of one run that are in memory, with what has changed since they were loaded.
type Rows struct {
	live    map[Key]*Live
	results map[Key]Result
	// stored are the keys of live rows that the table holds, as far as they were loaded and not dropped since.
	stored   map[Key]bool
	touched  map[Key]bool
	drops    []Drop
	promoted Class
}

// NewRows holds rows as the caller has read them: live ones, and results of steps and shards that have ended.
func NewRows(live []Live, results []Result) *Rows {
	r := &Rows{
		live: make(map[Key]*Live, len(live)), results: make(map[Key]Result, len(results)),
		stored: make(map[Key]bool, len(live)), touched: make(map[Key]bool),
	}
	for _, l := range live {
		r.live[l.Key] = &l
		r.stored[l.Key] = true
	}
	for _, res := range results {
		r.results[res.Key] = res
	}
	return r
}

// Get returns a copy of the live row, if it is in memory.
func (r *Rows) Get(k Key) (Live, bool) {
	l, ok := r.live[k]
	if !ok {
		return Live{}, false
	}
	return *l, true
}

// All returns copies of the live rows in memory, by step and shard.
func (r *Rows) All() []Live {
	all := make([]Live, 0, len(r.live))
	for _, l := range r.live {
		all = append(all, *l)
	}
	slices.SortFunc(all, func(a, b Live) int { return compareKeys(a.Key, b.Key) })
	return all
}

// Changes returns what is to be written, by step and shard.
func (r *Rows) Changes() Changes {
	c := Changes{Drops: r.drops, Promoted: r.promoted}
	keys := make([]Key, 0, len(r.touched))
	for k := range r.touched {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareKeys)
	for _, k := range keys {
		l, live := r.live[k]
		switch {
		case live && r.stored[k]:
			c.Updated = append(c.Updated, *l)
		case live:
			c.Inserted = append(c.Inserted, *l)
		case r.stored[k]:
			c.Deleted = append(c.Deleted, k)
		}
	}
	return c
}

func (r *Rows) put(l Live) {
	r.live[l.Key] = &l
	r.touched[l.Key] = true
}

func (r *Rows) remove(k Key) {
	delete(r.live, k)
	r.touched[k] = true
}

// drop removes the rows of a step, or of the run, except those to keep, whether they were loaded or not.
func (r *Rows) drop(d Drop) {
	for k := range r.live {
		if d.covers(k) {
			delete(r.live, k)
		}
	}
	for k := range r.stored {
		if d.covers(k) {
			delete(r.stored, k)
			delete(r.touched, k)
		}
	}
	r.drops = append(r.drops, d)
}

// nextPending returns the PENDING shard of a step that is next in line: the lowest from bound upward, or, backward, the
// highest below it.
func (r *Rows) nextPending(step, bound int, backward bool) (Live, bool) {
	first := Key{step, bound}
	if backward {
		first.Shard--
	}
	if l, ok := r.live[first]; ok && l.Status == StepPending {
		return *l, true
	}
	var next *Live
	for k, l := range r.live {
		if k.Step != step || l.Status != StepPending || backward != (k.Shard < bound) {
			continue
		}
		if next == nil || backward == (k.Shard > next.Shard) {
			next = l
		}
	}
	if next == nil {
		return Live{}, false
	}
	return *next, true
}

// promote moves all rows to a class, and those that are QUEUED back to READY, whether they were loaded or not.
func (r *Rows) promote(to Class, now time.Time) {
	r.promoted = to
	for _, l := range r.live {
		l.Class = to
		if l.Status == StepQueued {
			l.Status, l.ReadyAt = StepReady, now
		}
	}
}

func (d Drop) covers(k Key) bool {
	return (d.Step == AllSteps || d.Step == k.Step) && !slices.Contains(d.Keep, k)
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Shard, b.Shard))
}
