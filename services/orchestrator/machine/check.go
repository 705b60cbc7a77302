package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rule names a promise about a stored run. The names are stable: reports and `pawl doctor` show them.
type Rule string

// The rules. Each holds between any two events.
const (
	// RuleCanMove: a run that has not ended can move: by itself (a step is READY, QUEUED, RUNNING, in BACKOFF or WAITING), or
	// by a person who is asked.
	RuleCanMove Rule = "can_move"
	// RuleEnded: nothing is left of a run that has ended, and it says how it ended.
	RuleEnded Rule = "ended_is_over"
	// RuleOpen: a run that has not ended has no end on record.
	RuleOpen Rule = "open_is_not_over"
	// RuleStatus: the run's state, its reason and the clock of its deadline say what its rows say.
	RuleStatus Rule = "status_agrees"
	// RuleHead: what the run's head says of a step is what the step's row or result says.
	RuleHead Rule = "head_agrees"
	// RuleStepsDone: steps_done counts the finished steps.
	RuleStepsDone Rule = "steps_done"
	// RuleShards: the counters of a fan-out agree with the rows of its shards.
	RuleShards Rule = "shards_counted"
	// RuleFilled: a fan-out with pending shards has as many active ones as it may have.
	RuleFilled Rule = "fan_out_filled"
	// RuleNeeds: a step has a row only when everything it needs is finished, and then it always has had one.
	RuleNeeds Rule = "needs_finished"
	// RuleTimer: what waits for a time has one, not beyond the deadline, and nothing else has.
	RuleTimer Rule = "timer"
	// RuleFence: a step that is RUNNING has a holder and a fence.
	RuleFence Rule = "fence"
	// RulePolicy: failures, losses and calls of unknown fate are within what the step allows.
	RulePolicy Rule = "within_policy"
)

// AllRules lists the rules that Check looks at.
func AllRules() []Rule {
	return []Rule{
		RuleCanMove, RuleEnded, RuleOpen, RuleStatus, RuleHead, RuleStepsDone, RuleShards, RuleFilled, RuleNeeds, RuleTimer,
		RuleFence, RulePolicy,
	}
}

// Violation is a rule that a stored run breaks.
type Violation struct {
	Rule Rule
	// Key is the step or shard; Step is AllSteps when it is the run itself.
	Key Key
	// Detail says in words what is wrong, with the values found.
	Detail string
}

// String says which rule is broken, and where.
func (v Violation) String() string {
	if v.Key.Step == AllSteps {
		return fmt.Sprintf("%s: %s", v.Rule, v.Detail)
	}
	return fmt.Sprintf("%s: step %d, shard %d: %s", v.Rule, v.Key.Step, v.Key.Shard, v.Detail)
}

// Check returns what is wrong with a run as it is stored, between two events, by step; nothing if all is well. Rows hold all live
// rows of the run, and the stored results of its steps (those of shards may be left out). It reads rows and results rather
// than the machine's own bookkeeping, wherever there are both, and needs no clock.
func Check(p *Plan, run *Run, rows *Rows) []Violation {
	if run.Seq == 0 {
		return nil // not created yet
	}
	c := &checker{plan: p, run: run, rows: rows, all: rows.All()}
	if run.Status.Terminal() {
		c.ended()
	} else {
		c.open()
		c.status()
	}
	c.heads()
	c.needs()
	for i := range c.all {
		c.timer(&c.all[i])
		c.claim(&c.all[i])
		c.policy(&c.all[i])
	}
	slices.SortStableFunc(c.found, func(a, b Violation) int { return compareKeys(a.Key, b.Key) })
	return c.found
}

// checker is one Check.
type checker struct {
	plan  *Plan
	run   *Run
	rows  *Rows
	all   []Live
	found []Violation
}

// want notes a violation unless the condition holds.
func (c *checker) want(holds bool, rule Rule, k Key, format string, args ...any) {
	if !holds {
		c.found = append(c.found, Violation{Rule: rule, Key: k, Detail: fmt.Sprintf(format, args...)})
	}
}

// ofRun is the key of what concerns the run itself.
func ofRun() Key { return Key{AllSteps, Whole} }

