package machine

import "time"

// OnError says what a step's failure means for the run.
type OnError string

// The policies for failures.
const (
	FailRun       OnError = "fail"     // the run ends
	ContinueRun   OnError = "continue" // the output is null, and the step counts as finished
	ReviewFailure OnError = "review"   // a person decides
)

// OnAmbiguous says what follows when the fate of a model call is unknown.
type OnAmbiguous string

// The policies for calls of unknown fate.
const (
	RetryAmbiguous  OnAmbiguous = "retry" // another call, once a generation; then as a permanent failure
	ReviewAmbiguous OnAmbiguous = "review"
	FailAmbiguous   OnAmbiguous = "fail"
)

// Plan is what the machine must know of a compiled pipeline. It never changes, and is shared by all runs of a version.
type Plan struct {
	// Steps are the pipeline's steps in its order, followed by the undo steps that they declare.
	Steps []Step
	// Total is the number of the pipeline's own steps: Steps[Total:] are undo steps.
	Total int
	// Deadline is how long a run may take, counted from max(created_at, not_before); also after it is opened again.
	Deadline time.Duration
	// UndoOnFailure and UndoOnCancel say whether effects are undone when a run fails or is cancelled.
	UndoOnFailure, UndoOnCancel bool
}

// Step is a step of a plan: the pipeline's own or an undo.
type Step struct {
	// Name is the step's name; of an undo `<step>~undo`.
	Name string
	// Needs are the indices of the steps that must be finished before; empty for undo steps.
	Needs []int
	// Effect marks steps that change the world outside (http, handler, every undo): never cancelled blindly.
	Effect bool
	// FanOut marks steps with a `for_each`; of an undo: that it undoes one.
	FanOut bool
	// Concurrency is how many shards of a fan-out are active at once; at least 1.
	Concurrency int
	// Undo is the index of the step that undoes this one; 0 if it declares none (index 0 is never an undo).
	Undo int
	// Undoes is, for an undo step, the index of the step that it undoes.
	Undoes int

	OnError     OnError
	OnAmbiguous OnAmbiguous
	Retry       Retry
	// MaxLost is how many lost leases a step may have; MaxCalls bounds the requests sent to models a generation.
	MaxLost, MaxCalls int
	// HardTimeout is how long a claim may last, waits for permits apart.
	HardTimeout time.Duration
}

// Retry is the policy for transient failures.
type Retry struct {
	// MaxAttempts bounds the failures; 1 means no retry.
	MaxAttempts int
	// Initial is the first wait; each following one is Factor times as long, up to Max.
	Initial time.Duration
	Factor  float64
	Max     time.Duration
	// Jitter lengthens a wait by a random part of it, at most this one: 0.2 is up to 20 %.
	Jitter float64
}

// IsUndo reports whether the step at index i is an undo step.
func (p *Plan) IsUndo(i int) bool { return i >= p.Total }

// Index returns the index of the step of that name.
func (p *Plan) Index(name string) (int, bool) {
	for i := range p.Steps {
		if p.Steps[i].Name == name {
			return i, true
		}
	}
	return 0, false
}
