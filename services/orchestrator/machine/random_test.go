package machine_test

import (
	"cmp"
	"slices"
	"time"

	"pawl.internal/services/internal/retry"
	"pawl.internal/services/orchestrator/machine"
)

// chooser makes the random decisions of a test: rapid's, which shrink, or those of a seed.
type chooser interface {
	// below returns a number in [0, n).
	below(n int, what string) int
}

func pick[T any](c chooser, what string, from ...T) T { return from[c.below(len(from), what)] }

func maybe(c chooser, what string) bool { return c.below(2, what) == 1 }

// randomPlan makes a small plan: a graph of needs, fan-outs, outside effects with and without an undo, every policy.
func randomPlan(c chooser) *machine.Plan {
	total := 1 + c.below(4, "steps")
	plan := &machine.Plan{
		Total: total, Deadline: pick(c, "deadline", time.Minute, time.Hour),
		UndoOnFailure: maybe(c, "undo on failure"), UndoOnCancel: maybe(c, "undo on cancel"),
	}
	// Steps stand in a random order, so that a step may need one that comes after it.
	place := make([]int, total)
	for i := range place {
		place[i] = i
	}
	for i := range place {
		j := c.below(i+1, "place")
		place[i], place[j] = place[j], place[i]
	}
	plan.Steps = make([]machine.Step, total)
	for i := range total {
		step := randomStep(c)
		step.Name = string(rune('a' + place[i]))
		for before := range i {
			if c.below(3, "needs") > 0 {
				step.Needs = append(step.Needs, place[before])
			}
		}
		plan.Steps[place[i]] = step
	}
	for i := range total {
		if plan.Steps[i].Effect && c.below(3, "undo") > 0 {
			undo := randomStep(c)
			undo.Name, undo.Undoes, undo.FanOut, undo.Effect = plan.Steps[i].Name+"~undo", i, plan.Steps[i].FanOut, true
			plan.Steps[i].Undo = len(plan.Steps)
			plan.Steps = append(plan.Steps, undo)
		}
	}
	return plan
}

func randomStep(c chooser) machine.Step {
	return machine.Step{
		Effect: maybe(c, "effect"), FanOut: maybe(c, "fan-out"), Concurrency: c.below(3, "concurrency"),
		OnError:     pick(c, "on_error", machine.FailRun, machine.ContinueRun, machine.ReviewFailure),
		OnAmbiguous: pick(c, "on_ambiguous", machine.RetryAmbiguous, machine.ReviewAmbiguous, machine.FailAmbiguous),
		Retry: retry.Policy{
			MaxAttempts: c.below(3, "max_attempts"), Initial: time.Second, Factor: 2, Max: 5 * time.Second, Jitter: 0.2,
		},
		MaxLost: c.below(3, "max_lost"), MaxCalls: pick(c, "max_calls", 0, 2), HardTimeout: 10 * time.Second,
	}
}

// next chooses an event: mostly one that fits a row, sometimes one that is late, early or out of place.
func (w *world) next(c chooser) machine.Event {
	rows := w.rows()
	switch n := c.below(20, "what"); {
	case len(rows) == 0 || n < 2:
		return w.nextOfRun(c)
	case n < 4:
		return w.misfit(c, rows[c.below(len(rows), "row")])
	default:
		return w.fitting(c, rows[c.below(len(rows), "row")])
	}
}

// fitting returns an event that the row's state is made for.
func (w *world) fitting(c chooser, l machine.Live) machine.Event {
	ref := machine.Ref{Key: l.Key, Generation: l.Generation}
	free := l.Status == machine.StepReady || l.Status == machine.StepQueued
	switch {
	case free && c.below(4, "late") == 0:
		// A claim whose lease has run out, or one that a crash of PostgreSQL has forgotten.
		claim := machine.Claim{Ref: ref, Fence: l.Fence, ClaimNo: l.ClaimNo, Worker: machine.ID{1}}
		if l.Fence == (machine.ID{}) || maybe(c, "forgotten") {
			claim.Fence, claim.ClaimNo = w.fence(), l.ClaimNo+1
		}
		return w.outcome(c, l, claim)
	case l.Status == machine.StepReady:
		return machine.Dispatched{Ref: ref}
	}
	switch l.Status {
	case machine.StepQueued:
		return machine.Claimed{Ref: ref, Fence: w.fence(), Worker: machine.ID{1}}
	case machine.StepRunning:
		return w.outcome(c, l, machine.Claim{Ref: ref, Fence: l.Fence, ClaimNo: l.ClaimNo, Worker: l.Worker})
	case machine.StepBackoff:
		w.now = later(w.now, l.DueAt)
		return machine.RetryDue{Ref: ref}
	case machine.StepWaiting:
		if maybe(c, "timed") {
			w.now = later(w.now, l.DueAt)
			return machine.Woken{Ref: ref, Timed: true}
		}
		return machine.Woken{Ref: ref}
	case machine.StepNeedsReview:
		return w.decision(c, ref)
	default:
		return w.nextOfRun(c)
	}
}

