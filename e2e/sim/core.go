package sim

import (
	"maps"
	"slices"
	"time"

	"pawl.internal/services/orchestrator/machine"
)

// core is the schema core of PostgreSQL (orchestrator/store): runs, live steps, results, leases of runners, what is owed to
// the gateway.
type core struct {
	s    *Sim
	runs []*run
	keys map[string]*run
	// runnerRows are the leases (core.runner), by instance, in the order in which they came.
	runnerRows []*runnerRow
}

// run is a row of core.pipeline_run with all that belongs to it.
type run struct {
	no       int
	pipeline *pipeline
	stored
}

// stored is what a transaction can change of a run.
type stored struct {
	head    machine.Run
	live    map[machine.Key]machine.Live
	results map[machine.Key]machine.Result
	// budget is 0 without a limit. Cost is core's copy of what the purse says, at its version.
	budget, cost, costVersion int64
	// gate and cancels are owed to the gateway.
	gate    *gate
	cancels []owedCancel
}

// gate is a row of core.spend_gate_owed.
type gate struct {
	epoch  int
	open   bool
	budget int64
	owedAt time.Duration
}

// owedCancel is a row of core.call_cancel_owed: of a step, or with AllSteps of the run.
type owedCancel struct {
	step, generation int
	owedAt           time.Duration
}

// runnerRow is a row of core.runner.
type runnerRow struct {
	instance   machine.ID
	slots      int
	leaseUntil time.Duration
}

func newCore(s *Sim) *core { return &core{s: s, keys: map[string]*run{}} }

// clone returns a copy that shares nothing.
func (st *stored) clone() stored {
	c := *st
	c.head = cloneHead(&st.head)
	c.live, c.results, c.cancels = maps.Clone(st.live), maps.Clone(st.results), slices.Clone(st.cancels)
	if st.gate != nil {
		g := *st.gate
		c.gate = &g
	}
	return c
}

func cloneHead(h *machine.Run) machine.Run {
	c := *h
	c.State.Heads = slices.Clone(h.State.Heads)
	if h.State.Ending != nil {
		e := *h.State.Ending
		c.State.Ending = &e
	}
	return c
}

// rows returns the live rows by step and shard.
func (r *run) rows() []machine.Live {
	rows := make([]machine.Live, 0, len(r.live))
	for _, l := range r.live {
		rows = append(rows, l)
	}
	slices.SortFunc(rows, func(a, b machine.Live) int { return compareKeys(a.Key, b.Key) })
	return rows
}

func compareKeys(a, b machine.Key) int {
	if a.Step != b.Step {
		return a.Step - b.Step
	}
	return a.Shard - b.Shard
}

// ref names a step or shard in its current generation.
func (r *run) ref(k machine.Key) machine.Ref {
	return machine.Ref{Key: k, Generation: r.head.State.Heads[k.Step].Generation}
}

// stepRef names a step or shard of a run, as streams and runners do.
type stepRef struct {
	run int
	machine.Ref
}

// beat is the statement PutRunners.
func (c *core) beat(instance machine.ID, slots int) {
	until := c.s.now + lease
	if row := c.runnerRow(instance); row != nil {
		row.leaseUntil, row.slots = until, slots
		return
	}
	c.runnerRows = append(c.runnerRows, &runnerRow{instance: instance, slots: slots, leaseUntil: until})
}

func (c *core) endLease(instance machine.ID) {
	if row := c.runnerRow(instance); row != nil {
		row.leaseUntil = c.s.now
	}
}

func (c *core) runnerRow(instance machine.ID) *runnerRow {
	for _, row := range c.runnerRows {
		if row.instance == instance {
			return row
		}
	}
	return nil
}

// alive is the query RunnerIsAlive.
func (c *core) alive(instance machine.ID) bool {
	row := c.runnerRow(instance)
	return row != nil && row.leaseUntil > c.s.now
}

// slots are those of the living runners.
func (c *core) slots() (n int) {
	for _, row := range c.runnerRows {
		if row.leaseUntil > c.s.now {
			n += row.slots
		}
	}
	return n
}

// dispatched counts the rows that are QUEUED or RUNNING, and says whether READY ones wait (ReadLoad).
func (c *core) dispatched() (n int, waiting bool) {
	for _, r := range c.runs {
		for _, l := range r.live {
			if inFlight(l) {
				n++
			}
			waiting = waiting || l.Status == machine.StepReady && !r.head.State.Held
		}
	}
	return n, waiting
}

// ready returns READY steps, the oldest first.
func (c *core) ready(most int) (refs []stepRef, all bool) {
	type step struct {
		ref stepRef
		at  time.Time
	}
	var found []step
	for _, r := range c.runs {
		if r.head.State.Held {
			continue
		}
		for _, l := range r.rows() {
			if l.Status == machine.StepReady {
				found = append(found, step{stepRef{r.no, r.ref(l.Key)}, l.ReadyAt})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b step) int { return a.at.Compare(b.at) })
	for _, f := range found[:min(most, len(found))] {
		refs = append(refs, f.ref)
	}
	return refs, len(found) <= most
}

func inFlight(l machine.Live) bool {
	return l.Status == machine.StepQueued || l.Status == machine.StepRunning
}
