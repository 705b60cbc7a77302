package machine_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
)

// world keeps one run as a store would: it loads for each event exactly what Wants names, applies it, and writes the
// differences and effects. It checks after every event what must always be true.
type world struct {
	t      require.TestingT
	plan   *machine.Plan
	run    machine.Run
	live   map[machine.Key]machine.Live
	stored map[machine.Ref]machine.Result
	now    time.Time
	random func() float64

	fences    uint64
	granted   map[machine.ID]machine.Ref
	spendOpen bool
	epoch     int
	journal   []machine.Journal
	effects   []machine.Effect // of the newest event
	// Tables, if set, notes what the tables' rows are used for, and is the only check.
	tables *coverage
}

var epochStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newWorld(t require.TestingT, plan *machine.Plan) *world {
	w := &world{
		t: t, plan: plan, now: epochStart, random: func() float64 { return 0.5 },
		live: map[machine.Key]machine.Live{}, stored: map[machine.Ref]machine.Result{},
		granted: map[machine.ID]machine.Ref{}, spendOpen: true, epoch: 1,
	}
	w.run = *machine.NewRun(plan, machine.Batch, w.now, time.Time{}, 0)
	return w
}

// createdWorld is a world whose run has been created, possibly to begin later. With tables it checks nothing else.
func createdWorld(t require.TestingT, c chooser, plan *machine.Plan, tables *coverage) *world {
	w := newWorld(t, plan)
	w.tables = tables
	if c.below(8, "later") == 0 {
		w.run = *machine.NewRun(w.plan, machine.Batch, w.now, w.now.Add(time.Minute), 0)
	}
	w.must(machine.Created{})
	return w
}

func (w *world) fence() machine.ID {
	w.fences++
	var id machine.ID
	binary.BigEndian.PutUint64(id[8:], w.fences)
	return id
}

// must applies an event that has to be taken.
func (w *world) must(ev machine.Event) machine.Outcome {
	out, err := w.apply(ev)
	require.NoError(w.t, err, "%#v in %s %+v", ev, w.run.Status, w.run.State)
	return out
}

// apply carries out one event, a millisecond after the one before, and then once more.
func (w *world) apply(ev machine.Event) (machine.Outcome, error) {
	w.now = w.now.Add(time.Millisecond)
	out, err := w.applyOnce(ev)
	if err == nil && w.tables == nil {
		w.repeat(ev, out)
	}
	return out, err
}

// applyOnce is the store's work for a group of one event.
func (w *world) applyOnce(ev machine.Event) (machine.Outcome, error) {
	before := w.snapshot()
	rows := w.load(ev)
	run := w.run
	run.State.Heads = slices.Clone(w.run.State.Heads)
	run.State.Ending = cloneEnding(w.run.State.Ending)

	out, err := machine.Apply(w.plan, &run, rows, ev, w.now, w.random)
	if err != nil {
		w.requireRefused(ev, err, run, rows)
		return out, err
	}
	w.run = run
	if w.tables == nil {
		w.run = w.roundTrip(run)
	}
	w.write(rows.Changes())
	w.carryOut(out.Effects)
	w.effects = out.Effects
	if w.tables != nil {
		w.checkTables(w.tables, before, ev)
	} else {
		w.check(before, ev, out)
	}
	return out, nil
}

// requireRefused checks that an event that was refused has changed nothing.
func (w *world) requireRefused(ev machine.Event, err error, run machine.Run, rows *machine.Rows) {
	if w.tables != nil {
		return
	}
	require.Equal(w.t, w.run, run, "refused event %#v has changed the run", ev)
	require.Equal(w.t, machine.Changes{}, rows.Changes(), "refused event %#v has changed rows", ev)
	var missing *machine.MissingError
	require.NotErrorAs(w.t, err, &missing, "Wants does not ask for all that %#v needs", ev)
	var stale *machine.StaleError
	var illegal *machine.IllegalError
	require.True(w.t, errors.As(err, &stale) || errors.As(err, &illegal), "untyped error %T", err)
}

// repeat applies an event that was taken again: nothing may change.
func (w *world) repeat(ev machine.Event, first machine.Outcome) {
	before, effects := w.snapshot(), w.effects
	out, err := w.applyOnce(ev)
	if err == nil {
		require.Empty(w.t, out.Effects, "%#v again has effects", ev)
		require.Contains(w.t, []machine.Answer{machine.Already, first.Answer}, out.Answer)
		require.NotEqual(w.t, machine.Applied, out.Answer, "%#v is applied again", ev)
	}
	require.Equal(w.t, before, w.snapshot(), "%#v again changes something", ev)
	w.effects = effects
}

