package sim

import (
	"maps"
	"slices"
	"time"

	"pawl.internal/services/orchestrator/machine"
)

// coreEvent is something that happened to a run or to one of its steps, and what came of it (orchestrator/store.Event).
type coreEvent struct {
	stepRef
	// make returns the machine's event at PostgreSQL's time; nil for events that only bring spend.
	make  func(now time.Time) machine.Event
	claim bool
	spend *spend
	// before, if set, is done to the run before the event, in the same transaction.
	before func(r *working)

	answer machine.Answer
	grant  *grant
	err    error
}

// spend is what a run has spent, as the gateway's version of that figure.
type spend struct{ amount, version int64 }

// grant is what the holder of a granted claim must know.
type grant struct {
	row        machine.Live
	budget     int64
	epoch      int
	deadlineIn time.Duration
	callsLeft  int
	// done says that the fan-out was expanded before, into so many shards.
	shards int
}

// working is a run as a group changes it.
type working struct {
	*run
	now     stored
	rows    *machine.Rows
	wanting bool
	needs   []machine.Need
	// ended counts the ends that the group has brought; opened says that it has opened the run again.
	ended  int
	opened bool
}

// group is one transaction of the orchestrator (orchestrator/store/group.go).
type group struct {
	core   *core
	window *window
	now    time.Time
	byRun  map[int]*working
	order  []*working

	ready    []readyStep
	admitted int
	freed    int
	waiting  bool
	conflict bool
	single   bool
	durable  bool
	// entries are to be published, and owed says that the gateway is to be told something.
	entries []stepRef
	owed    bool
}

type readyStep struct {
	run *working
	ref machine.Ref
}

// commit carries out a group of events on PostgreSQL, at one instant. It returns how the commit is undone if it was
// asynchronous; a group that must be split has changed nothing.
func (c *core) commit(w *window, events []*coreEvent) (g *group, undo func()) {
	durable := !events[0].claim
	g = &group{core: c, window: w, now: c.s.pgNow(), byRun: map[int]*working{}, single: len(events) == 1, durable: durable}
	g.load(events)
	for _, e := range events {
		if !g.conflict && e.err == nil {
			g.apply(e)
		}
	}
	if g.conflict {
		return g, nil
	}
	g.dispatch()
	return g, g.write()
}

// load reads the runs, and of their rows exactly what the machine wants.
func (g *group) load(events []*coreEvent) {
	for _, e := range events {
		e.answer, e.grant, e.err = "", nil, nil
		if e.run < 0 || e.run >= len(g.core.runs) {
			e.err = errRefused
			continue
		}
		w := g.byRun[e.run]
		if w == nil {
			r := g.core.runs[e.run]
			w = &working{run: r, now: r.clone()}
			g.byRun[e.run] = w
			g.order = append(g.order, w)
		}
		if e.make != nil {
			need := machine.Wants(w.pipeline.plan, &w.now.head, e.make(g.now))
			g.conflict = g.conflict || need.First && w.wanting
			w.wanting = true
			w.needs = append(w.needs, need)
		}
	}
	for _, w := range g.order {
		w.loadRows()
	}
}

func (w *working) loadRows() {
	live, results, pending := map[machine.Key]machine.Live{}, map[machine.Key]machine.Result{}, map[int]int{}
	for _, need := range w.needs {
		for _, k := range need.Keys {
			if l, ok := w.now.live[k]; ok {
				live[k] = l
			} else if res, ok := w.now.results[k]; ok && res.Generation == w.now.head.State.Heads[k.Step].Generation {
				results[k] = res
			}
		}
		for _, step := range need.Pending {
			pending[step]++
		}
		w.loadAsked(need, live, results)
	}
	for step, n := range pending {
		for _, l := range w.nextPending(step, n) {
			live[l.Key] = l
		}
	}
	w.rows = machine.NewRows(slices.Collect(maps.Values(live)), slices.Collect(maps.Values(results)))
}

// loadAsked loads the rows that an event wants by what they are.
func (w *working) loadAsked(need machine.Need, live map[machine.Key]machine.Live, results map[machine.Key]machine.Result) {
	if need.Review || len(need.Begun) > 0 {
		for k, l := range w.now.live {
			begun := (l.Status == machine.StepRunning || l.Unsure) && slices.Contains(need.Begun, l.Step)
			if need.Review && l.Status == machine.StepNeedsReview || begun {
				live[k] = l
			}
		}
	}
	if len(need.Results) > 0 {
		for k, res := range w.now.results {
			if k.Shard != machine.Whole && slices.Contains(need.Results, k.Step) && res.Generation == w.now.head.State.Heads[k.Step].Generation {
				results[k] = res
			}
		}
	}
}

