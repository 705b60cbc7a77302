package sim

import (
	"time"

	"pawl.internal/services/orchestrator/machine"
)

// question is what a runner asks a gateway (GenerateRequest).
type question struct {
	key         callKey
	budget      int64
	epoch       int
	ambiguousOK int
	callsLeft   int
	deadlineIn  time.Duration
}

// news tells a follower whether a permit is awaited.
type news func(waiting bool)

// reply is how a Generate ended: an answer, or why there is none.
type reply struct {
	end ending
	// atFault says that an answer came which is of no use.
	atFault bool
	reason  machine.Reason
	wait    time.Duration
	calls   int
	cost    int64
	spend   spend
}

// ask puts one question (steprunner/step/llm). While the gateway is away it repeats the very same question, which then joins
// the call that is in flight or gets the stored answer.
func (h *hold) ask(p *pace) {
	if h.over {
		return
	}
	r := h.r
	h.watch.pause()
	r.awaitLease(r.s.guard(GuardRunnerLease), func() {
		r.at("runner.asks", func() {
			if h.over {
				return
			}
			h.watch.resume()
			left := h.deadline - r.clock()
			if left <= 0 {
				h.complete(h.outcome(outTransient, machine.ReasonDeadlineExceeded))
				return
			}
			h.follow(left, p)
		})
	})
}

// follow sends the question once and follows what the gateway tells of it. The call does not end with the stream.
func (h *hold) follow(left time.Duration, p *pace) {
	r, g := h.r, h.r.s.aGateway()
	row := h.grant.row
	q := question{
		key: callKey{
			run: h.ref.run, step: h.ref.Step, shard: h.ref.Shard, generation: h.ref.Generation, ask: row.AskBase + h.asks - 1,
		},
		budget: h.grant.budget, epoch: h.grant.epoch, ambiguousOK: row.AmbiguousOK, callsLeft: h.grant.callsLeft - h.calls,
		deadlineIn: left,
	}
	life := r.life
	hear := func(waiting bool) { tell(g.process, r.process, life, func() { h.watch.awaiting(waiting) }) }
	call(r.process, g.process, 40*time.Second,
		func(answer func(reply, error)) { g.generate(q, hear, answer) },
		func(a reply, err error) {
			h.watch.awaiting(false)
			switch {
			case h.over:
			case err != nil:
				r.s.seen.count(SeenQuestionRepeated)
				h.watch.pause()
				r.after(p.wait(), func() { h.ask(p) })
			default:
				h.answered(a)
			}
		})
}

// answered makes an outcome of an answer, or asks about a bad one again.
func (h *hold) answered(a reply) {
	h.calls += a.calls
	if h.spend == nil || a.spend.version >= h.spend.version {
		h.spend = &a.spend
	}
	sp := h.pipeline().specs[h.ref.Step]
	switch {
	case a.atFault && h.asks <= sp.repairs && h.grant.callsLeft > h.calls:
		h.r.s.seen.count(SeenRepair)
		h.asks++
		h.ask(&pace{})
	case a.atFault:
		out := h.outcome(outPermanent, machine.ReasonSchemaMismatch)
		out.attempt.AsksSpent = h.asks
		h.complete(out)
	case a.end == outSucceeded:
		h.succeed()
	default:
		out := h.outcome(a.end, a.reason)
		out.wait = a.wait
		h.complete(out)
	}
}