func (c *checker) ended() {
	run := c.run
	for i := range c.all {
		c.want(false, RuleEnded, c.all[i].Key, "the run is %s, and a row is left that is %s", run.Status, c.all[i].Status)
	}
	for i := range c.plan.Total {
		over := []Phase{PhaseDone, PhaseSkipped, PhaseFailed, PhaseCancelled, PhaseCompensated}
		c.want(slices.Contains(over, run.State.Heads[i].Phase), RuleEnded, Key{i, Whole},
			"the run is %s, and the step %s", run.Status, run.State.Heads[i].Phase)
	}
	for k, res := range c.rows.results {
		c.want(res.Status != StepNeedsReview, RuleEnded, k, "the run is %s, and its result waits for a person", run.Status)
	}
	c.want(run.State.Ending == nil, RuleEnded, ofRun(), "the run is %s, and an end is still decided", run.Status)
	c.want(!run.FinishedAt.IsZero(), RuleEnded, ofRun(), "the run is %s, and has no finished_at", run.Status)
	done := run.Status == RunDone
	c.want(done == (run.Reason == ""), RuleEnded, ofRun(), "the run is %s with reason %q", run.Status, run.Reason)
	c.want(done == (run.Undo == ""), RuleEnded, ofRun(), "the run is %s with undo %q", run.Status, run.Undo)
}

func (c *checker) open() {
	c.want(c.run.FinishedAt.IsZero(), RuleOpen, ofRun(), "the run is %s, and has a finished_at", c.run.Status)
	c.want(c.run.Undo == "", RuleOpen, ofRun(), "the run is %s, and says that undo is %s", c.run.Status, c.run.Undo)
}

// status compares the run's state with what its rows can do.
func (c *checker) status() {
	run, moving, review, undo := c.run, false, false, false
	for i := range c.all {
		l := &c.all[i]
		moving = moving || l.Status.Phase() == PhaseLive
		review = review || l.Status == StepNeedsReview
		undo = undo || c.plan.IsUndo(l.Step)
	}
	if !moving && !review {
		c.want(false, RuleCanMove, ofRun(), "the run is %s, and nothing of it can: %s", run.Status, c.describe())
	}
	waits := run.Status == RunNeedsReview
	c.want(waits == !moving, RuleStatus, ofRun(), "the run is %s, and something can move: %v", run.Status, moving)
	c.want((run.Status == RunCompensating) == (moving && undo), RuleStatus, ofRun(),
		"the run is %s, and an undo is under way: %v", run.Status, moving && undo)
	c.want(waits == !run.PausedAt.IsZero(), RuleStatus, ofRun(),
		"the run is %s, and the clock of its deadline stands still: %v", run.Status, !run.PausedAt.IsZero())
	compensates := run.Status == RunCompensating && run.State.Ending != nil && run.State.Ending.Status != RunRunning
	c.want((waits || compensates) == (run.Reason != ""), RuleStatus, ofRun(), "the run is %s with reason %q", run.Status, run.Reason)
	c.want(run.Status != RunQueued || run.StartedAt.IsZero(), RuleStatus, ofRun(), "the run is queued, and has started")
}

// describe lists the rows in short.
func (c *checker) describe() string {
	words := make([]string, 0, len(c.all)+len(c.run.State.Heads))
	for i := range c.run.State.Heads {
		words = append(words, fmt.Sprintf("step %d %s", i, c.run.State.Heads[i].Phase))
	}
	for i := range c.all {
		words = append(words, fmt.Sprintf("row %d/%d %s", c.all[i].Step, c.all[i].Shard, c.all[i].Status))
	}
	return strings.Join(words, ", ")
}

// finished is what machine.md calls finished, told from the stored results.
func (c *checker) finished(step int) bool {
	head, k := &c.run.State.Heads[step], Key{step, Whole}
	res, stored := c.rows.results[k]
	if _, live := c.rows.live[k]; live || !stored || res.Generation != head.Generation {
		return false
	}
	switch res.Status {
	case StepDone, StepSkipped:
		return true
	case StepFailed:
		return head.Phase == PhaseFailed && head.Tolerated && c.plan.Steps[step].OnError == ContinueRun
	default:
		return false
	}
}

func (c *checker) heads() {
	done := 0
	for i := range c.plan.Steps {
		head, whole := &c.run.State.Heads[i], Key{i, Whole}
		if row, live := c.rows.live[whole]; live {
			c.want(row.Status.Phase() == head.Phase, RuleHead, whole, "the head says %s, the row %s", head.Phase, row.Status)
			c.want(row.Generation == head.Generation, RuleHead, whole, "the head is of generation %d, the row of %d", head.Generation, row.Generation)
		} else {
			c.want(!head.Phase.live(), RuleHead, whole, "the head says %s, and there is no row", head.Phase)
		}
		if i < c.plan.Total && c.finished(i) {
			done++
			over := head.Phase == PhaseDone || head.Phase == PhaseSkipped || head.Phase == PhaseFailed
			c.want(over, RuleHead, whole, "the result is stored as finished, and the head says %s", head.Phase)
		}
		c.shards(i)
	}
	c.want(done == c.run.StepsDone, RuleStepsDone, ofRun(), "steps_done is %d, and %d steps are finished", c.run.StepsDone, done)
}

