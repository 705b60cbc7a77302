package machine

import "time"

// Run is the head of a run, as core.pipeline_run stores it. Zero times are NULL.
type Run struct {
	Status RunStatus
	// Reason and Detail say why the run failed, was cancelled or waits for a person; empty otherwise.
	Reason Reason
	Detail string
	Class  Class
	State  State
	// StepsDone counts the finished steps of the pipeline (a fan-out is one step).
	StepsDone int
	// SpendEpoch grows when an ended run is opened again; the gateway ignores older epochs.
	SpendEpoch int
	// Seq is the number of the run's newest journal entry.
	Seq int64
	// Undo is what became of the effects; empty until the run has FAILED or was CANCELLED.
	Undo Undo

	CreatedAt, NotBefore, StartedAt, FinishedAt time.Time
	// DeadlineAt is when the run is ended; it moves by the time spent in NEEDS_REVIEW (since PausedAt).
	DeadlineAt, PausedAt time.Time
	// CancelRequestedAt is when a person or a batch asked to stop.
	CancelRequestedAt time.Time
}

// State is the compact part of a run's head: one column, so that readiness needs no other rows.
type State struct {
	// Heads has one entry a step, in the plan's order.
	Heads []Head
	// Ending is how the run will end once running outside effects and undo steps have ended; nil while that is open.
	Ending *Ending
	// Held says that the run's batch or pipeline is paused: its READY steps are not dispatched.
	Held bool
}

// Head is what a run's head knows of one step.
type Head struct {
	Phase Phase
	// Generation grows with every rerun; the first is 1.
	Generation int
	// EndedSeq is the journal number under which the step ended: effects are undone in its reverse order.
	EndedSeq int64
	// Tolerated tells a step that FAILED under on_error continue, and so is finished, from one that ended the run.
	Tolerated bool
	// Reason is that of the newest review or failure of the step or its shards.
	Reason Reason
	// Shards counts the shards of a fan-out; zero before it is expanded.
	Shards Shards
}

// Shards counts the shards of a fan-out by state. The rest of Total is PENDING.
type Shards struct {
	Total   int
	Done    int
	Skipped int
	Failed  int
	Active  int // READY, QUEUED, RUNNING or BACKOFF: what concurrency bounds
	Waiting int
	Review  int
	// Next is a lower bound of the index of the next PENDING shard; for an undo, which goes backwards, an upper one.
	Next int
}

// Ending is a decided end of a run.
type Ending struct {
	// Status is FAILED or CANCELLED; RUNNING when effects are undone in order to run again from Step.
	Status RunStatus
	Reason Reason
	Detail string
	// Step is the step that failed, or from which the run is to run again; AllSteps if the run itself was ended.
	Step int
	// Undo says that effects are to be undone first.
	Undo bool
}

// finished reports whether the step counts as finished: steps that need it may run.
func (h *Head) finished() bool {
	return h.Phase == PhaseDone || h.Phase == PhaseSkipped || h.Phase == PhaseFailed && h.Tolerated
}

// moving reports whether something of the step can move without a person.
func (h *Head) moving() bool {
	return h.Phase == PhaseLive || h.Phase == PhaseExpanded && h.Shards.Active+h.Shards.Waiting > 0
}

// inReview reports whether something of the step waits for a person.
func (h *Head) inReview() bool {
	return h.Phase == PhaseNeedsReview || h.Phase == PhaseExpanded && h.Shards.Review > 0
}

// DeadlineDue returns when DeadlinePassed is to happen; zero while it does not apply: the run has ended or is ending, or it
// waits for a person.
func (r *Run) DeadlineDue() time.Time {
	if r.State.Ending != nil || !runMay(KindDeadlinePassed, r.Status) {
		return time.Time{}
	}
	return r.DeadlineAt
}

// CurrentStep returns the index of the first step in pipeline order that is not finished; false when the run has ended.
func (r *Run) CurrentStep(p *Plan) (int, bool) {
	if r.Status.Terminal() {
		return 0, false
	}
	for i := range p.Total {
		if !r.State.Heads[i].finished() {
			return i, true
		}
	}
	return 0, false
}

// MarshalJSON returns the stable, compact form that is stored.
func (s State) MarshalJSON() ([]byte, error) { return marshalState(s) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *State) UnmarshalJSON(text []byte) error { return unmarshalState(text, s) }

// NewRun returns the head of a run before its first event, which is Created. A deadline of 0 is the plan's; notBefore may
// be zero.
func NewRun(p *Plan, class Class, now, notBefore time.Time, deadline time.Duration) *Run {
	if deadline == 0 {
		deadline = p.Deadline
	}
	begin := now
	if notBefore.After(now) {
		begin = notBefore
	}
	run := &Run{
		Status: RunQueued, Class: class, SpendEpoch: 1,
		CreatedAt: now, NotBefore: notBefore, DeadlineAt: begin.Add(deadline),
	}
	run.State.Heads = make([]Head, len(p.Steps))
	for i := range run.State.Heads {
		run.State.Heads[i] = Head{Phase: PhasePending, Generation: 1}
	}
	return run
}
