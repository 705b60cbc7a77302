package machine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pawl.internal/services/orchestrator/machine"
)

// drawn chooses by rapid, so that failures shrink.
type drawn struct{ t *rapid.T }

func (d drawn) below(n int, what string) int { return rapid.IntRange(0, n-1).Draw(d.t, what) }

// seeded chooses by a seed, the same in every run of the tests.
type seeded struct{ *rand.Rand }

func (s seeded) below(n int, _ string) int { return s.IntN(n) }

// TestAlwaysTrue drives random plans through random events. The world checks after each what must always be true, applies
// it a second time, and passes the state through its stored form.
func TestAlwaysTrue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := createdWorld(t, drawn{t}, randomPlan(drawn{t}), nil)
		for range rapid.IntRange(0, 60).Draw(t, "length") {
			_, _ = w.apply(w.next(drawn{t}))
		}
	})
}

// TestEveryRunCanEnd ends runs from random states, once with workers that succeed, and once without any.
func TestEveryRunCanEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := createdWorld(t, drawn{t}, randomPlan(drawn{t}), nil)
		for range rapid.IntRange(0, 40).Draw(t, "length") {
			_, _ = w.apply(w.next(drawn{t}))
		}
		workers := rapid.Bool().Draw(t, "workers")
		if w.run.State.Held && !w.run.Status.Terminal() {
			w.must(machine.Resumed{})
		}
		for range 500 {
			if w.run.Status.Terminal() {
				return
			}
			if workers {
				w.stepForward()
			} else {
				w.must(w.decay())
			}
		}
		require.Fail(t, "the run does not end", "%s %+v %+v", w.run.Status, w.run.State, w.rows())
	})
}

func (w *world) stepForward() {
	for _, l := range w.rows() {
		if ev, ok := w.progress(l); ok {
			w.must(ev)
			return
		}
	}
	require.Fail(w.t, "nothing can be done", "%s %+v", w.run.Status, w.run.State)
}

// TestEveryTransitionHappens shows that the tables say no more than what can happen: seed after seed until every row has
// led from each of its states to each.
func TestEveryTransitionHappens(t *testing.T) {
	t.Parallel()
	seen := newCoverage()
	for seed := range uint64(50_000) {
		c := seeded{rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // not for secrets
		w := seededWorld(t, c, seed, seen)
		for range 60 {
			_, _ = w.apply(w.next(c))
		}
		if seed%500 == 0 && len(seen.never()) == 0 {
			return
		}
	}
	require.Empty(t, seen.never(), "the tables say what never happens")
}

// seededWorld is a random one, or one that begins where transitions happen that are rare elsewhere.
func seededWorld(t *testing.T, c chooser, seed uint64, seen *coverage) *world {
	t.Helper()
	switch seed % 4 {
	case 0:
		return createdWorld(t, c, wideUndo(), seen)
	case 1:
		w := createdWorld(t, c, chain(effect()), seen)
		w.retryWhileEnding()
		return w
	default:
		return createdWorld(t, c, randomPlan(c), seen)
	}
}

// never returns what the tables say and was not seen.
func (c *coverage) never() []string {
	var never []string
	for i, row := range machine.StepTable() {
		never = append(never, unseen(c.steps, i, row.On, row.From, row.To)...)
	}
	for i, row := range machine.RunTable() {
		never = append(never, unseen(c.runs, i, row.On, row.From, row.To)...)
	}
	return never
}

func unseen[S ~string](seen map[use[S]]bool, row int, on machine.Kind, froms, tos []S) []string {
	var never []string
	for _, from := range froms {
		for _, to := range tos {
			if !seen[use[S]{row, from, to}] {
				never = append(never, fmt.Sprintf("%s (row %d): %s -> %s", on, row, from, to))
			}
		}
	}
	return never
}

// retryWhileEnding cancels a run that awaits an outside effect, and lets a person try that again.
func (w *world) retryWhileEnding() {
	if w.status(0, whole) != machine.StepReady {
		return
	}
	held := w.start(0, whole)
	w.must(machine.CancelRequested{})
	w.must(machine.ReviewRequested{Attempt: held, Reason: machine.ReasonLowConfidence})
	w.must(machine.OperatorRetry{Ref: held.Ref})
}

// wideUndo is a fan-out whose effects are undone two at a time: some undos may wait for a person while others run.
func wideUndo() *machine.Plan {
	step := machine.Step{Name: "a", FanOut: true, Effect: true, Concurrency: 2, Undo: 1, HardTimeout: time.Second}
	undo := machine.Step{Name: "a~undo", FanOut: true, Effect: true, Concurrency: 2, HardTimeout: time.Second}
	return &machine.Plan{
		Steps: []machine.Step{step, undo}, Total: 1, Deadline: time.Hour, UndoOnFailure: true, UndoOnCancel: true,
	}
}