// shards compares the counters of a fan-out with its rows.
func (c *checker) shards(step int) {
	head, whole, counted, pending := &c.run.State.Heads[step], Key{step, Whole}, Shards{}, 0
	for i := range c.all {
		l := &c.all[i]
		if l.Step != step || l.Shard == Whole {
			continue
		}
		counted.count(l.Status, 1)
		if l.Status == StepPending {
			pending++
		}
		c.want(head.Phase == PhaseExpanded, RuleShards, l.Key, "the step is %s, and has a shard that is %s", head.Phase, l.Status)
		c.want(l.Generation == head.Generation, RuleShards, l.Key, "the step is in generation %d, the shard in %d", head.Generation, l.Generation)
	}
	if head.Phase != PhaseExpanded {
		return
	}
	said := &head.Shards
	agree := counted.Active == said.Active && counted.Waiting == said.Waiting && counted.Review == said.Review
	c.want(agree, RuleShards, whole, "counters %+v, rows %+v", *said, counted)
	c.want(said.finished() < said.Total, RuleShards, whole, "the step is expanded, and all its shards are finished: %+v", *said)
	if c.run.State.Ending != nil && step < c.plan.Total {
		return // nothing more of it begins
	}
	c.want(pending == said.Pending(), RuleShards, whole, "%d shards should be pending, and %d are", said.Pending(), pending)
	full := said.Active >= max(c.plan.Steps[step].Concurrency, 1)
	c.want(pending == 0 || full, RuleFilled, whole, "%d shards are active while %d wait for their turn", said.Active, pending)
}

func (c *checker) needs() {
	for i := range c.plan.Total {
		met := true
		for _, n := range c.plan.Steps[i].Needs {
			met = met && c.finished(n)
		}
		k, phase := Key{i, Whole}, c.run.State.Heads[i].Phase
		_, live := c.rows.live[k]
		c.want(!live || met, RuleNeeds, k, "the step is %s before what it needs is finished", phase)
		if c.run.State.Ending == nil && !c.run.Status.Terminal() {
			c.want((phase == PhasePending) == !met, RuleNeeds, k, "the step is %s, and what it needs is finished: %v", phase, met)
		}
	}
}

func (c *checker) timer(l *Live) {
	timed := l.Status == StepRunning || l.Status == StepBackoff || l.Status == StepWaiting
	c.want(timed == !l.DueAt.IsZero(), RuleTimer, l.Key, "the step is %s with its timer at %v", l.Status, l.DueAt)
	bounded := l.Status == StepBackoff || l.Status == StepWaiting
	if bounded && !c.plan.IsUndo(l.Step) && c.run.NotBefore.IsZero() && c.run.PausedAt.IsZero() {
		c.want(!l.DueAt.After(c.run.DeadlineAt), RuleTimer, l.Key, "the step waits until %v, beyond the deadline %v",
			l.DueAt.Format(time.RFC3339Nano), c.run.DeadlineAt.Format(time.RFC3339Nano))
	}
	c.want(l.Status != StepQueued || !l.QueuedAt.IsZero(), RuleTimer, l.Key, "the step is queued, and it is unknown since when")
}

func (c *checker) claim(l *Live) {
	c.want(l.Status != StepRunning || l.Fence != ID{}, RuleFence, l.Key, "the step is running without a fence")
	c.want(l.Status != StepRunning || l.Fence == l.LastFence, RuleFence, l.Key, "the step is running under a fence that is not the newest")
}

func (c *checker) policy(l *Live) {
	step := &c.plan.Steps[l.Step]
	least := min(l.Attempt, l.Failures, l.Losses, l.Calls, l.ClaimNo-l.Attempt)
	c.want(least >= 0, RulePolicy, l.Key, "a counter is out of bounds: %+v", *l)
	c.want(l.AmbiguousOK <= 1, RulePolicy, l.Key, "%d calls of unknown fate were allowed to be sent again", l.AmbiguousOK)
	if l.Status == StepNeedsReview {
		return
	}
	c.want(!step.Retry.UsedUp(l.Failures) || l.Failures == 0, RulePolicy, l.Key, "%d failures, and %d attempts are allowed", l.Failures, step.Retry.MaxAttempts)
	c.want(l.Losses < max(step.MaxLost, 1), RulePolicy, l.Key, "%d losses, and %d are allowed", l.Losses, step.MaxLost)
	if l.Status == StepBackoff && l.Reason != ReasonCallAmbiguous && step.MaxCalls > 0 {
		c.want(l.Calls < step.MaxCalls, RulePolicy, l.Key, "%d calls, and %d are allowed", l.Calls, step.MaxCalls)
	}
}
