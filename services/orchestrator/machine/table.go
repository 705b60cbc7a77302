package machine

import "slices"

// StepTransition is a row of the table of steps: the event is taken in each of the states From, and leads to one of To; no
// To means that the state stays. What leads to a state of the run that ends or waits stands in the table of runs. An event
// is refused in the states that no row of it names, or, where it has been applied before, answered without a change.
type StepTransition struct {
	On   Kind
	From []StepStatus
	To   []StepStatus
	Note string
}

// RunTransition is a row of the table of runs, read like StepTransition.
type RunTransition struct {
	On   Kind
	From []RunStatus
	To   []RunStatus
	Note string
}

var (
	// claimed are the states in which an outcome is taken: from the holder of a claim; and from one whose lease ran out, or
	// whose claim a crash of PostgreSQL forgot, as long as nobody has claimed the step since. Finished work is never
	// thrown away.
	claimed = []StepStatus{StepRunning, StepReady, StepQueued} //nolint:gochecknoglobals // constant

	// unfinished are the states that an end of the run cancels.
	unfinished = []StepStatus{ //nolint:gochecknoglobals // constant
		StepPending, StepReady, StepQueued, StepRunning, StepBackoff, StepExpanded, StepWaiting, StepNeedsReview,
	}

	// doubtful are the states in which an earlier attempt may have made an outside effect without telling.
	doubtful = []StepStatus{StepReady, StepQueued, StepBackoff, StepWaiting} //nolint:gochecknoglobals // constant

	// notEnded are the states of a run that has not ended.
	notEnded = []RunStatus{RunQueued, RunRunning, RunNeedsReview, RunCompensating} //nolint:gochecknoglobals // constant
)

