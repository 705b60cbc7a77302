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
	// StopCancelled, StopFenced, StopDeadline and StopHardTimeout answer Readopted: the runner must let go of the step.
	// After StopFenced it leaves the model call alone, since another attempt has joined it.
	StopCancelled   Answer = "cancelled"
	StopFenced      Answer = "fenced"
	StopDeadline    Answer = "deadline"
	StopHardTimeout Answer = "hard_timeout"
)

// Outcome is what came of an event.
type Outcome struct {
	Answer Answer
	// Effects are to be carried out in their order.
	Effects []Effect
}

// Apply carries out one event on a run and the rows concerned, at the group's time now, and says what else is to be done.
// Random returns a number in [0, 1), for jitter. When an error is returned, nothing was changed: *StaleError for a claim
// or generation that is over, *IllegalError for an event that the state does not allow, *MissingError for rows that Wants
// named and the caller did not load.
func Apply(p *Plan, run *Run, rows *Rows, ev Event, now time.Time, random func() float64) (Outcome, error) {
	c := &change{plan: p, run: run, rows: rows, now: now, random: random, kind: ev.Kind(), cause: ev.Kind()}
	answer, err := c.apply(ev)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Answer: answer, Effects: c.effects}, nil
}

// change is one event being applied.
type change struct {
	plan   *Plan
	run    *Run
	rows   *Rows
	now    time.Time
	random func() float64

	kind  Kind
	actor Actor
	// cause is the event by which the run's own state changes: the kind, or what follows from it.
	cause   Kind
	effects []Effect
}

func (c *change) apply(ev Event) (Answer, error) {
	if err := c.loaded(ev); err != nil {
		return "", err
	}
	switch e := ev.(type) {
	case Dispatched:
		return c.dispatched(e)
	case Overdue:
		return c.overdue(e)
	case Claimed:
		return c.claimed(e)
	case Readopted:
		return c.readopted(e)
	case Released:
		return c.released(e)
	case LeaseExpired:
		return c.leaseExpired(e)
	case HardTimeout:
		return c.hardTimeout(e)
	case RetryDue:
		return c.retryDue(e)
	case Woken:
		return c.woken(e)
	default:
		return c.applyOutcome(ev)
	}
}

// applyOutcome takes what a runner reports of an attempt.
func (c *change) applyOutcome(ev Event) (Answer, error) {
	switch e := ev.(type) {
	case Succeeded:
		return c.succeeded(e)
	case Skipped:
		return c.skipped(e)
	case Expanded:
		return c.expanded(e)
	case Parked:
		return c.parked(e)
	case Ambiguous:
		return c.ambiguous(e)
	case FailedTransient:
		return c.failedTransient(e)
	case FailedPermanent:
		return c.failedPermanent(e)
	case BudgetExceeded:
		return c.budgetExceeded(e)
	case ReviewRequested:
		return c.reviewRequested(e)
	default:
		return c.applyToRun(ev)
	}
}

// applyToRun takes what happens to the run as a whole, and what people decide.
func (c *change) applyToRun(ev Event) (Answer, error) {
	switch e := ev.(type) {
	case Created:
		return c.created()
	case DeadlinePassed:
		return c.deadlinePassed()
	case CancelRequested:
		return c.cancelRequested(e)
	case Promoted:
		return c.promoted(e)
	case Paused:
		return c.hold(e.Actor, true)
	case Resumed:
		return c.hold(e.Actor, false)
	case OperatorRetry:
		return c.operatorRetry(e)
	case OperatorCorrect:
		return c.operatorCorrect(e)
	case OperatorClose:
		return c.operatorClose(e)
	case RerunFrom:
		return c.rerunFrom(e)
	default:
		return "", c.illegalRun("there is no such event")
	}
}

func (c *change) head(step int) *Head { return &c.run.State.Heads[step] }

func (c *change) ending() bool { return c.run.State.Ending != nil }

// ref names the step, or with AllSteps the run, in its current generation.
func (c *change) ref(k Key) Ref {
	if k.Step == AllSteps {
		return Ref{Key: k}
	}
	return Ref{Key: k, Generation: c.head(k.Step).Generation}
}

func (c *change) emit(e Effect) { c.effects = append(c.effects, e) }

// at returns the row that an event names, if the table takes the event in its state.
func (c *change) at(ref Ref) (Live, error) {
	l, err := c.find(ref)
	if err != nil {
		return Live{}, err
	}
	if !stepMay(c.kind, l.Status) {
		return Live{}, &IllegalError{Event: c.kind, State: string(l.Status)}
	}
	return l, nil
}

// find returns the row that an event names.
func (c *change) find(ref Ref) (Live, error) {
	if ref.Step < 0 || ref.Step >= len(c.plan.Steps) || ref.Shard < Whole {
		return Live{}, &IllegalError{Event: c.kind, State: string(c.run.Status), Why: "there is no such step"}
	}
	head := c.head(ref.Step)
	if ref.Generation != head.Generation {
		return Live{}, &StaleError{Event: c.kind, Why: "the step is in another generation"}
	}
	l, ok := c.rows.Get(ref.Key)
	if !ok {
		return Live{}, &StaleError{Event: c.kind, Why: "the step is " + string(head.Phase)}
	}
	return l, nil
}

func (c *change) mayRun() error {
	if !runMay(c.kind, c.run.Status) {
		return c.illegalRun("")
	}
	return nil
}

func (c *change) illegalRun(why string) error {
	return &IllegalError{Event: c.kind, State: string(c.run.Status), Why: why}
}
