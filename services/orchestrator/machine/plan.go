package machine

import (
	"time"

	"pawl.internal/services/internal/retry"
)

// OnError says what a step's failure means for the run.
type OnError string

// The policies for failures.
const (
	FailRun       OnError = "fail"     // the run ends
	ContinueRun   OnError = "continue" // the output is null, and the step counts as finished
	ReviewFailure OnError = "review"   // a person decides
)

// OnAmbiguous says what follows when the fate of a call is unknown.
type OnAmbiguous string

// The policies for calls of unknown fate.
const (
	RetryAmbiguous  OnAmbiguous = "retry"  // another call, once a generation; then it is a permanent failure
	ReviewAmbiguous OnAmbiguous = "review" // a person decides
	FailAmbiguous   OnAmbiguous = "fail"   // it is a permanent failure
)

// MaxShards is the largest number of shards that a fan-out may have.
const MaxShards = 10_000

// Plan is what the machine must know of a compiled pipeline. It never changes, and is shared by all runs of a version.
type Plan struct {
	// Steps are the pipeline's steps in its order, followed by the undo steps that they declare.
	Steps []Step
	// Total is the number of the pipeline's own steps: Steps[Total:] are undo steps.
	Total int
	// Deadline is how long a run may take, counted from max(created_at, not_before), and again when it is opened again.
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
	// Effect marks steps that change the world outside (http, handler): they are never cancelled blindly.
	Effect bool
	// FanOut marks steps with a `for_each`; of an undo: that it undoes one.
	FanOut bool
	// Concurrency is how many shards of a fan-out are active at once; below 1 it counts as 1.
	Concurrency int
	// Undo is the index of the step that undoes this one; 0 if it declares none (a plan's first step is never an undo).
	Undo int
	// Undoes is, for an undo step, the index of the step that it undoes.
	Undoes int

	OnError     OnError
	OnAmbiguous OnAmbiguous
	Retry       retry.Policy
	// MaxLost bounds the lost leases; below 1 it counts as 1.
	MaxLost int
	// MaxCalls bounds the requests sent to models in a generation; 0 means no bound.
	MaxCalls int
	// HardTimeout is how long a claim may last, waits for permits apart.
	HardTimeout time.Duration
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

// Dependents returns the step and all of the pipeline's steps that need it, directly or not, in the plan's order.
func (p *Plan) Dependents(step int) []int {
	depends := make([]bool, p.Total)
	depends[step] = true
	// A pipeline's order need not follow its needs, so the marks spread until nothing changes.
	for changed := true; changed; {
		changed = false
		for i := range p.Total {
			if !depends[i] && needsAny(p.Steps[i].Needs, depends) {
				depends[i], changed = true, true
			}
		}
	}
	var steps []int
	for i, d := range depends {
		if d {
			steps = append(steps, i)
		}
	}
	return steps
}

func needsAny(needs []int, marked []bool) bool {
	for _, n := range needs {
		if marked[n] {
			return true
		}
	}
	return false
}

// makesEffect reports whether the row's execution changes the world outside: a fan-out's own row only finds its items.
func (p *Plan) makesEffect(k Key) bool {
	step := &p.Steps[k.Step]
	return step.Effect && (!step.FanOut || k.Shard != Whole)
}

// undoable reports whether the step's effects can be undone.
func (p *Plan) undoable(i int) bool { return !p.IsUndo(i) && p.Steps[i].Undo != 0 }