// nextPending are the queries FindPendingShards and FindPendingShardsBackwards.
func (w *working) nextPending(step, n int) []machine.Live {
	backwards, next := w.pipeline.plan.IsUndo(step), w.now.head.State.Heads[step].Shards.Next
	var rows []machine.Live
	for _, l := range w.now.live {
		if l.Step == step && l.Status == machine.StepPending && backwards == (l.Shard < next) {
			rows = append(rows, l)
		}
	}
	slices.SortFunc(rows, func(a, b machine.Live) int {
		if backwards {
			return b.Shard - a.Shard
		}
		return a.Shard - b.Shard
	})
	return rows[:min(n, len(rows))]
}

// apply carries out one event in memory.
func (g *group) apply(e *coreEvent) {
	w := g.byRun[e.run]
	w.learn(e.spend, g.core.s)
	if e.before != nil {
		e.before(w)
	}
	if e.make == nil {
		e.answer = machine.Applied
		return
	}
	before, _ := w.rows.Get(e.Key)
	said := e.make(g.now)
	ev := g.core.s.unguarded(said, before)
	if claim, ok := ev.(machine.Claimed); ok && before.Status == machine.StepRunning && !g.core.s.guard(GuardClaimOnce) {
		e.answer, e.grant = machine.Granted, g.grantOf(w, e.Key)
		g.core.s.oracle.granted(w, claim, before)
		return
	}
	outcome, err := g.transition(w, ev)
	if err != nil {
		g.refuse(e, err)
		return
	}
	e.answer = outcome.Answer
	if e.answer == machine.Granted {
		e.grant = g.grantOf(w, e.Key)
	}
	after, _ := w.rows.Get(e.Key)
	if inFlight(before) && !inFlight(after) {
		g.freed++
	}
	g.core.s.oracle.applied(w, said, outcome.Answer, before, after)
}

// refuse notes why an event has no effect; one that misses rows which an event before it has made necessary is done alone.
func (g *group) refuse(e *coreEvent, err error) {
	if _, missing := err.(*machine.MissingError); missing { //nolint:errorlint // the machine's own
		if g.single {
			g.core.s.fail(PromiseMachine, "alone, an event misses rows that it did not want: %v", err)
		}
		g.conflict = true
	}
	e.err = err
}

func (g *group) grantOf(w *working, k machine.Key) *grant {
	row, _ := w.rows.Get(k)
	step := w.pipeline.plan.Steps[k.Step]
	left := 1 << 30
	if step.MaxCalls > 0 {
		left = max(step.MaxCalls-row.Calls, 0)
	}
	return &grant{
		row: row, budget: w.now.budget, epoch: w.now.head.SpendEpoch, deadlineIn: w.now.head.DeadlineAt.Sub(g.now), callsLeft: left,
		shards: w.now.head.State.Heads[k.Step].Shards.Total,
	}
}

// learn keeps the newest figure of what the run has spent.
func (w *working) learn(sp *spend, s *Sim) {
	if sp != nil && (sp.version > w.now.costVersion || !s.guard(GuardSpendVersion)) {
		w.now.cost, w.now.costVersion = sp.amount, sp.version
	}
}

// transition applies an event of the machine and notes what follows.
func (g *group) transition(w *working, ev machine.Event) (machine.Outcome, error) {
	was := w.now.head.Status
	outcome, err := machine.Apply(w.pipeline.plan, &w.now.head, w.rows, ev, g.now, g.core.s.random.Float64)
	if err != nil {
		return outcome, err
	}
	g.core.s.oracle.transition(w, ev, was, outcome.Effects)
	for _, effect := range outcome.Effects {
		g.effect(w, effect)
	}
	return outcome, nil
}

// dispatch makes QUEUED at once what has become READY, as far as nothing waits and the window has room.
func (g *group) dispatch() {
	room := g.window.admit(len(g.ready))
	g.admitted += room
	for _, step := range g.ready {
		row, live := step.run.rows.Get(step.ref.Key)
		if !live || row.Status != machine.StepReady || step.run.now.head.State.Held {
			continue
		}
		if room == 0 {
			g.waiting = true
			continue
		}
		room--
		if _, err := g.transition(step.run, machine.Dispatched{Ref: step.ref}); err != nil {
			g.core.s.fail(PromiseMachine, "a READY step cannot be dispatched: %v", err)
		}
	}
	g.window.unused(room)
	g.admitted -= room
}