var stepTable = []StepTransition{ //nolint:gochecknoglobals // the table: constant
	{KindCreated, steps(StepPending), steps(StepReady, StepWaiting), "needs nothing; WAITING until not_before"},
	{KindDispatched, steps(StepReady), steps(StepQueued), "its id goes to a stream"},
	{KindOverdue, steps(StepQueued), nil, "the stream lost its entry: it is added again"},
	{KindClaimed, steps(StepQueued), steps(StepRunning), "attempt + 1; the same fence again is granted again"},
	{KindReadopted, claimed, steps(StepRunning), "a heartbeat lists it, although the lease ran out or a crash forgot the claim"},

	{KindSucceeded, claimed, steps(StepDone), "dependents whose needs are finished become READY"},
	{KindSkipped, claimed, steps(StepSkipped), "its condition was false; counts as finished"},
	{KindExpanded, claimed, steps(StepExpanded, StepDone), "the first shards are READY; DONE with an empty list"},
	{KindFailedTransient, claimed, steps(StepBackoff, StepFailed, StepNeedsReview), "BACKOFF for max(backoff with jitter, retry_after) while attempts last and the deadline is not before; else as FailedPermanent"},
	{KindFailedPermanent, claimed, steps(StepFailed, StepNeedsReview), "as on_error says; never retried; NEEDS_REVIEW when an outside effect is in doubt"},
	{KindAmbiguous, claimed, steps(StepBackoff, StepFailed, StepNeedsReview), "as on_ambiguous says; the only event that allows another call"},
	{KindBudgetExceeded, claimed, steps(StepFailed, StepNeedsReview), "as FailedPermanent, but continue does not apply"},
	{KindReviewRequested, claimed, steps(StepNeedsReview), "the result so far is kept"},
	{KindParked, claimed, steps(StepWaiting), "the attempt is given back"},
	{KindReleased, claimed, steps(StepReady), "the attempt is given back"},
	{KindParked, claimed, steps(StepCancelled, StepNeedsReview), "of a run that is ending"},
	{KindParked, claimed, steps(StepFailed, StepNeedsReview), "a wait that the other side asked for ends after the deadline: the run ends now"},
	{KindReleased, claimed, steps(StepCancelled, StepNeedsReview), "of a run that is ending"},

	{KindLeaseExpired, steps(StepRunning), steps(StepReady, StepFailed, StepNeedsReview), "READY until max_lost losses; then FailedPermanent(worker_lost)"},
	{KindHardTimeout, steps(StepRunning), steps(StepBackoff, StepFailed, StepNeedsReview), "as FailedTransient(step_timeout)"},
	{KindRetryDue, steps(StepBackoff), steps(StepReady), "the backoff is over"},
	{KindWoken, steps(StepWaiting), steps(StepReady), "its time has come, or what it waits for may have happened"},

	{KindStepFinished, steps(StepPending), steps(StepReady), "the last that it needs"},
	{KindStepFinished, steps(StepExpanded), steps(StepDone), "its last shard"},
	{KindStepFailed, steps(StepExpanded), steps(StepFailed), "one of its shards"},
	{KindStepFailed, unfinished, steps(StepCancelled), "the run ends; but a RUNNING outside effect is awaited"},
	{KindStepFailed, doubtful, steps(StepNeedsReview), "the run ends, and an outside effect is in doubt"},
	{KindDeadlinePassed, unfinished, steps(StepCancelled), "but a RUNNING outside effect is awaited"},
	{KindDeadlinePassed, doubtful, steps(StepNeedsReview), "an outside effect is in doubt"},
	{KindCancelRequested, unfinished, steps(StepCancelled), "but a RUNNING outside effect is awaited"},
	{KindCancelRequested, doubtful, steps(StepNeedsReview), "an outside effect is in doubt"},

	{KindPromoted, steps(StepQueued), steps(StepReady), "in the new class, as are all others in their states"},
	{KindOperatorRetry, steps(StepNeedsReview), steps(StepReady), "same data; failures, losses and calls are counted anew"},
	{KindOperatorRetry, steps(StepFailed, StepCancelled), steps(StepReady), "of a FAILED run that is opened again"},
	{KindOperatorRetry, steps(StepCancelled), steps(StepPending), "of a FAILED run that is opened again"},
	{KindOperatorCorrect, steps(StepNeedsReview), steps(StepDone, StepReady), "DONE with a corrected output, READY with a corrected input"},
	{KindOperatorClose, steps(StepNeedsReview, StepPending, StepExpanded), steps(StepCancelled), "whatever is in doubt"},
	{KindOperatorClose, steps(StepNeedsReview, StepExpanded), steps(StepFailed), "an undo that is given up"},
	{KindRerunFrom, steps(StepExpanded, StepNeedsReview, StepDone, StepSkipped, StepFailed, StepCancelled, StepCompensated), steps(StepPending, StepReady), "that step and all that depend on it, in generation + 1; also what was CANCELLED beside them"},
	{KindRerunFrom, steps(StepPending), steps(StepReady), "when the effects are undone"},
	{KindRerunFrom, steps(StepCancelled), steps(StepWaiting), "until not_before"},

	{KindUndoBegun, steps(StepPending), steps(StepReady, StepExpanded), "an undo step, when its turn has come"},
	{KindUndoDone, steps(StepDone, StepFailed, StepCancelled), steps(StepCompensated), "the step whose effects were undone; FAILED or CANCELLED: a fan-out's of which some shards were DONE"},
}

