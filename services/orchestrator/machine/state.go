package machine

import "slices"

// RunStatus is the state of a run, as stored and as shown.
type RunStatus string

// The states of a run.
const (
	RunQueued       RunStatus = "queued"       // accepted; no step has begun
	RunRunning      RunStatus = "running"      // a step has begun, and something can move
	RunNeedsReview  RunStatus = "needs_review" // nothing can move until a person decides; the deadline's clock stands still
	RunCompensating RunStatus = "compensating" // undo steps are running
	RunDone         RunStatus = "done"         // ended with a result
	RunFailed       RunStatus = "failed"       // ended without a result, with a reason
	RunCancelled    RunStatus = "cancelled"    // ended on request
)

// AllRunStatuses lists the states of a run in the order of a run's life.
func AllRunStatuses() []RunStatus {
	return []RunStatus{RunQueued, RunRunning, RunNeedsReview, RunCompensating, RunDone, RunFailed, RunCancelled}
}

// Terminal reports whether the run has ended; only OperatorRetry and RerunFrom open it again.
func (s RunStatus) Terminal() bool { return s == RunDone || s == RunFailed || s == RunCancelled }

// StepStatus is the state of a step or shard, as stored and as shown.
type StepStatus string

// The states of a step. Steps that are PENDING have no row, unless they are shards (the row holds the shard's item).
const (
	StepPending     StepStatus = "pending"      // waits for the steps it needs; a shard: for its turn
	StepReady       StepStatus = "ready"        // may run; waits in PostgreSQL to be dispatched
	StepQueued      StepStatus = "queued"       // its id is in a stream
	StepRunning     StepStatus = "running"      // claimed by a worker
	StepBackoff     StepStatus = "backoff"      // failed in passing; READY again when due
	StepExpanded    StepStatus = "expanded"     // a fan-out whose shards are running
	StepWaiting     StepStatus = "waiting"      // parked without slot or lease
	StepNeedsReview StepStatus = "needs_review" // waits for a person
	StepDone        StepStatus = "done"         // finished with an output
	StepSkipped     StepStatus = "skipped"      // finished without: its condition was false
	StepFailed      StepStatus = "failed"       // ended without a result, with a reason
	StepCancelled   StepStatus = "cancelled"    // stopped on request, or because the run ended
	StepCompensated StepStatus = "compensated"  // was DONE, and its undo has run
)

// AllStepStatuses lists the states of a step in the order of a step's life.
func AllStepStatuses() []StepStatus {
	return []StepStatus{
		StepPending, StepReady, StepQueued, StepRunning, StepBackoff, StepExpanded, StepWaiting, StepNeedsReview,
		StepDone, StepSkipped, StepFailed, StepCancelled, StepCompensated,
	}
}

// LiveStatuses lists the states in which a step or shard has a row in core.step_live.
func LiveStatuses() []StepStatus {
	return []StepStatus{
		StepPending, StepReady, StepQueued, StepRunning, StepBackoff, StepExpanded, StepWaiting, StepNeedsReview,
	}
}

// Live reports whether a step or shard in this state has a row in core.step_live (PENDING: only a shard).
func (s StepStatus) Live() bool { return slices.Contains(LiveStatuses(), s) }

// Phase is what the head of a run knows of a step. The states that change most often are one phase, so that a dispatch or
// a claim writes one row and not two: which of them it is, says the step's row.
type Phase string

// The phases of a step.
const (
	PhasePending     Phase = "pending"
	PhaseLive        Phase = "live" // READY, QUEUED, RUNNING, BACKOFF or WAITING, as the step's row says
	PhaseExpanded    Phase = "expanded"
	PhaseNeedsReview Phase = "needs_review"
	PhaseDone        Phase = "done"
	PhaseSkipped     Phase = "skipped"
	PhaseFailed      Phase = "failed"
	PhaseCancelled   Phase = "cancelled"
	PhaseCompensated Phase = "compensated"
)

// AllPhases lists the phases in the order of a step's life.
func AllPhases() []Phase {
	return []Phase{
		PhasePending, PhaseLive, PhaseExpanded, PhaseNeedsReview,
		PhaseDone, PhaseSkipped, PhaseFailed, PhaseCancelled, PhaseCompensated,
	}
}

// live reports whether a step in this phase has a row of its own.
func (p Phase) live() bool { return p == PhaseLive || p == PhaseExpanded || p == PhaseNeedsReview }

// Phase returns the phase that stands for the state.
func (s StepStatus) Phase() Phase {
	switch s {
	case StepReady, StepQueued, StepRunning, StepBackoff, StepWaiting:
		return PhaseLive
	case StepPending, StepExpanded, StepNeedsReview, StepDone, StepSkipped, StepFailed, StepCancelled, StepCompensated:
		return Phase(s)
	}
	return Phase(s)
}

// Undo says what became of the outside effects of a run that FAILED or was CANCELLED.
type Undo string

// What became of the effects that declare an undo.
const (
	UndoNone   Undo = "none"    // nothing was undone
	UndoneAll  Undo = "done"    // everything that declares an undo was undone
	UndonePart Undo = "partial" // a person closed the run before everything was undone
)

// AllUndos lists the values of Undo.
func AllUndos() []Undo { return []Undo{UndoNone, UndoneAll, UndonePart} }

// Class is the lane of a run.
type Class string

// The lanes.
const (
	Interactive Class = "interactive"
	Batch       Class = "batch"
)

// AllClasses lists the lanes.
func AllClasses() []Class { return []Class{Interactive, Batch} }
