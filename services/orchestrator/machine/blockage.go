package machine

import (
	"fmt"
	"time"
)

// BlockageCode says in a stable code what a run that does not move is waiting for.
type BlockageCode string

// The codes. Those that concern other services' facts are set by whoever knows these.
const (
	BlockRetryWait      BlockageCode = "retry_wait"
	BlockPermitWait     BlockageCode = "permit_wait"
	BlockTenantTurn     BlockageCode = "tenant_turn"
	BlockProviderPaused BlockageCode = "provider_paused"
	BlockBudget         BlockageCode = "budget"
	BlockReview         BlockageCode = "review"
	BlockSignal         BlockageCode = "signal"
	BlockDispatch       BlockageCode = "dispatch"
	BlockWorkerLost     BlockageCode = "worker_lost"
	BlockDeadline       BlockageCode = "deadline"
	BlockUndoFailed     BlockageCode = "undo_failed"
	BlockCallbackDead   BlockageCode = "callback_dead"
	BlockPaused         BlockageCode = "paused"
	BlockChild          BlockageCode = "child"
	BlockNotBefore      BlockageCode = "not_before"
	BlockInternal       BlockageCode = "internal"
)

// AllBlockageCodes lists the codes.
func AllBlockageCodes() []BlockageCode {
	return []BlockageCode{
		BlockRetryWait, BlockPermitWait, BlockTenantTurn, BlockProviderPaused, BlockBudget, BlockReview, BlockSignal,
		BlockDispatch, BlockWorkerLost, BlockDeadline, BlockUndoFailed, BlockCallbackDead, BlockPaused, BlockChild,
		BlockNotBefore, BlockInternal,
	}
}

// Blockage says why a run does not move, and what will happen.
type Blockage struct {
	Code  BlockageCode
	Since time.Time
	// Key is the step or shard that waits; Key{AllSteps, Whole} for the run itself.
	Key Key
	// Reason is that of the step's newest failure, wait or review; may be empty.
	Reason Reason
	// Sentence is for people; Evidence are the facts behind it; Action is what a person may do.
	Sentence string
	Evidence []string
	Action   string
	// ResolvesAt is when it passes by itself, with Then; zero when it does not.
	ResolvesAt time.Time
	Then       string
}

// Facts are what the machine cannot know of a run's rows.
type Facts struct {
	// PermitWaits are the steps that wait for a permit, with the limit's name and since when.
	PermitWaits map[Key]PermitWait
	// LostWorkers are runners whose lease has run out, with when it did.
	LostWorkers map[ID]time.Time
}

// PermitWait is a wait for a permit of a limit.
type PermitWait struct {
	Limit string
	Since time.Time
}

// Blockage returns why the run does not move; false when it moves or has ended. Rows are the run's live rows, or as many
// of them as the caller wants to look at.
func (r *Run) Blockage(p *Plan, rows []Live, now time.Time, facts Facts) (Blockage, bool) {
	v := view{plan: p, run: r, now: now, facts: facts}
	if r.Status.Terminal() {
		return Blockage{}, false
	}
	if r.Status == RunNeedsReview {
		return v.review(rows), true
	}
	// The step that is nearest to moving tells why the run does not.
	nearest, rank := Blockage{}, 0
	for _, l := range rows {
		b, at := v.row(l)
		if at == moving {
			return Blockage{}, false
		}
		if at > rank || at == rank && at > 0 && b.before(nearest) {
			nearest, rank = b, at
		}
	}
	if rank == 0 {
		return v.internal(), true
	}
	return v.bound(nearest), true
}

// moving ranks a row that a worker is executing; lower ranks are further from it; 0 says nothing.
const moving = 100

// view computes blockages of one run.
type view struct {
	plan  *Plan
	run   *Run
	now   time.Time
	facts Facts
}