var runTable = []RunTransition{ //nolint:gochecknoglobals // the table: constant
	{KindCreated, runs(RunQueued), nil, "the first steps are READY"},
	{KindClaimed, runs(RunQueued), runs(RunRunning), "the first claim begins the run"},

	{KindStepFinished, runs(RunRunning, RunNeedsReview), runs(RunDone), "it was the last"},
	{KindStepFinished, runs(RunRunning), runs(RunNeedsReview), "all that is left waits for a person"},
	{KindStepFinished, runs(RunNeedsReview), runs(RunRunning), "corrected: others can go on"},
	{KindStepFinished, runs(RunRunning, RunNeedsReview), runs(RunCompensating, RunFailed, RunCancelled), "it was awaited by a run that is ending"},
	{KindStepFailed, runs(RunRunning), runs(RunFailed, RunCompensating), "COMPENSATING if on_failure says so and there is an effect to undo; first, a RUNNING outside effect is awaited"},
	{KindStepFailed, runs(RunRunning), runs(RunCancelled, RunNeedsReview), "it was awaited by a run that is ending; NEEDS_REVIEW when an outside effect is in doubt"},
	{KindReviewOpened, runs(RunRunning, RunCompensating), runs(RunNeedsReview), "nothing else can move: the deadline's clock stands still"},

	{KindDeadlinePassed, runs(RunQueued, RunRunning), runs(RunFailed), "deadline_exceeded; first, a RUNNING outside effect is awaited"},
	{KindDeadlinePassed, runs(RunRunning), runs(RunCompensating, RunNeedsReview), "as with StepFailed"},
	{KindCancelRequested, runs(RunQueued, RunRunning, RunNeedsReview), runs(RunCancelled), "first, a RUNNING outside effect is awaited"},
	{KindCancelRequested, runs(RunRunning, RunNeedsReview), runs(RunCompensating), "if the request or on_cancel asks for undo"},
	{KindCancelRequested, runs(RunRunning), runs(RunNeedsReview), "an outside effect is in doubt"},
	{KindPromoted, notEnded, nil, "goes on in the new class"},
	{KindPaused, notEnded, nil, "READY steps are not dispatched; the deadline runs"},
	{KindResumed, notEnded, nil, "READY steps are dispatched again"},

	{KindOperatorRetry, runs(RunRunning, RunCompensating), nil, "a step in review runs again"},
	{KindOperatorRetry, runs(RunNeedsReview), runs(RunRunning, RunCompensating), "a step, or an undo, in review runs again"},
	{KindOperatorRetry, runs(RunFailed), runs(RunQueued, RunRunning, RunDone), "opened again with a new deadline; refused when something was undone"},
	{KindOperatorCorrect, runs(RunRunning, RunCompensating), nil, "as StepFinished or UndoDone"},
	{KindOperatorCorrect, runs(RunNeedsReview), runs(RunRunning, RunCompensating), "runs again with a corrected input; else as StepFinished or UndoDone"},
	{KindOperatorClose, runs(RunNeedsReview), runs(RunFailed, RunCancelled, RunCompensating), "FAILED(closed_by_operator), after undo if asked; an end that was decided before stays"},
	{KindRerunFrom, runs(RunDone, RunFailed, RunCancelled, RunNeedsReview), runs(RunRunning, RunCompensating), "COMPENSATING first when there are effects to undo"},
	{KindRerunFrom, runs(RunFailed, RunCancelled), runs(RunQueued), "it had not begun"},

	{KindUndoDone, runs(RunCompensating, RunNeedsReview), runs(RunFailed, RunCancelled, RunRunning), "it was the last: the end, or the rerun"},
	{KindUndoDone, runs(RunCompensating), runs(RunNeedsReview), "all that is left waits for a person"},
	{KindUndoDone, runs(RunNeedsReview), runs(RunCompensating), "the next undo, in reverse order"},
	{KindUndoFailed, runs(RunCompensating), runs(RunNeedsReview), "a person decides"},
}

// StepTable returns the transitions of steps and shards.
func StepTable() []StepTransition { return slices.Clone(stepTable) }

// RunTable returns the transitions of runs.
func RunTable() []RunTransition { return slices.Clone(runTable) }

// stepMay reports whether the table takes the event in that state of a step.
func stepMay(on Kind, from StepStatus) bool {
	for i := range stepTable {
		if stepTable[i].On == on && slices.Contains(stepTable[i].From, from) {
			return true
		}
	}
	return false
}

// runMay reports whether the table takes the event in that state of a run.
func runMay(on Kind, from RunStatus) bool {
	for i := range runTable {
		if runTable[i].On == on && slices.Contains(runTable[i].From, from) {
			return true
		}
	}
	return false
}

func steps(s ...StepStatus) []StepStatus { return s }
func runs(s ...RunStatus) []RunStatus    { return s }
