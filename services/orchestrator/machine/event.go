package machine

import "time"

// Kind names an event, in the tables and in the journal.
type Kind string

// The events of a step or shard.
const (
	KindDispatched      Kind = "dispatched"
	KindClaimed         Kind = "claimed"
	KindReadopted       Kind = "readopted"
	KindSucceeded       Kind = "succeeded"
	KindSkipped         Kind = "skipped"
	KindExpanded        Kind = "expanded"
	KindParked          Kind = "parked"
	KindWoken           Kind = "woken"
	KindHardTimeout     Kind = "hard_timeout"
	KindAmbiguous       Kind = "ambiguous"
	KindFailedTransient Kind = "failed_transient"
	KindFailedPermanent Kind = "failed_permanent"
	KindBudgetExceeded  Kind = "budget_exceeded"
	KindReviewRequested Kind = "review_requested"
	KindReleased        Kind = "released"
	KindLeaseExpired    Kind = "lease_expired"
	KindOverdue         Kind = "overdue"
	KindRetryDue        Kind = "retry_due"
)

// The events of a run.
const (
	KindCreated         Kind = "created"
	KindDeadlinePassed  Kind = "deadline_passed"
	KindCancelRequested Kind = "cancel_requested"
	KindPromoted        Kind = "promoted"
	KindPaused          Kind = "paused"
	KindResumed         Kind = "resumed"
	KindOperatorRetry   Kind = "operator_retry"
	KindOperatorCorrect Kind = "operator_correct"
	KindOperatorClose   Kind = "operator_close"
	KindRerunFrom       Kind = "rerun_from"
)

// The events that follow from others: what the end of a step means for its run.
const (
	KindStepFinished Kind = "step_finished"
	KindStepFailed   Kind = "step_failed"
	KindReviewOpened Kind = "review_opened"
	KindUndoBegun    Kind = "undo_begun"
	KindUndoDone     Kind = "undo_done"
	KindUndoFailed   Kind = "undo_failed"
)

// AllKinds lists the events: those of steps, those of runs, and those that follow from others.
func AllKinds() []Kind {
	return []Kind{
		KindDispatched, KindClaimed, KindReadopted, KindSucceeded, KindSkipped, KindExpanded, KindParked, KindWoken,
		KindHardTimeout, KindAmbiguous, KindFailedTransient, KindFailedPermanent, KindBudgetExceeded, KindReviewRequested,
		KindReleased, KindLeaseExpired, KindOverdue, KindRetryDue,
		KindCreated, KindDeadlinePassed, KindCancelRequested, KindPromoted, KindPaused, KindResumed,
		KindOperatorRetry, KindOperatorCorrect, KindOperatorClose, KindRerunFrom,
		KindStepFinished, KindStepFailed, KindReviewOpened, KindUndoBegun, KindUndoDone, KindUndoFailed,
	}
}

// Event is something that happened to a run, or to one of its steps.
type Event interface{ Kind() Kind }

// Ref names a step or shard in one generation.
type Ref struct {
	Key
	Generation int
}

func (r Ref) target() Ref { return r }

// Target returns the step or shard that an event is about; false for an event of the run as a whole.
func Target(ev Event) (Ref, bool) {
	about, ok := ev.(interface{ target() Ref })
	if !ok {
		return Ref{}, false
	}
	ref := about.target()
	return ref, ref.Step != AllSteps
}

// Claim is what a runner says of a claim that it has or had.
type Claim struct {
	Ref
	Fence   ID
	ClaimNo int
	Worker  ID
}

// Attempt is what every outcome says of the attempt that ended.
type Attempt struct {
	Claim
	// Calls is how many requests the attempt sent to models.
	Calls int
	// AsksSpent is how many questions got answers that must not be replayed, because the answers were at fault.
	AsksSpent int
}

// Actor is the person or part of the system behind a decision, with the reason given.
type Actor struct {
	Name    string
	Comment string
}

