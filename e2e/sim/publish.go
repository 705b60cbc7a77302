package sim

import (
	"time"

	"pawl.internal/services/orchestrator/machine"
)

const (
	relayEvery   = 5 * time.Second
	relayAgain   = time.Second
	publishPause = 200 * time.Millisecond
)

// publish tells Redis what a committed group leads to (publish.go): once; what fails is left to the sweeps.
func (o *orchestrator) publish(entries []stepRef) {
	if len(entries) == 0 {
		return
	}
	o.queue = append(o.queue, entries)
	if !o.publishing {
		o.publishing = true
		o.at("orchestrator.publishing", o.publishNext)
	}
}

func (o *orchestrator) publishNext() {
	if len(o.queue) == 0 {
		o.publishing = false
		return
	}
	entries := o.queue[0]
	o.queue = o.queue[1:]
	o.s.redis.ask(o.process, func() {
		for _, ref := range entries {
			o.s.redis.add(ref)
		}
	}, func(err error) {
		if err != nil {
			o.s.seen.count(SeenPublishFailed)
			o.after(publishPause, o.publishNext)
			return
		}
		o.publishNext()
	})
}

// noticeOwed has the relay look soon.
func (o *orchestrator) noticeOwed() { o.after(0, o.relay) }

// relay tells the gateway what transitions owe it, until it has confirmed it (relay.go): gates first, and calls of a run are
// not aborted while its gate is owed, since a call could begin afterwards.
func (o *orchestrator) relay() {
	if o.relaying || !o.s.pg.reads(o.process) {
		return
	}
	o.relaying = true
	o.tellGates(func(err error) {
		o.tellCancels(func(err2 error) {
			o.relaying = false
			if err != nil || err2 != nil {
				if o.s.guard(GuardRelay) {
					o.after(relayAgain, o.relay)
				}
			}
		})
	})
}

// toldGate is a gate as it was told.
type toldGate struct {
	run int
	gate
}

func (o *orchestrator) tellGates(then func(error)) {
	var told []toldGate
	for _, r := range o.s.core.runs {
		if r.gate != nil {
			told = append(told, toldGate{r.no, *r.gate})
		}
	}
	if len(told) == 0 {
		then(nil)
		return
	}
	confirm := func() {
		o.at("orchestrator.told", func() {
			o.s.pg.tx(o.process, func() func() {
				for _, t := range told {
					if r := o.s.core.runs[t.run]; r.gate != nil && *r.gate == t.gate {
						r.gate = nil
					}
				}
				return nil
			}, then)
		})
	}
	g := o.s.aGateway()
	call(o.process, g.process, 5*time.Second,
		func(reply func(bool, error)) { g.setSpendGates(told, reply) },
		func(_ bool, err error) {
			if err != nil && o.s.guard(GuardRelay) {
				then(err)
				return
			}
			confirm()
		})
}

func (o *orchestrator) tellCancels(then func(error)) {
	if !o.s.pg.reads(o.process) {
		then(errUnavailable)
		return
	}
	var told []toldCancel
	for _, r := range o.s.core.runs {
		if r.gate != nil && o.s.guard(GuardGateFirst) {
			continue
		}
		for _, c := range r.cancels {
			if c.step == machine.AllSteps {
				o.s.oracle.tellsCancel(r)
			}
			told = append(told, toldCancel{r.no, c})
		}
	}
	if len(told) == 0 {
		then(nil)
		return
	}
	left, failed := len(told), error(nil)
	for _, t := range told {
		late := time.Duration(0)
		if o.s.mishap(0.1) { // it is a while before its turn comes
			late = o.s.between(time.Second, 12*time.Second)
		}
		done := func(err error) {
			if err != nil {
				failed = err
			}
			if left--; left == 0 {
				then(failed)
			}
		}
		o.after(late, func() { o.tellCancel(t, done) })
	}
}

// toldCancel is a cancel as it was told.
type toldCancel struct {
	run int
	owedCancel
}

func (o *orchestrator) tellCancel(t toldCancel, done func(error)) {
	g := o.s.aGateway()
	call(o.process, g.process, 5*time.Second,
		func(reply func(bool, error)) { g.cancelCalls(t.run, t.step, t.generation, reply) },
		func(_ bool, err error) {
			if err != nil && o.s.guard(GuardRelay) {
				done(err)
				return
			}
			o.s.pg.tx(o.process, func() func() { o.s.core.confirmCancel(t.run, t.owedCancel); return nil }, done)
		})
}

// confirmCancel forgets a cancel that was told, unless it was owed anew since.
func (c *core) confirmCancel(run int, told owedCancel) {
	r := c.runs[run]
	for i, owed := range r.cancels {
		if owed == told {
			r.cancels = append(r.cancels[:i:i], r.cancels[i+1:]...)
			return
		}
	}
}
