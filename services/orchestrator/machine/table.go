package machine

import "slices"

// StepTransition is a row of the table of steps: the event is taken in the states From, and leads to one of To. In any
// other state it is refused, or, where it has been applied before, answered without a change.
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

// Outcomes are taken from the holder of a claim; also from one whose lease ran out, or whose claim a crash of PostgreSQL
// forgot, as long as nobody has claimed the step since: finished work is never thrown away.
var claimed = []StepStatus{StepRunning, StepReady, StepQueued} //nolint:gochecknoglobals // constant

// failure is what a failed attempt may lead to when nothing is tried again.
var failure = []StepStatus{StepFailed, StepNeedsReview} //nolint:gochecknoglobals // constant

var stepTable = []StepTransition{ //nolint:gochecknoglobals // the table: constant
	{KindDispatched, in(StepReady), in(StepQueued), "its id goes to a stream"},
	{KindClaimed, in(StepQueued), in(StepRunning), "attempt + 1; the same fence again is granted again"},
	{KindReadopted, claimed, in(StepRunning), "a heartbeat lists a claim whose lease had run out, or which a crash forgot"},
	{KindSucceeded, claimed, in(StepDone), "dependents whose needs are finished become READY; the last one ends the run"},
	{KindSkipped, claimed, in(StepSkipped), "its condition was false; counts as finished"},
	{KindExpanded, claimed, in(StepExpanded, StepDone), "the first shards READY; DONE with an empty list"},
	{KindParked, claimed, in(StepWaiting, StepCancelled, StepNeedsReview), "the attempt is given back; CANCELLED when the run is ending"},
	{KindWoken, in(StepWaiting), in(StepReady), "its time has come, or what it waits for may have happened"},
	{KindHardTimeout, in(StepRunning), or(failure, StepBackoff), "as FailedTransient(step_timeout)"},
	{KindAmbiguous, claimed, or(failure, StepBackoff), "as on_ambiguous says; the only event that allows another call"},
	{KindFailedTransient, claimed, or(failure, StepBackoff), "retried after max(backoff with jitter, retry_after) while attempts last, never past the deadline"},
	{KindFailedPermanent, claimed, failure, "as on_error says; never retried"},
	{KindBudgetExceeded, claimed, failure, "NEEDS_REVIEW if on_error says so; else it ends the run"},
	{KindReviewRequested, claimed, in(StepNeedsReview), "the result so far is kept"},
	{KindReleased, claimed, in(StepReady, StepCancelled, StepNeedsReview), "the attempt is given back; CANCELLED when the run is ending"},
	{KindLeaseExpired, in(StepRunning), or(failure, StepReady), "FAILED or NEEDS_REVIEW(worker_lost) after max_lost losses"},
	{KindOverdue, in(StepQueued), in(StepQueued), "its id is added to the stream again"},
	{KindRetryDue, in(StepBackoff), in(StepReady), "the backoff is over"},
	{KindPromoted, in(StepReady, StepQueued), in(StepReady), "in the new class; other states keep theirs"},
	{KindOperatorRetry, in(StepNeedsReview), in(StepReady), "same data; failures, losses and calls start anew"},
	{KindOperatorRetry, in(StepFailed, StepCancelled), in(StepReady, StepPending), "of a FAILED run that is opened again"},
	{KindOperatorCorrect, in(StepNeedsReview), in(StepDone, StepReady), "DONE with a corrected output, READY with a corrected input"},
	{KindOperatorClose, in(StepNeedsReview, StepPending, StepExpanded), in(StepCancelled, StepFailed), "FAILED: an undo that is given up"},
	{KindRerunFrom, in(StepPending, StepExpanded, StepNeedsReview, StepDone, StepSkipped, StepFailed, StepCancelled, StepCompensated), in(StepPending, StepReady, StepWaiting), "that step and all that depend on it, in generation + 1"},
	{KindCreated, in(StepPending), in(StepReady, StepWaiting), "what needs nothing; WAITING until not_before"},
	{KindStepFinished, in(StepPending), in(StepReady), "all that it needs is finished"},
	{KindStepFinished, in(StepExpanded), in(StepDone), "of the last shard"},
	{KindStepFailed, in(StepExpanded), in(StepFailed), "of a shard, under on_error fail"},
	{KindStepFailed, unfinished(), in(StepCancelled, StepNeedsReview), "the run ends: as with CancelRequested"},
	{KindDeadlinePassed, unfinished(), in(StepCancelled, StepNeedsReview), "as with CancelRequested"},
	{KindCancelRequested, unfinished(), in(StepCancelled, StepNeedsReview), "a RUNNING outside effect is awaited; one of unknown fate goes to NEEDS_REVIEW"},
	{KindUndoBegun, in(StepPending), in(StepReady, StepExpanded), "an undo step, when its turn has come"},
	{KindUndoDone, in(StepDone, StepFailed, StepCancelled), in(StepCompensated), "the step that was undone"},
}