type (
	// Created begins a run: the steps that need nothing become READY, or WAITING until the run's NotBefore.
	Created struct{}

	// Dispatched says that a READY step's id goes to a stream.
	Dispatched struct{ Ref }

	// Claimed says that a runner wants a step under a fence that it has drawn.
	Claimed struct {
		Ref
		Fence  ID
		Worker ID
	}

	// Readopted says that a living runner lists a claim in its heartbeat.
	Readopted struct {
		Claim
		// PermitWait is how long the claim has waited for permits in all: the hard timeout stands still meanwhile.
		PermitWait time.Duration
	}

	// Succeeded says that the step has an output.
	Succeeded struct{ Attempt }

	// Skipped says that the step's condition was false.
	Skipped struct{ Attempt }

	// Expanded says that the step is a fan-out of Total shards.
	Expanded struct {
		Attempt
		Total int
	}

	// Parked says that the step waits without slot or lease until Until, or until Woken comes before.
	Parked struct {
		Attempt
		Until  time.Time
		Reason Reason
		Detail string
	}

	// Woken ends the wait of a parked step: its time has come, or what it waits for may have happened.
	Woken struct {
		Ref
		// Timed says that it is the timer's, which must have run out: the step may have been parked anew since it was set.
		Timed bool
	}

	// HardTimeout says that the claim has lasted too long.
	HardTimeout struct {
		Ref
		Fence ID
	}

	// Ambiguous says that the fate of a call, or of an outside effect, is unknown.
	Ambiguous struct {
		Attempt
		Detail string
	}

	// FailedTransient says that another attempt may help.
	FailedTransient struct {
		Attempt
		Reason Reason
		Detail string
		// RetryAfter is the wait that the other side asked for; 0 if none.
		RetryAfter time.Duration
	}

	// FailedPermanent says that no other attempt would help.
	FailedPermanent struct {
		Attempt
		Reason Reason
		Detail string
	}

	// BudgetExceeded says that the money for the step's next call is not there.
	BudgetExceeded struct {
		Attempt
		Detail string
	}

	// ReviewRequested says that a person must judge the result, which is kept.
	ReviewRequested struct {
		Attempt
		Reason Reason
		Detail string
	}

	// Released says that the runner hands the step back unexecuted; the attempt is not counted.
	Released struct{ Claim }

	// LeaseExpired says that the claim's runner has not been heard of for a whole lease.
	LeaseExpired struct {
		Ref
		Fence ID
	}

	// Overdue says that the stream has lost the step's entry.
	Overdue struct {
		Ref
		// QueuedBefore is when it was looked for: a step that was QUEUED again since is not overdue.
		QueuedBefore time.Time
	}

	// RetryDue says that a backoff is over.
	RetryDue struct{ Ref }

	// DeadlinePassed says that the run has used up its time.
	DeadlinePassed struct{}

	// CancelRequested stops the run.
	CancelRequested struct {
		Actor
		// Undo overrides the pipeline's on_cancel; nil leaves it.
		Undo *bool
	}

	// Promoted moves the run to another lane.
	Promoted struct {
		Actor
		Class Class
	}

	// Paused says that the run's batch or pipeline is paused.
	Paused struct{ Actor }

	// Resumed ends Paused.
	Resumed struct{ Actor }

	// OperatorRetry runs a step that waits for a person again, or opens a FAILED run again; the data stay the same.
	OperatorRetry struct {
		Actor
		// Ref is the step or shard in review. With step AllSteps it is all that are, or, in a FAILED run, all that did
		// not finish.
		Ref
		// BudgetRaised says that there is more money than when the run failed, or may be: a run without a budget has used
		// up its tenant's.
		BudgetRaised bool
	}

	// OperatorCorrect resolves a review with data of a person's.
	OperatorCorrect struct {
		Actor
		Ref
		// Input says that the step's input was corrected, so that it runs again; else its output, so that it is DONE.
		Input bool
	}

	// OperatorClose ends a run that waits for a person.
	OperatorClose struct {
		Actor
		// Undo says that the effects are to be undone first.
		Undo bool
	}

	// RerunFrom runs a step and all that depend on it again, in a new generation.
	RerunFrom struct {
		Actor
		Step int
		// Generation is the step's generation that is to be replaced.
		Generation int
		// KeepEffects leaves the outside effects of these steps in place; otherwise they are undone first.
		KeepEffects bool
	}
)

// Kind implements Event.
func (Created) Kind() Kind { return KindCreated }

// Kind implements Event.
func (Dispatched) Kind() Kind { return KindDispatched }

// Kind implements Event.
func (Claimed) Kind() Kind { return KindClaimed }

// Kind implements Event.
func (Readopted) Kind() Kind { return KindReadopted }

// Kind implements Event.
func (Succeeded) Kind() Kind { return KindSucceeded }

// Kind implements Event.
func (Skipped) Kind() Kind { return KindSkipped }

// Kind implements Event.
func (Expanded) Kind() Kind { return KindExpanded }

// Kind implements Event.
func (Parked) Kind() Kind { return KindParked }

// Kind implements Event.
func (Woken) Kind() Kind { return KindWoken }

// Kind implements Event.
func (HardTimeout) Kind() Kind { return KindHardTimeout }

// Kind implements Event.
func (Ambiguous) Kind() Kind { return KindAmbiguous }

// Kind implements Event.
func (FailedTransient) Kind() Kind { return KindFailedTransient }

// Kind implements Event.
func (FailedPermanent) Kind() Kind { return KindFailedPermanent }

// Kind implements Event.
func (BudgetExceeded) Kind() Kind { return KindBudgetExceeded }

// Kind implements Event.
func (ReviewRequested) Kind() Kind { return KindReviewRequested }

// Kind implements Event.
func (Released) Kind() Kind { return KindReleased }

// Kind implements Event.
func (LeaseExpired) Kind() Kind { return KindLeaseExpired }

// Kind implements Event.
func (Overdue) Kind() Kind { return KindOverdue }

// Kind implements Event.
func (RetryDue) Kind() Kind { return KindRetryDue }

// Kind implements Event.
func (DeadlinePassed) Kind() Kind { return KindDeadlinePassed }

// Kind implements Event.
func (CancelRequested) Kind() Kind { return KindCancelRequested }

// Kind implements Event.
func (Promoted) Kind() Kind { return KindPromoted }

// Kind implements Event.
func (Paused) Kind() Kind { return KindPaused }

// Kind implements Event.
func (Resumed) Kind() Kind { return KindResumed }

// Kind implements Event.
func (OperatorRetry) Kind() Kind { return KindOperatorRetry }

// Kind implements Event.
func (OperatorCorrect) Kind() Kind { return KindOperatorCorrect }

// Kind implements Event.
func (OperatorClose) Kind() Kind { return KindOperatorClose }

// Kind implements Event.
func (RerunFrom) Kind() Kind { return KindRerunFrom }