func (b *Blockage) before(other Blockage) bool {
	if b.ResolvesAt.Equal(other.ResolvesAt) {
		return b.Since.Before(other.Since)
	}
	return other.ResolvesAt.IsZero() || !b.ResolvesAt.IsZero() && b.ResolvesAt.Before(other.ResolvesAt)
}

// row returns why a row does not move, and how near to moving it is.
func (v *view) row(l Live) (Blockage, int) {
	switch l.Status {
	case StepRunning:
		return v.running(l)
	case StepReady, StepQueued:
		return v.dispatch(l), 60
	case StepBackoff:
		return v.backoff(l), 40
	case StepWaiting:
		return v.waiting(l), 30
	default:
		return Blockage{}, 0
	}
}

func (v *view) running(l Live) (Blockage, int) {
	if since, lost := v.facts.LostWorkers[l.Worker]; lost {
		return Blockage{
			Code: BlockWorkerLost, Since: since, Key: l.Key, Reason: ReasonWorkerLost,
			Sentence: fmt.Sprintf("The worker that executed %s was lost.", v.name(l.Key)),
			Evidence: []string{fmt.Sprintf("%d of at most %d workers lost on this step before", l.Losses, v.plan.Steps[l.Step].MaxLost)},
			Action:   "Nothing: another worker takes over. Look at the workers' memory if it happens again.",
			Then:     "the step runs again on another worker",
		}, 50
	}
	if wait, waits := v.facts.PermitWaits[l.Key]; waits {
		return Blockage{
			Code: BlockPermitWait, Since: wait.Since, Key: l.Key,
			Sentence: fmt.Sprintf("%s waits for a permit of the limit %s.", v.name(l.Key), wait.Limit),
			Action:   "Nothing, or raise the limit if the provider allows more.",
			Then:     "the call is sent when its turn comes",
		}, 80
	}
	if v.run.State.Ending != nil && !v.plan.IsUndo(l.Step) {
		return Blockage{
			Code: BlockDeadline, Since: l.ClaimedAt, Key: l.Key, Reason: v.run.State.Ending.Reason,
			Sentence:   fmt.Sprintf("The run is ending (%s) and waits for the outside effect of %s.", v.run.State.Ending.Reason, v.name(l.Key)),
			Action:     "Nothing: the effect ends by itself, at most at the step's hard timeout.",
			ResolvesAt: l.DueAt, Then: "a person decides about the effect",
		}, 90
	}
	return Blockage{}, moving
}

func (v *view) dispatch(l Live) Blockage {
	if v.run.State.Held {
		return Blockage{
			Code: BlockPaused, Since: l.ReadyAt, Key: l.Key,
			Sentence: fmt.Sprintf("%s is ready; the batch or pipeline is paused.", v.name(l.Key)),
			Action:   "Resume the batch or pipeline.",
		}
	}
	since := l.ReadyAt
	if l.Status == StepQueued {
		since = l.QueuedAt
	}
	return Blockage{
		Code: BlockDispatch, Since: since, Key: l.Key, Reason: l.Reason,
		Sentence: fmt.Sprintf("%s is ready and waits for a free worker.", v.name(l.Key)),
		Action:   "Nothing, or add workers if it lasts.",
		Then:     "a worker takes it",
	}
}

func (v *view) backoff(l Live) Blockage {
	attempts := max(v.plan.Steps[l.Step].Retry.MaxAttempts, 1)
	return Blockage{
		Code: BlockRetryWait, Since: l.ClaimedAt, Key: l.Key, Reason: l.Reason,
		Sentence: fmt.Sprintf("%s failed in passing (%s) and is tried again.", v.name(l.Key), l.Reason),
		Evidence: []string{l.Reason.Sentence(), fmt.Sprintf("%d of %d attempts failed", l.Failures, attempts)},
		Action:   "Nothing: it is tried again by itself.", ResolvesAt: l.DueAt, Then: "the step runs again",
	}
}