// outcome returns one of the ways in which a claim may end, or goes on.
func (w *world) outcome(c chooser, l machine.Live, claim machine.Claim) machine.Event {
	attempt := machine.Attempt{Claim: claim, Calls: c.below(2, "calls"), AsksSpent: c.below(2, "asks")}
	reason := pick(c, "reason", machine.ReasonProvider429, machine.ReasonNetwork, machine.ReasonSchemaMismatch)
	switch c.below(16, "outcome") {
	case 0:
		return machine.Skipped{Attempt: attempt}
	case 1:
		wait := pick(c, "until", time.Second, 2*time.Hour)
		return machine.Parked{Attempt: attempt, Until: w.now.Add(wait), Reason: pick(c, "parked", "", reason)}
	case 2:
		return machine.Ambiguous{Attempt: attempt}
	case 3, 4:
		return machine.FailedTransient{Attempt: attempt, Reason: reason, RetryAfter: pick(c, "after", 0, 10*time.Second, time.Hour)}
	case 5:
		return machine.FailedPermanent{Attempt: attempt, Reason: machine.ReasonInvalidInput}
	case 6:
		return machine.BudgetExceeded{Attempt: attempt}
	case 7:
		return machine.ReviewRequested{Attempt: attempt, Reason: machine.ReasonLowConfidence}
	case 8:
		return machine.Released{Claim: claim}
	case 9:
		return machine.LeaseExpired{Ref: claim.Ref, Fence: claim.Fence}
	case 10:
		if !l.DueAt.IsZero() {
			w.now = later(w.now, l.DueAt)
		}
		return machine.HardTimeout{Ref: claim.Ref, Fence: claim.Fence}
	case 11:
		return machine.Readopted{Claim: claim, PermitWait: pick(c, "permit wait", 0, time.Second)}
	default:
		if w.plan.Steps[l.Step].FanOut && l.Shard == machine.Whole {
			total := w.run.State.Heads[l.Step].Shards.Total
			if total == 0 {
				total = c.below(5, "items")
			}
			return machine.Expanded{Attempt: attempt, Total: total}
		}
		return machine.Succeeded{Attempt: attempt}
	}
}

// decision returns what a person may do about a review.
func (w *world) decision(c chooser, ref machine.Ref) machine.Event {
	by := machine.Actor{Name: "person:ann", Comment: "because"}
	switch c.below(8, "decision") {
	case 0, 1:
		return machine.OperatorRetry{Actor: by, Ref: ref, BudgetRaised: maybe(c, "raised")}
	case 2:
		return machine.OperatorRetry{Actor: by, Ref: everything(), BudgetRaised: true}
	case 3, 4:
		return machine.OperatorCorrect{Actor: by, Ref: ref}
	case 5:
		return machine.OperatorCorrect{Actor: by, Ref: ref, Input: true}
	case 6:
		return machine.OperatorClose{Actor: by, Undo: maybe(c, "undo")}
	default:
		return w.nextOfRun(c)
	}
}

func everything() machine.Ref {
	return machine.Ref{Key: machine.Key{Step: machine.AllSteps, Shard: machine.Whole}}
}

