package sim

import (
	"fmt"
	"strconv"
	"time"

	"pawl.internal/services/orchestrator/machine"
)

// oracle knows everything, and checks what Pawl promises.
type oracle struct {
	s    *Sim
	keys map[string]int
	ends map[int]bool // runs that have ended and were not opened again
	// allowed is, of each step and generation, how many requests of unknown fate were allowed to be sent again, ever.
	allowed map[effectKey]int
	quietAt time.Duration
	// late are the rows whose entries are lost, with the time when they still were not.
	late map[effectKey]time.Duration
	// fullAt is when the window was last full.
	fullAt time.Duration
}

func newOracle(s *Sim) *oracle {
	return &oracle{s: s, keys: map[string]int{}, ends: map[int]bool{}, allowed: map[effectKey]int{}, late: map[effectKey]time.Duration{}}
}

// created: one submit, one run.
func (o *oracle) created(key string, r *run) {
	if before, twice := o.keys[key]; twice {
		o.s.fail(PromiseOneRun, "key %s has made run %d, and now run %d", key, before, r.no)
	}
	o.keys[key] = r.no
}

// attemptOf is the attempt that an outcome ends.
func attemptOf(ev machine.Event) (machine.Attempt, bool) {
	switch e := ev.(type) {
	case machine.Succeeded:
		return e.Attempt, true
	case machine.Skipped:
		return e.Attempt, true
	case machine.Expanded:
		return e.Attempt, true
	case machine.FailedTransient:
		return e.Attempt, true
	case machine.FailedPermanent:
		return e.Attempt, true
	case machine.Ambiguous:
		return e.Attempt, true
	case machine.BudgetExceeded:
		return e.Attempt, true
	case machine.ReviewRequested:
		return e.Attempt, true
	case machine.Parked:
		return e.Attempt, true
	case machine.Released:
		return machine.Attempt{Claim: e.Claim}, true
	default:
		return machine.Attempt{}, false
	}
}

// applied looks at an event of a step that was taken.
func (o *oracle) applied(w *working, ev machine.Event, answer machine.Answer, before, after machine.Live) {
	if e, claim := ev.(machine.Claimed); claim && answer == machine.Granted {
		o.granted(w, e, before)
	}
	if answer != machine.Applied {
		return
	}
	o.timed(w, ev, before)
	if _, back := ev.(machine.Released); back && before.Status == machine.StepRunning && after.Status == machine.StepReady &&
		after.Attempt != before.Attempt-1 {
		o.s.fail(PromiseAttempt, "run %d step %d/%d is handed back, and its attempt counts", w.no, before.Step, before.Shard)
	}
	a, outcome := attemptOf(ev)
	if !outcome {
		return
	}
	if before.Status == machine.StepRunning && before.Fence != a.Fence {
		o.s.fail(PromiseStale, "run %d step %d/%d is held under fence %d, and %s under fence %d was taken",
			w.no, a.Step, a.Shard, number(before.Fence), ev.Kind(), number(a.Fence))
	}
	if a.Generation != before.Generation {
		o.s.fail(PromiseStale, "run %d step %d/%d: an outcome of generation %d was taken in %d", w.no, a.Step, a.Shard, a.Generation, before.Generation)
	}
	o.s.outside.ended(stepRef{w.no, a.Ref}, a.Fence)
}

// timed: what the sweeps have found is taken only of the claim that they have seen, and when its time has come.
func (o *oracle) timed(w *working, ev machine.Event, before machine.Live) {
	fence, timer := before.Fence, false
	switch e := ev.(type) {
	case machine.LeaseExpired:
		fence = e.Fence
	case machine.HardTimeout:
		fence, timer = e.Fence, true
	case machine.RetryDue:
		timer = true
	}
	if fence != before.Fence {
		o.s.fail(PromiseStale, "run %d step %d/%d is held under fence %d, and loses it by the %s of fence %d",
			w.no, before.Step, before.Shard, number(before.Fence), ev.Kind(), number(fence))
	}
	if timer && before.DueAt.After(o.s.pgNow()) {
		o.s.fail(PromiseDue, "run %d step %d/%d: %s, %v too early", w.no, before.Step, before.Shard, ev.Kind(), -o.s.ago(before.DueAt))
	}
}

