package pipeline

import (
	"crypto/sha256"
	"time"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/expr"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/internal/retry"
)

// Compiled is a pipeline that is ready to run. It must not be changed.
type Compiled struct {
	Name, Version, Description string
	// Digest is the SHA-256 of the content: comments, layout and the order of fields do not count.
	Digest [sha256.Size]byte
	// Source is the text that it was compiled from.
	Source string
	// Steps are in the order of the source; a step may need a later one.
	Steps []*Step
	// Deadline is how long a run may take; 0 if the pipeline says nothing, see DeadlineFor.
	Deadline time.Duration
	// Budget is the most that a run may cost; 0 for no limit.
	Budget money.Pico
	// Labels are those of every run.
	Labels map[string]string
	// CallbackEvents are the events that callbacks are sent for.
	CallbackEvents []string
	// UndoOnFailure and UndoOnCancel say whether effects are undone when a run fails or is cancelled.
	UndoOnFailure, UndoOnCancel bool
	// ResultStep is the step whose output is the run's result.
	ResultStep *Step
	// MaxSteps is how many steps of all its runs may be dispatched and not finished at once, and MaxRuns how many runs with
	// equal ConcurrencyKey begun and not finished; 0 for no limit.
	MaxSteps, MaxRuns int

	input *Schema
	key   *expr.Template
}

// Refs says what an evaluation refers to, so that only that is loaded.
type Refs = expr.Refs

// Kind is what a step does.
type Kind string

// The kinds of steps.
const (
	LLM       Kind = "llm"
	Transform Kind = "transform"
	Validate  Kind = "validate"
)

// Step is a step that is ready to run. It must not be changed.
type Step struct {
	// Index is the step's place in Compiled.Steps.
	Index int
	Name  string
	Kind  Kind
	// Needs are the places of the steps that must be finished first, ascending.
	Needs []int
	// FanOut says that the step runs once per item of a list; Concurrency is how many at once.
	FanOut      bool
	Concurrency int

	Timeouts Timeouts
	Retry    retry.Policy
	// MaxLost bounds how often the step's worker may be lost; MaxCalls the requests to providers.
	MaxLost, MaxCalls int
	// FallbackAfter is which failure on a target goes on to the next one: 1 or 2.
	FallbackAfter int
	// Repairs is how often the model is asked again within an attempt.
	Repairs int
	// OnError is "fail", "review" or "continue"; OnAmbiguous "retry", "review" or "fail".
	OnError, OnAmbiguous string
	// ReviewReason is the reason code of a review that the pipeline asks for.
	ReviewReason string
	// Editable are JSON Pointers of what a reviewer may change.
	Editable []string

	// HeadRefs says what Admit and Items refer to; BodyRefs what all else does. A fan-out's own row needs the first, its
	// shards the second, any other step both: see Refs.
	HeadRefs, BodyRefs Refs
	// OutputSchema is the schema of an llm step's answer; nil for text.
	OutputSchema *Schema
	// PromptVersion identifies what an llm step asks: it changes with the step's `llm` block. Empty for other kinds.
	PromptVersion string

	when, require, forEach *expr.Expr
	llm                    *llm
	transform              *value
	validate               *validate
	review                 *expr.Expr
	where                  path
}

// Timeouts are the three clocks of a step, each longer than the one before. Waiting for a permit stops them.
type Timeouts struct {
	// LLM bounds one model call; 0 for steps that make none.
	LLM time.Duration
	// Soft is when the runner cancels the work, Hard when the orchestrator takes the step away.
	Soft, Hard time.Duration
}

// The deadlines of runs whose pipeline has none.
const (
	InteractiveDeadline = time.Hour
	BatchDeadline       = 24 * time.Hour
)

// DeadlineFor gives how long a run of a class may take.
func (c *Compiled) DeadlineFor(class pawlv1.RunClass) time.Duration {
	switch {
	case c.Deadline > 0:
		return c.Deadline
	case class == pawlv1.RunClass_RUN_CLASS_BATCH:
		return BatchDeadline
	default:
		return InteractiveDeadline
	}
}

// Step gives the step of a name; nil if there is none.
func (c *Compiled) Step(name string) *Step {
	for _, step := range c.Steps {
		if step.Name == name {
			return step
		}
	}
	return nil
}

// Refs says what a row of the step refers to: the fan-out's own row finds the items, a shard or a plain step does the work.
func (s *Step) Refs(shard bool) Refs {
	switch {
	case shard:
		return s.BodyRefs
	case s.FanOut:
		return s.HeadRefs
	default:
		return s.HeadRefs.Union(s.BodyRefs)
	}
}