var runTable = []RunTransition{ //nolint:gochecknoglobals // the table: constant
	{KindCreated, inRun(RunQueued), inRun(RunQueued), "the first steps are READY"},
	{KindClaimed, inRun(RunQueued), inRun(RunRunning), "the first claim begins the run"},
	{KindStepFinished, inRun(RunQueued, RunRunning, RunNeedsReview), inRun(RunRunning, RunDone, RunNeedsReview, RunCompensating, RunFailed, RunCancelled), "DONE when it was the last; NEEDS_REVIEW when all that is left waits for a person; when the run is ending, as the end was decided"},
	{KindStepFailed, inRun(RunQueued, RunRunning), inRun(RunRunning, RunFailed, RunCancelled, RunCompensating, RunNeedsReview), "first a RUNNING outside effect is awaited, then effects are undone if on_failure says so"},
	{KindReviewOpened, inRun(RunQueued, RunRunning), inRun(RunRunning, RunNeedsReview), "NEEDS_REVIEW when nothing else can move: the deadline's clock stands still"},
	{KindDeadlinePassed, inRun(RunQueued, RunRunning), inRun(RunRunning, RunFailed, RunCompensating, RunNeedsReview), "FAILED(deadline_exceeded), as with StepFailed"},
	{KindCancelRequested, inRun(RunQueued, RunRunning, RunNeedsReview), inRun(RunRunning, RunCancelled, RunCompensating, RunNeedsReview), "as with StepFailed, if the request or on_cancel asks for undo"},
	{KindPromoted, unfinishedRun(), unfinishedRun(), "no change of state: the run goes on in the new class"},
	{KindPaused, unfinishedRun(), unfinishedRun(), "no change of state: READY steps are not dispatched; the deadline runs"},
	{KindResumed, unfinishedRun(), unfinishedRun(), "no change of state"},
	{KindOperatorRetry, inRun(RunRunning, RunNeedsReview, RunCompensating), inRun(RunRunning, RunCompensating), "a step or undo in review runs again"},
	{KindOperatorRetry, inRun(RunFailed), inRun(RunQueued, RunRunning, RunDone), "opened again with a new deadline; refused when something was undone"},
	{KindOperatorCorrect, inRun(RunRunning, RunNeedsReview, RunCompensating), inRun(RunRunning, RunDone, RunNeedsReview, RunCompensating, RunFailed, RunCancelled), "as with StepFinished, StepFailed or UndoDone"},
	{KindOperatorClose, inRun(RunNeedsReview), inRun(RunFailed, RunCancelled, RunCompensating), "FAILED(closed_by_operator), after undo if asked; an end that was decided before stays"},
	{KindRerunFrom, inRun(RunDone, RunFailed, RunCancelled, RunNeedsReview), inRun(RunQueued, RunRunning, RunNeedsReview, RunCompensating), "COMPENSATING first when there are effects to undo"},
	{KindUndoDone, inRun(RunCompensating, RunNeedsReview), inRun(RunCompensating, RunFailed, RunCancelled, RunRunning, RunNeedsReview), "the next undo, in reverse order; after the last one the end, or the rerun"},
	{KindUndoFailed, inRun(RunCompensating), inRun(RunCompensating, RunNeedsReview), "a person decides"},
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

func in(s ...StepStatus) []StepStatus                    { return s }
func or(s []StepStatus, more ...StepStatus) []StepStatus { return append(slices.Clone(s), more...) }
func inRun(s ...RunStatus) []RunStatus                   { return s }

func unfinished() []StepStatus {
	return in(StepPending, StepReady, StepQueued, StepRunning, StepBackoff, StepExpanded, StepWaiting, StepNeedsReview)
}

func unfinishedRun() []RunStatus {
	return inRun(RunQueued, RunRunning, RunNeedsReview, RunCompensating)
}