// granted: nobody is given what is finished, or what somebody else has.
func (o *oracle) granted(w *working, e machine.Claimed, before machine.Live) {
	if before.Status == machine.StepRunning && before.Fence != e.Fence {
		o.s.fail(PromiseNeverTwice, "run %d step %d/%d is granted to two runners", w.no, e.Step, e.Shard)
	}
	if before.Status != machine.StepRunning && before.LastFence == e.Fence {
		o.s.fail(PromiseStale, "run %d step %d/%d is granted once more under fence %d, which is over", w.no, e.Step, e.Shard, number(e.Fence))
	}
	if o.s.core.runnerRow(e.Worker) == nil {
		o.s.fail(PromiseLease, "run %d step %d/%d is granted to a runner that has never had a lease", w.no, e.Step, e.Shard)
	}
	res, there := w.stored.results[e.Key]
	if there && res.Generation == e.Generation && (res.Status == machine.StepDone || res.Status == machine.StepSkipped) {
		o.s.fail(PromiseFinished, "run %d step %d/%d is %s, and granted once more", w.no, e.Step, e.Shard, res.Status)
	}
}

// transition looks at what an event of the machine has done, whoever asked for it.
func (o *oracle) transition(w *working, ev machine.Event, was machine.RunStatus, effects []machine.Effect) {
	if was.Terminal() && !w.now.head.Status.Terminal() {
		w.opened = true
	}
	for _, effect := range effects {
		if j, ok := effect.(machine.Journal); ok && j.Step == machine.AllSteps && machine.RunStatus(j.Status).Terminal() {
			w.ended++
		}
	}
	switch e := ev.(type) {
	case machine.OperatorClose: // the person takes responsibility for what is in doubt
		o.s.outside.settled(w.no, machine.Ref{Key: machine.Key{Step: machine.AllSteps}})
	case machine.OperatorCorrect:
		o.s.outside.settled(w.no, e.Ref)
	case machine.LeaseExpired:
		o.s.seen.count(SeenLeaseExpired)
	case machine.HardTimeout:
		o.s.seen.count(SeenHardTimeout)
	case machine.DeadlinePassed:
		o.s.seen.count(SeenDeadline)
	case machine.Overdue:
		o.s.seen.count(SeenOverdue)
	}
	if o.s.trace != nil {
		about := "run " + strconv.Itoa(w.no)
		if ref, ok := machine.Target(ev); ok {
			about = fmt.Sprintf("run %d step %d/%d generation %d", w.no, ref.Step, ref.Shard, ref.Generation)
		}
		o.s.note("postgres", "%s: %s; the run is %s", about, ev.Kind(), w.now.head.Status)
	}
}

// stores: a result that is finished is never written again.
func (o *oracle) stores(w *working, e machine.StoreResult) {
	old, there := w.now.results[e.Key]
	if there && old.Generation == e.Generation && (old.Status == machine.StepDone || old.Status == machine.StepSkipped) {
		o.s.fail(PromiseFinished, "run %d step %d/%d is %s, and gets another result, %s", w.no, e.Step, e.Shard, old.Status, e.Status)
	}
	if e.Reason == machine.ReasonWorkerLost {
		o.s.seen.count(SeenWorkerLost)
	}
}

