package machine

import "time"

// Answer says what became of an event that was not refused.
type Answer string

// The answers.
const (
	// Applied: the run or a row has changed.
	Applied Answer = "applied"
	// Already: the event had been applied before; nothing was changed.
	Already Answer = "already"
	// Granted: the claim is the runner's; also when it was before.
	Granted Answer = "granted"
	// Gone: there is nothing to claim; a new entry comes if there ever is again.
	Gone Answer = "gone"
	// Held: another runner has the step.
	Held Answer = "held"
	// StopCancelled, StopFenced, StopDeadline and StopHardTimeout: the runner must let go of what it listed.
	StopCancelled   Answer = "cancelled"
	StopFenced      Answer = "fenced"
	StopDeadline    Answer = "deadline"
	StopHardTimeout Answer = "hard_timeout"
)

// Outcome is what came of an event.
type Outcome struct {
	Answer  Answer
	Effects []Effect
}

// Apply carries out one event on a run and the rows concerned, at the group's time now, and says what else is to be done.
// Random returns a number in [0, 1), for jitter. When an error is returned, nothing was changed: *StaleError for a claim
// or generation that is over, *IllegalError for an event that the state does not allow.
func Apply(p *Plan, run *Run, rows *Rows, ev Event, now time.Time, random func() float64) (Outcome, error) {
	return Outcome{}, &IllegalError{Event: ev.Kind(), State: string(run.Status)}
}
