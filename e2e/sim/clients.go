package sim

import (
	"fmt"
	"time"

	"pawl.internal/services/orchestrator/machine"
)

// clients submit runs, and people decide about them. They never crash.
type clients struct {
	*process
	// open counts the submits and decisions that have no answer yet.
	open     int
	accepted map[string]int
}

func newClients(s *Sim) *clients {
	c := &clients{process: s.newProcess(90, "client"), accepted: map[string]int{}}
	c.boot = func() {}
	return c
}

// begin submits some runs, each once or several times under the same key.
func (c *clients) begin() {
	c.start()
	for i := range 1 + c.s.below(4) {
		key, p := fmt.Sprintf("key%d", i), newPipeline(c.s)
		for range 1 + c.s.below(2) {
			c.open++
			c.after(c.s.between(0, 12*time.Second), func() { c.submit(key, p, &pace{}) })
		}
	}
}

// submit repeats until there is an answer.
func (c *clients) submit(key string, p *pipeline, again *pace) {
	o := c.s.anOrchestrator()
	call(c.process, o.process, 3*time.Second,
		func(reply func(int, error)) { o.createRun(key, p, reply) },
		func(no int, err error) {
			if err != nil {
				c.after(again.wait(), func() { c.submit(key, p, again) })
				return
			}
			if before, twice := c.accepted[key]; twice && before != no {
				c.s.fail(PromiseOneRun, "key %s has runs %d and %d", key, before, no)
			}
			c.accepted[key] = no
			c.open--
		})
}

// decide has a person decide something about a run.
func (c *clients) decide(kind Seen, run int, before func(*working), ev machine.Event, until bool) {
	c.s.note("operator", "run %d: %s", run, ev.Kind())
	c.open++
	c.tryDecide(kind, run, before, ev, until, &pace{})
}

func (c *clients) tryDecide(kind Seen, run int, before func(*working), ev machine.Event, until bool, again *pace) {
	o := c.s.anOrchestrator()
	call(c.process, o.process, 3*time.Second,
		func(reply func(bool, error)) { o.decide(run, before, ev, reply) },
		func(done bool, err error) {
			switch {
			case err != nil && until:
				c.after(again.wait(), func() { c.tryDecide(kind, run, before, ev, until, again) })
				return
			case done:
				c.s.seen.count(kind)
				c.regret(kind, run)
			}
			c.open--
		})
}

// regret has a person run again what was cancelled a moment ago.
func (c *clients) regret(kind Seen, run int) {
	if kind != SeenCancelled || !c.s.mishap(0.4) {
		return
	}
	c.after(c.s.between(100*time.Millisecond, 3*time.Second), func() {
		r := c.s.core.runs[run]
		step := c.s.below(r.pipeline.plan.Total)
		c.decide(SeenRerun, run, nil, machine.RerunFrom{
			Actor: machine.Actor{Name: "person:ann"}, Step: step, Generation: r.head.State.Heads[step].Generation, KeepEffects: true,
		}, false)
	})
}

// decision draws what a person does now about some run.
func (c *clients) decision() {
	if len(c.s.core.runs) == 0 {
		return
	}
	r := c.s.core.runs[c.s.below(len(c.s.core.runs))]
	by := machine.Actor{Name: "person:ann", Comment: "because"}
	undo := c.s.chance(0.5)
	raise := func(w *working) {
		if w.now.budget > 0 {
			w.now.budget += 3 * worstCase
		}
	}
	all := machine.Ref{Key: machine.Key{Step: machine.AllSteps, Shard: machine.Whole}}
	switch n := c.s.below(10); {
	case r.head.Status == machine.RunFailed && n < 6:
		c.decide(SeenReopened, r.no, raise, machine.OperatorRetry{Actor: by, Ref: all, BudgetRaised: true}, false)
	case r.head.Status.Terminal() || r.head.Status == machine.RunNeedsReview && n < 2:
		step := c.s.below(r.pipeline.plan.Total)
		c.decide(SeenRerun, r.no, nil, machine.RerunFrom{
			Actor: by, Step: step, Generation: r.head.State.Heads[step].Generation, KeepEffects: c.s.chance(0.5),
		}, false)
	case r.head.Status == machine.RunNeedsReview && n < 5:
		c.decide(SeenRetried, r.no, raise, machine.OperatorRetry{Actor: by, Ref: all, BudgetRaised: true}, false)
	case r.head.Status == machine.RunNeedsReview && n < 7:
		c.decide(SeenClosed, r.no, nil, machine.OperatorClose{Actor: by, Undo: undo}, false)
	case n < 6:
		c.decide(SeenCancelled, r.no, nil, machine.CancelRequested{Actor: by, Undo: pick(c.s, nil, &undo)}, true)
	case n < 8:
		c.decide(SeenHeld, r.no, nil, machine.Paused{Actor: by}, false)
	default:
		c.correct(r, by)
	}
}

// correct resolves a review with data of a person's.
func (c *clients) correct(r *run, by machine.Actor) {
	for _, l := range r.rows() {
		if l.Status == machine.StepNeedsReview {
			c.decide(SeenCorrected, r.no, nil, machine.OperatorCorrect{
				Actor: by, Ref: machine.Ref{Key: l.Key, Generation: l.Generation}, Input: c.s.chance(0.5),
			}, false)
			return
		}
	}
}

// resumeAll ends what people have paused.
func (c *clients) resumeAll() {
	for _, r := range c.s.core.runs {
		if r.head.State.Held && !r.head.Status.Terminal() {
			c.decide(SeenResumed, r.no, nil, machine.Resumed{}, true)
		}
	}
}