// load reads what the events need, and nothing else.
func (w *world) load(events ...machine.Event) *machine.Rows {
	live, results := map[machine.Key]machine.Live{}, map[machine.Key]machine.Result{}
	pending := map[int]int{}
	for _, ev := range events {
		need := machine.Wants(w.plan, &w.run, ev)
		for _, k := range need.Keys {
			if l, ok := w.live[k]; ok {
				live[k] = l
			} else if res, ok := w.result(k); ok {
				results[k] = res
			}
		}
		for _, step := range need.Pending {
			pending[step]++
		}
		for _, l := range w.live {
			begun := l.Status == machine.StepRunning || l.Unsure
			if need.Review && l.Status == machine.StepNeedsReview || begun && slices.Contains(need.Begun, l.Step) {
				live[l.Key] = l
			}
		}
		for ref, res := range w.stored {
			if slices.Contains(need.Results, ref.Step) && ref.Shard != machine.Whole && res.Generation == w.run.State.Heads[ref.Step].Generation {
				results[ref.Key] = res
			}
		}
	}
	for step, n := range pending {
		for _, l := range w.nextPending(step, n) {
			live[l.Key] = l
		}
	}
	return machine.NewRows(slices.Collect(maps.Values(live)), slices.Collect(maps.Values(results)))
}

func (w *world) result(k machine.Key) (machine.Result, bool) {
	res, ok := w.stored[machine.Ref{Key: k, Generation: w.run.State.Heads[k.Step].Generation}]
	return res, ok
}

func (w *world) nextPending(step, n int) []machine.Live {
	next := w.run.State.Heads[step].Shards.Next
	var rows []machine.Live
	for _, l := range w.rows() {
		if l.Step == step && l.Status == machine.StepPending && w.plan.IsUndo(step) == (l.Shard < next) {
			rows = append(rows, l)
		}
	}
	if w.plan.IsUndo(step) {
		slices.Reverse(rows)
	}
	return rows[:min(n, len(rows))]
}

// rows returns all live rows by step and shard.
func (w *world) rows() []machine.Live {
	return machine.NewRows(slices.Collect(maps.Values(w.live)), nil).All()
}

// write does what a store's statements do, in their order.
func (w *world) write(c machine.Changes) {
	for _, d := range c.Drops {
		for k := range w.live {
			if covers(d, k) {
				delete(w.live, k)
			}
		}
	}
	for k, l := range w.live {
		if c.Promoted != "" {
			l.Class = c.Promoted
			if l.Status == machine.StepQueued {
				l.Status, l.ReadyAt = machine.StepReady, w.now
			}
			w.live[k] = l
		}
	}
	for _, k := range c.Deleted {
		require.Contains(w.t, w.live, k, "deletes a row that is not there")
		delete(w.live, k)
	}
	for _, l := range c.Inserted {
		require.NotContains(w.t, w.live, l.Key, "inserts a row that is there")
		w.live[l.Key] = l
	}
	for _, l := range c.Updated {
		require.Contains(w.t, w.live, l.Key, "updates a row that is not there")
		w.live[l.Key] = l
	}
}

func covers(d machine.Drop, k machine.Key) bool {
	return (d.Step == machine.AllSteps || d.Step == k.Step) && !slices.Contains(d.Keep, k)
}

// carryOut does to the other tables what the effects say.
func (w *world) carryOut(effects []machine.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case machine.StoreResult:
			w.storeResult(e)
		case machine.MarkCompensated:
			res := w.stored[e.Ref]
			require.Equal(w.t, machine.StepDone, res.Status, "only what is DONE is undone")
			res.Status = machine.StepCompensated
			w.stored[e.Ref] = res
		case machine.CloseReview:
			w.cancelReviewed(e.Ref)
		case machine.CloseReviews:
			for ref := range w.stored {
				if covers(e.Drop, ref.Key) {
					w.cancelReviewed(ref)
				}
			}
		case machine.ArchiveResults:
			maps.DeleteFunc(w.stored, func(ref machine.Ref, _ machine.Result) bool { return ref.Step == e.Step })
		case machine.CloseSpend:
			require.Equal(w.t, w.epoch, e.Epoch, "spend is closed at the current epoch")
			w.spendOpen = false
		case machine.OpenSpend:
			require.Equal(w.t, w.epoch+1, e.Epoch, "spend is opened at the next epoch")
			w.spendOpen, w.epoch = true, e.Epoch
		case machine.Journal:
			require.Equal(w.t, int64(len(w.journal)+1), e.Seq, "the journal has no gaps")
			w.journal = append(w.journal, e)
		}
	}
}