// wrote looks at a run as it is stored now.
func (o *oracle) wrote(w *working) {
	r := w.run
	if w.opened {
		o.ends[r.no] = false
	}
	if w.ended > 0 {
		if w.ended > 1 || o.ends[r.no] {
			o.s.fail(PromiseOneEnd, "run %d ends once more", r.no)
		}
		o.ends[r.no] = true
	}
	live, results := make([]machine.Live, 0, len(r.live)), make([]machine.Result, 0, len(r.results))
	for k, l := range r.live {
		live = append(live, l)
		key := effectKey{r.no, k.Step, k.Shard, l.Generation}
		if l.AmbiguousOK > o.allowed[key] {
			o.allowed[key] = l.AmbiguousOK
		}
	}
	for k, res := range r.results {
		if res.Generation == r.head.State.Heads[k.Step].Generation {
			results = append(results, res)
		}
	}
	if found := machine.Check(r.pipeline.plan, &r.head, machine.NewRows(live, results)); len(found) > 0 {
		o.s.fail(PromiseMachine, "run %d: %v", r.no, found)
	}
	o.s.mix(uint64(r.no), uint64(r.head.Seq), uint64(len(live)), uint64(len(results)))
}

// executes: nobody executes without a grant; what a grant says is checked when it is given.
func (o *oracle) executes(h *hold) {
	if h.r.s.trace != nil {
		o.s.note(h.r.name, "executes %v, attempt %d", h, h.grant.row.Attempt)
	}
}

// sends: a request begins under a lease, from an open purse, and only if no other may have been charged for the same.
func (o *oracle) sends(f *flight, b *beginTry, earlier []*providerRequest) {
	g, key := f.g, b.key
	if o.s.trace != nil {
		o.s.note(g.name, "asks the provider: run %d step %d/%d generation %d ask %d, target %d",
			key.run, key.step, key.shard, key.generation, key.ask, b.target)
	}
	if !o.s.ledger.holds(g.holder) {
		o.s.fail(PromiseLease, "%s sends a request, and its lease has run out", g.name)
	}
	charged := 0
	for _, r := range earlier {
		if !r.refused && !r.aborted {
			charged++
		}
	}
	step := effectKey{key.run, key.step, key.shard, key.generation}
	allowed := o.allowed[step]
	if l, live := o.s.core.runs[key.run].live[machine.Key{Step: key.step, Shard: key.shard}]; live && l.Generation == key.generation {
		allowed = l.AmbiguousOK
	}
	if charged > allowed {
		o.s.fail(PromisePaidOnce, "run %d step %d/%d ask %d is sent, and %d earlier requests may have been charged; allowed are %d",
			key.run, key.step, key.shard, key.ask, charged, allowed)
	}
	row := o.s.ledger.calls[key]
	if row == nil || len(row.tries) < b.tryNo || row.tries[b.tryNo-1].state != tryInFlight {
		o.s.fail(PromisePaidOnce, "run %d step %d/%d ask %d is sent without a record that says so", key.run, key.step, key.shard, key.ask)
	}
	o.sendsAfterCancel(f, b)
}

// sendsAfterCancel: nothing begins from a closed purse, or after the flight was told to end.
func (o *oracle) sendsAfterCancel(f *flight, b *beginTry) {
	t := o.s.ledger.calls[b.key].tries[b.tryNo-1]
	p := o.s.ledger.purses[b.key.run]
	if f.ended == endedCancelled {
		o.s.fail(PromiseCancel, "run %d: a request is sent by a flight that was cancelled", b.key.run)
	}
	if p.epoch == t.epoch && p.closed && t.begunAt > p.closedAt {
		o.s.fail(PromiseCancel, "run %d: a request is recorded and sent after the purse was closed", b.key.run)
	}
	if p.epoch > t.epoch && t.begunAt > p.closedAt && p.closedAt > 0 {
		o.s.fail(PromiseCancel, "run %d: a request of an epoch is sent that is over", b.key.run)
	}
}

