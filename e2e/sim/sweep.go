package sim

import (
	"time"

	"pawl.internal/services/orchestrator/machine"
)

const (
	sweepEvery = time.Second
	beatEvery  = time.Second
	// beatPatience is how long the next write may take to come without breaking the row.
	beatPatience = 3 * time.Second
)

// judge decides whether this replica may take steps from silent runners (judge.go). It knows PostgreSQL's clock only.
type judge struct {
	known       bool
	since, last time.Duration
}

// beat shows PostgreSQL that the replica lives, and begins a new row when that fails or comes late.
func (o *orchestrator) beat() {
	var at time.Duration
	late := false
	o.s.pg.tx(o.process, func() func() { at = o.s.now; return nil }, func(err error) {
		j := &o.judge
		if err != nil || late {
			*j = judge{}
			return
		}
		if !j.known || at-j.last > beatPatience {
			j.since = at
		}
		j.known, j.last = true, at
	})
	o.after(beatEvery*9/10, func() { late = true }) // what comes later than that has failed
}

// mayExpire reports whether leases that had run out may be acted on now.
func (o *orchestrator) mayExpire() bool {
	j := &o.judge
	if !o.s.guard(GuardReaperPatience) {
		return true
	}
	return j.known && o.s.now-j.last <= beatPatience && o.s.now-j.since >= lease
}

// sweep finds what nobody tells: timers that have run out, deadlines that have passed, runners that are gone (sweep.go).
func (o *orchestrator) sweep() {
	if !o.s.pg.reads(o.process) {
		return
	}
	var events []*coreEvent
	for _, r := range o.s.core.runs {
		if r.head.Status.Terminal() {
			continue
		}
		for _, l := range r.rows() {
			if e := o.due(r, l); e != nil {
				events = append(events, e)
			}
		}
		if due := r.head.DeadlineDue(); o.s.guard(GuardDeadline) && !due.IsZero() && !due.After(o.s.pgNow()) {
			events = append(events, &coreEvent{stepRef: ofRun(r.no), make: func(time.Time) machine.Event {
				return machine.DeadlinePassed{}
			}})
		}
	}
	if len(events) > 0 && o.s.mishap(0.05) {
		o.sleep(o.s.between(500*time.Millisecond, 20*time.Second))
	}
	o.at("orchestrator.found", func() { o.submit(events, func() {}) })
}

// due is what is to be done about a row now.
func (o *orchestrator) due(r *run, l machine.Live) *coreEvent {
	ref := stepRef{r.no, machine.Ref{Key: l.Key, Generation: l.Generation}}
	if !l.DueAt.IsZero() && !l.DueAt.After(o.s.pgNow()) && o.s.guard(GuardTimers) {
		e := &coreEvent{stepRef: ref, make: func(time.Time) machine.Event {
			switch l.Status {
			case machine.StepBackoff:
				return machine.RetryDue{Ref: ref.Ref}
			case machine.StepRunning:
				return machine.HardTimeout{Ref: ref.Ref, Fence: l.Fence}
			default:
				return machine.Woken{Ref: ref.Ref}
			}
		}}
		if o.s.mishap(0.4) { // another, slower replica has found it too
			o.after(o.s.between(500*time.Millisecond, 8*time.Second), func() {
				o.submit([]*coreEvent{{stepRef: ref, make: e.make}}, func() {})
			})
		}
		return e
	}
	if l.Status == machine.StepRunning && o.s.guard(GuardReaper) && o.mayExpire() {
		if row := o.s.core.runnerRow(l.Worker); row != nil && row.leaseUntil <= o.s.now {
			e := expiration(r, l)
			e.before = func(*working) { o.s.oracle.expiresRunner(l.Worker) }
			return e
		}
	}
	return nil
}