func (w *world) cancelReviewed(ref machine.Ref) {
	if res, ok := w.stored[ref]; ok && res.Status == machine.StepNeedsReview {
		res.Status = machine.StepCancelled
		w.stored[ref] = res
	}
}

// storeResult keeps a result. What is finished is never written again.
func (w *world) storeResult(e machine.StoreResult) {
	if old, ok := w.stored[e.Ref]; ok {
		require.NotContains(w.t, []machine.StepStatus{machine.StepDone, machine.StepSkipped, machine.StepCompensated}, old.Status,
			"the result of a finished step is written again: %+v", e)
	}
	w.stored[e.Ref] = machine.Result{
		Key: e.Key, Generation: e.Generation, Status: e.Status, Reason: e.Reason,
		Fence: e.Fence, Attempt: e.Attempt, ClaimNo: e.ClaimNo, AskBase: e.AskBase,
	}
}

// roundTrip passes the state through its stored form.
func (w *world) roundTrip(run machine.Run) machine.Run {
	text, err := json.Marshal(run.State)
	require.NoError(w.t, err)
	var state machine.State
	require.NoError(w.t, json.Unmarshal(text, &state))
	require.Equal(w.t, run.State, state, "the stored form loses something: %s", text)
	run.State = state
	return run
}

// snapshot is all that an event can change.
type snapshot struct {
	run    machine.Run
	live   map[machine.Key]machine.Live
	stored map[machine.Ref]machine.Result
}

func (w *world) snapshot() snapshot {
	return snapshot{run: w.run, live: maps.Clone(w.live), stored: maps.Clone(w.stored)}
}

func cloneEnding(e *machine.Ending) *machine.Ending {
	if e == nil {
		return nil
	}
	c := *e
	return &c
}

// ref names a step or shard in its current generation.
func (w *world) ref(step, shard int) machine.Ref {
	return machine.Ref{Key: machine.Key{Step: step, Shard: shard}, Generation: w.run.State.Heads[step].Generation}
}

// holder returns the claim that holds a row.
func (w *world) holder(step, shard int) machine.Attempt {
	l := w.live[machine.Key{Step: step, Shard: shard}]
	return machine.Attempt{Claim: machine.Claim{Ref: w.ref(step, shard), Fence: l.Fence, ClaimNo: l.ClaimNo, Worker: l.Worker}}
}

// start dispatches and claims a step that is READY.
func (w *world) start(step, shard int) machine.Attempt {
	w.must(machine.Dispatched{Ref: w.ref(step, shard)})
	return w.claim(step, shard)
}

func (w *world) claim(step, shard int) machine.Attempt {
	out := w.must(machine.Claimed{Ref: w.ref(step, shard), Fence: w.fence(), Worker: machine.ID{7}})
	require.Equal(w.t, machine.Granted, out.Answer)
	return w.holder(step, shard)
}

// finish runs a READY step to its end.
func (w *world) finish(step, shard int) {
	w.must(machine.Succeeded{Attempt: w.start(step, shard)})
}

// status is the state of a step or shard as a reader sees it.
func (w *world) status(step, shard int) machine.StepStatus {
	return statusOf(w.snapshot(), machine.Key{Step: step, Shard: shard})
}

// statusOf is what the view step_state shows.
func statusOf(s snapshot, k machine.Key) machine.StepStatus {
	if l, ok := s.live[k]; ok {
		return l.Status
	}
	head := s.run.State.Heads[k.Step]
	if k.Shard == machine.Whole {
		return machine.StepStatus(head.Phase)
	}
	if res, ok := s.stored[machine.Ref{Key: k, Generation: head.Generation}]; ok {
		return res.Status
	}
	return machine.StepCancelled
}

func effectsOf[E machine.Effect](w *world) []E {
	var found []E
	for _, effect := range w.effects {
		if e, ok := effect.(E); ok {
			found = append(found, e)
		}
	}
	return found
}