// effect: an outside effect begins under a lease, and no earlier attempt at it is forgotten.
func (o *oracle) effect(h *hold, earlier []*effectBegin) {
	if !o.s.core.alive(h.r.instance) {
		o.s.fail(PromiseLease, "%s begins the effect of %v, and its lease has run out", h.r.name, h)
	}
	row, live := o.s.core.runs[h.ref.run].live[h.ref.Key]
	if !live || row.Generation != h.ref.Generation || row.Status != machine.StepRunning || row.Fence != h.fence {
		return // it was taken from the runner a moment ago, which has not heard yet
	}
	for _, b := range earlier {
		if b.fence != h.fence && !b.told && !row.Unsure {
			o.s.fail(PromiseEffect, "%v begins, and nobody knows that an attempt under fence %d may have made the effect", h, number(b.fence))
		}
	}
}

// left: what a runner held that has left is nobody's.
func (o *oracle) left(r *runner) {
	if r.claims > 0 {
		return
	}
	for _, run := range o.s.core.runs {
		for _, l := range run.rows() {
			mine := l.Status == machine.StepRunning && l.Worker == r.instance
			if mine && len(o.s.outside.begun[effectKey{run.no, l.Step, l.Shard, l.Generation}]) == 0 && r.knows(run.no, l.Key) {
				o.s.fail(PromiseGoodOrder, "%s has left, and run %d step %d/%d is still running with it", r.name, run.no, l.Step, l.Shard)
			}
		}
	}
}

// knows reports whether the runner has a hold of the row.
func (r *runner) knows(run int, k machine.Key) bool {
	for _, h := range r.holds {
		if h.ref.run == run && h.ref.Key == k {
			return true
		}
	}
	return false
}

// purse: the purse is the sum of the requests, and within the budget.
func (o *oracle) purse(run int) {
	p := o.s.ledger.purses[run]
	spent, reserved := int64(0), int64(0)
	for _, c := range o.s.ledger.order {
		if c.key.run == run {
			for _, t := range c.tries {
				spent += t.cost
				reserved += t.reserved
			}
		}
	}
	if spent != p.spent || reserved != p.reserved {
		o.s.fail(PromiseMoney, "run %d: the purse says %d spent and %d reserved, its requests %d and %d", run, p.spent, p.reserved, spent, reserved)
	}
	if p.budget > 0 && p.spent+p.reserved > p.budget {
		o.s.fail(PromiseMoney, "run %d: %d spent and %d reserved of %d", run, p.spent, p.reserved, p.budget)
	}
}

func (o *oracle) settled(c *callRow, _ *try) { o.purse(c.key.run) }

// tellsCancel: the gateway is told to abort a run's calls only when none can begin any more.
func (o *oracle) tellsCancel(r *run) {
	if p := o.s.ledger.purses[r.no]; p == nil || !p.closed {
		o.s.fail(PromiseCancel, "run %d: its calls are aborted before its purse is closed", r.no)
	}
}

// drops: a runner forgets only what is not its business any more.
func (o *oracle) drops(h *hold) {
	row, live := o.s.core.runs[h.ref.run].live[h.ref.Key]
	if live && row.Status == machine.StepRunning && row.Fence == h.fence && row.Generation == h.ref.Generation {
		o.s.fail(PromiseRecovers, "%s forgets %v, which is still running with it", h.r.name, h)
	}
}

// expires: nobody is taken for dead who lives, because the store or the judge was away.
func (o *oracle) expires(p *process) {
	if o.s.processesCalm(lease + 2*time.Second) {
		o.s.fail(PromiseJudge, "%s is taken for dead, and lives", p.name)
	}
}

// aborts: what was cancelled is aborted, and nothing that has begun since the run was opened again.
func (o *oracle) aborts(f *flight) {
	p := o.s.ledger.purses[f.q.key.run]
	if p == nil || !p.closed && f.q.epoch >= p.epoch {
		o.s.fail(PromiseCancel, "run %d: a call is aborted while the purse of its epoch is open", f.q.key.run)
	}
}