// nextOfRun returns an event of the run as a whole.
func (w *world) nextOfRun(c chooser) machine.Event {
	by := machine.Actor{Name: "person:ann", Comment: "because"}
	undo := maybe(c, "undo")
	switch c.below(10, "event of the run") {
	case 0:
		w.now = later(w.now, w.run.DeadlineAt)
		return machine.DeadlinePassed{}
	case 1:
		return machine.CancelRequested{Actor: by, Undo: pick(c, "override", nil, &undo)}
	case 2:
		return machine.Promoted{Actor: by, Class: pick(c, "class", machine.Interactive, machine.Batch)}
	case 3:
		return machine.Paused{Actor: by}
	case 4, 5:
		return machine.Resumed{Actor: by}
	case 6:
		return machine.OperatorRetry{Actor: by, Ref: everything(), BudgetRaised: maybe(c, "raised")}
	case 7:
		return machine.OperatorClose{Actor: by, Undo: undo}
	case 8:
		step := c.below(w.plan.Total, "step")
		return machine.RerunFrom{
			Actor: by, Step: step, Generation: w.run.State.Heads[step].Generation, KeepEffects: maybe(c, "keep"),
		}
	default:
		return machine.Created{}
	}
}

// misfit returns an event that is late, early, doubled or about something else.
func (w *world) misfit(c chooser, l machine.Live) machine.Event {
	claim := machine.Claim{
		Ref:     machine.Ref{Key: l.Key, Generation: l.Generation - c.below(2, "older")},
		Fence:   pick(c, "fence", l.Fence, l.LastFence, w.fence(), machine.ID{}),
		ClaimNo: l.ClaimNo + c.below(3, "claim no") - 1, Worker: machine.ID{2},
	}
	claim.Shard = pick(c, "shard", claim.Shard, machine.Whole, 0, 7)
	claim.Step = pick(c, "step", claim.Step, c.below(len(w.plan.Steps), "other"), len(w.plan.Steps), -1)
	if claim.Key != l.Key {
		claim.Fence = w.fence() // no runner uses a fence for two steps
	}
	switch c.below(6, "misfit") {
	case 0:
		return machine.Dispatched{Ref: claim.Ref}
	case 1:
		return machine.Claimed{Ref: claim.Ref, Fence: claim.Fence, Worker: claim.Worker}
	case 2:
		return machine.Overdue{Ref: claim.Ref, QueuedBefore: w.now}
	case 3:
		return machine.RetryDue{Ref: claim.Ref}
	case 4:
		return machine.Woken{Ref: claim.Ref}
	default:
		return w.outcome(c, machine.Live{Key: machine.Key{Step: min(max(claim.Step, 0), len(w.plan.Steps)-1), Shard: claim.Shard}}, claim)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// progress returns the event that brings a row nearer to its end when all goes well; false for those that wait for others.
func (w *world) progress(l machine.Live) (machine.Event, bool) {
	ref := machine.Ref{Key: l.Key, Generation: l.Generation}
	switch l.Status {
	case machine.StepReady:
		return machine.Dispatched{Ref: ref}, true
	case machine.StepQueued:
		return machine.Claimed{Ref: ref, Fence: w.fence()}, true
	case machine.StepRunning:
		attempt := w.holder(l.Step, l.Shard)
		if w.plan.Steps[l.Step].FanOut && l.Shard == machine.Whole {
			return machine.Expanded{Attempt: attempt, Total: cmp.Or(w.run.State.Heads[l.Step].Shards.Total, 2)}, true
		}
		return machine.Succeeded{Attempt: attempt}, true
	case machine.StepBackoff:
		w.now = later(w.now, l.DueAt)
		return machine.RetryDue{Ref: ref}, true
	case machine.StepWaiting:
		w.now = later(w.now, l.DueAt)
		return machine.Woken{Ref: ref}, true
	case machine.StepNeedsReview:
		return machine.OperatorCorrect{Ref: ref}, true
	default:
		return nil, false
	}
}

// decay returns the event that time alone, and in the end a person who gives up, brings about: no worker answers.
func (w *world) decay() machine.Event {
	rows := w.rows()
	running := slices.IndexFunc(rows, func(l machine.Live) bool { return l.Status == machine.StepRunning })
	switch {
	case w.run.Status == machine.RunNeedsReview:
		return machine.OperatorClose{}
	case running >= 0:
		l := rows[running]
		w.now = later(w.now, l.DueAt)
		return machine.HardTimeout{Ref: machine.Ref{Key: l.Key, Generation: l.Generation}, Fence: l.Fence}
	case w.run.Status == machine.RunCompensating || w.run.State.Ending != nil:
		for _, l := range rows {
			if ev, ok := w.progress(l); ok {
				return ev
			}
		}
	}
	w.now = later(w.now, w.run.DeadlineAt)
	return machine.DeadlinePassed{}
}