func (v *view) waiting(l Live) Blockage {
	b := Blockage{
		Code: BlockSignal, Since: l.ClaimedAt, Key: l.Key, Reason: l.Reason,
		Sentence: fmt.Sprintf("%s waits.", v.name(l.Key)), Action: "Nothing: it looks again by itself.",
		ResolvesAt: l.DueAt, Then: "the step looks whether it can go on",
	}
	switch {
	case v.run.NotBefore.After(v.now):
		b.Code, b.Since = BlockNotBefore, v.run.CreatedAt
		b.Sentence = "The run was asked to begin later."
		b.Action, b.Then = "Nothing: it begins by itself.", "the run begins"
	case l.Reason == ReasonWorkerLost:
		b.Code = BlockWorkerLost
		b.Sentence = fmt.Sprintf("%s has lost its workers %d times and waits to be executed apart from other such steps.", v.name(l.Key), l.Losses)
		b.Action = "Nothing: it is tried again by itself. Look at the workers' memory."
		b.Then = "the step runs again"
	case l.Reason == ReasonProviderBatch:
		b.Code = BlockProviderPaused
		b.Sentence = fmt.Sprintf("%s is asked in a batch of the provider's and waits for its answer (%s).", v.name(l.Key), l.Reason)
		b.Action = "Nothing: it goes on when the answer is there, and looks by itself at the time told."
		b.Evidence = []string{l.Reason.Sentence()}
		b.Then = "the step looks again"
	case l.Reason != "":
		b.Code = BlockProviderPaused
		b.Sentence = fmt.Sprintf("%s waits until the other side takes requests again (%s).", v.name(l.Key), l.Reason)
		b.Evidence = []string{l.Reason.Sentence()}
		b.Then = "the step runs again"
	}
	return b
}

// review tells what a run waits for in which only a person can do something.
func (v *view) review(rows []Live) Blockage {
	b := Blockage{
		Code: BlockReview, Since: v.run.PausedAt, Key: Key{AllSteps, Whole}, Reason: v.run.Reason,
		Sentence: "A person must decide.", Action: "Retry, correct or close the case.",
	}
	for _, l := range rows {
		if l.Status == StepNeedsReview {
			b.Key, b.Reason = l.Key, l.Reason
			b.Sentence = fmt.Sprintf("%s waits for a person (%s).", v.name(l.Key), l.Reason)
			break
		}
	}
	if sentence := b.Reason.Sentence(); sentence != "" {
		b.Evidence = []string{sentence}
	}
	switch b.Reason {
	case ReasonBudgetExceeded:
		b.Code, b.Action = BlockBudget, "Raise the budget and retry, or close the case."
	case ReasonUndoFailed:
		b.Code, b.Action = BlockUndoFailed, "Undo the effect by hand and say so, retry the undo, or close the case."
	default:
	}
	return b
}

// bound adds what the deadline does to a wait that would go on beyond it, or has no end of its own.
func (v *view) bound(b Blockage) Blockage {
	deadline := v.run.DeadlineDue()
	if deadline.IsZero() || !b.ResolvesAt.IsZero() && !b.ResolvesAt.After(deadline) {
		return b
	}
	if !deadline.After(v.now) {
		b.Code, b.Sentence = BlockDeadline, "The run's deadline has passed."
	}
	b.ResolvesAt, b.Then = deadline, "the run ends: "+string(ReasonDeadlineExceeded)
	return b
}

// internal is the answer for what should not be: a run that has not ended without anything that could move it.
func (v *view) internal() Blockage {
	return Blockage{
		Code: BlockInternal, Since: v.run.CreatedAt, Key: Key{AllSteps, Whole},
		Sentence: "Nothing is left that could move the run: this is a fault of the system.",
		Action:   "Report it; cancel the run.",
	}
}

// name calls a step or shard as people know it.
func (v *view) name(k Key) string {
	if k.Shard == Whole {
		return v.plan.Steps[k.Step].Name
	}
	return fmt.Sprintf("%s[%d]", v.plan.Steps[k.Step].Name, k.Shard)
}
