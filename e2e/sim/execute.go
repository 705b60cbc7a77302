package sim

import (
	"fmt"
	"time"

	"pawl.internal/services/orchestrator/machine"
)

// ending is how an attempt ended.
type ending string

const (
	outSucceeded ending = "succeeded"
	outSkipped   ending = "skipped"
	outExpanded  ending = "expanded"
	outTransient ending = "failed_transient"
	outPermanent ending = "failed_permanent"
	outAmbiguous ending = "ambiguous"
	outBudget    ending = "budget"
	outReview    ending = "review"
	outParked    ending = "parked"
)

// outcome is what a runner reports of an attempt.
type outcome struct {
	ref     stepRef
	attempt machine.Attempt
	end     ending
	reason  machine.Reason
	wait    time.Duration
	total   int
	spend   *spend
}

// event is the machine's event of an outcome (complete.go).
func (o *outcome) event(now time.Time) machine.Event {
	switch o.end {
	case outSucceeded:
		return machine.Succeeded{Attempt: o.attempt}
	case outSkipped:
		return machine.Skipped{Attempt: o.attempt}
	case outExpanded:
		return machine.Expanded{Attempt: o.attempt, Total: o.total}
	case outTransient:
		return machine.FailedTransient{Attempt: o.attempt, Reason: o.reason, RetryAfter: o.wait}
	case outAmbiguous:
		return machine.Ambiguous{Attempt: o.attempt}
	case outBudget:
		return machine.BudgetExceeded{Attempt: o.attempt}
	case outReview:
		return machine.ReviewRequested{Attempt: o.attempt, Reason: o.reason}
	case outParked:
		return machine.Parked{Attempt: o.attempt, Until: now.Add(o.wait), Reason: o.reason}
	default:
		return machine.FailedPermanent{Attempt: o.attempt, Reason: o.reason}
	}
}

func (h *hold) String() string {
	return fmt.Sprintf("run %d step %d/%d generation %d under fence %d", h.ref.run, h.ref.Step, h.ref.Shard, h.ref.Generation, number(h.fence))
}

func (h *hold) pipeline() *pipeline { return h.r.s.core.runs[h.ref.run].pipeline }

// outcome describes how the attempt ended.
func (h *hold) outcome(end ending, reason machine.Reason) *outcome {
	return &outcome{
		ref: h.ref, end: end, reason: reason, spend: h.spend,
		attempt: machine.Attempt{Claim: h.info().claim(h.r.instance), Calls: h.calls},
	}
}

// execute carries out a claim (execute.go).
func (h *hold) execute() {
	if h.over {
		return
	}
	h.r.s.oracle.executes(h)
	h.watch.resume()
	p := h.pipeline()
	sp, step := p.specs[h.ref.Step], p.plan.Steps[h.ref.Step]
	if step.FanOut && h.ref.Shard == machine.Whole && !p.plan.IsUndo(h.ref.Step) {
		h.expand(sp)
		return
	}
	switch sp.conduct {
	case conductPoison:
		h.r.s.seen.count(SeenPoison)
		h.r.s.note(h.r.name, "is killed by %v", h)
		h.r.exit(h.r.s.between(100*time.Millisecond, time.Second))
	case conductSkip:
		h.complete(h.outcome(outSkipped, ""))
	case conductInvalid:
		h.complete(h.outcome(outPermanent, machine.ReasonInvalidInput))
	case conductHang:
		h.hang(sp)
	case conductReview, conductGood:
		h.work(sp)
	}
}

// expand finds the items of a fan-out: as many as it had before.
func (h *hold) expand(sp spec) {
	out := h.outcome(outExpanded, "")
	out.total = sp.items
	h.complete(out)
}

// hang goes on for longer than it may, whatever it is told.
func (h *hold) hang(sp spec) {
	h.r.s.seen.count(SeenHang)
	h.watch.pause() // it does not look at the time
	begin := func() {
		if sp.kind == kindEffect && !h.over {
			h.beginEffect()
		}
		h.r.after(hardTimeout+5*time.Second, func() { h.complete(h.outcome(outSucceeded, "")) })
	}
	h.r.awaitLease(sp.kind == kindEffect && h.r.s.guard(GuardRunnerLease), begin)
}

func (h *hold) work(sp spec) {
	switch sp.kind {
	case kindLLM:
		h.asks = 1
		h.ask(&pace{})
	case kindEffect:
		h.r.at("runner.effect", func() {
			h.r.awaitLease(h.r.s.guard(GuardRunnerLease), func() {
				if !h.over {
					h.beginEffect()
					h.r.after(h.r.s.between(10*time.Millisecond, 3*time.Second), h.endEffect)
				}
			})
		})
	case kindTransform:
		h.r.after(h.r.s.between(time.Millisecond, 300*time.Millisecond), func() {
			if h.r.s.mishap(0.03) {
				h.complete(h.outcome(outTransient, machine.ReasonHandlerError))
				return
			}
			h.succeed()
		})
	}
}

// succeed ends the attempt with a result, which a person may have to look at.
func (h *hold) succeed() {
	if h.pipeline().specs[h.ref.Step].conduct == conductReview {
		h.complete(h.outcome(outReview, machine.ReasonLowConfidence))
		return
	}
	h.complete(h.outcome(outSucceeded, ""))
}

func (h *hold) beginEffect() {
	h.began = true
	h.r.s.outside.begin(h)
	if h.r.s.mishap(0.01) {
		h.r.s.powerCut(h.r.process)
	}
}

func (h *hold) endEffect() {
	switch s := h.r.s; {
	case s.mishap(0.05):
		h.complete(h.outcome(outTransient, machine.ReasonNetwork))
	case s.mishap(0.04):
		s.seen.count(SeenEffectUnsure)
		h.complete(h.outcome(outAmbiguous, machine.ReasonCallAmbiguous))
	default:
		h.succeed()
	}
}

// complete reports the outcome; an attempt that is over reports nothing.
func (h *hold) complete(out *outcome) {
	if h.over || h.watch.rang && out.reason != "step_timeout" {
		return
	}
	h.watch.pause()
	h.r.at("runner.done", func() { h.report(out, &pace{}) })
}

// report repeats the very same outcome until it is stored or refused, which is not a new attempt (complete.go).
func (h *hold) report(out *outcome, p *pace) {
	if h.over {
		return
	}
	r, o := h.r, h.r.s.anOrchestrator()
	call(r.process, o.process, rpcTimeout,
		func(reply func(bool, error)) { o.completeStep(out, reply) },
		func(_ bool, err error) {
			switch {
			case h.over:
			case err != nil && r.s.guard(GuardRepeatOutcome):
				r.s.seen.count(SeenOutcomeRepeated)
				r.after(p.wait(), func() { h.report(out, p) })
			default:
				r.drop(h)
			}
		})
}
