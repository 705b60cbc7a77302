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
		w := createdWorld(t, drawn{t}, randomPlan(drawn{t}))
		for range rapid.IntRange(0, 60).Draw(t, "length") {
			_, _ = w.apply(w.next(drawn{t}))
		}
	})
}

// TestEveryRunCanEnd ends runs from random states, once with workers that succeed, and once without any.
func TestEveryRunCanEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := createdWorld(t, drawn{t}, randomPlan(drawn{t}))
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

// TestEveryTransitionHappens shows that the tables say no more than what can happen.
func TestEveryTransitionHappens(t *testing.T) {
	t.Parallel()
	seen := newCoverage()
	for seed := range uint64(3000) {
		c := seeded{rand.New(rand.NewPCG(seed, 0))}
		plan := randomPlan(c)
		if seed%4 == 0 {
			plan = wideUndo()
		}
		w := createdWorld(t, c, plan)
		seen.add(w.seen)
		w.seen = seen
		for range 60 {
			_, _ = w.apply(w.next(c))
		}
	}
	var never []string
	for i, row := range machine.StepTable() {
		for _, from := range row.From {
			if !seen.steps[mark(i, "from", string(from))] {
				never = append(never, fmt.Sprintf("%s: a step in %s", row.On, from))
			}
		}
		for _, to := range row.To {
			if !seen.steps[mark(i, "to", string(to))] {
				never = append(never, fmt.Sprintf("%s: a step to %s", row.On, to))
			}
		}
	}
	for i, row := range machine.RunTable() {
		for _, from := range row.From {
			if !seen.runs[mark(i, "from", string(from))] {
				never = append(never, fmt.Sprintf("%s: a run in %s", row.On, from))
			}
		}
		for _, to := range row.To {
			if !seen.runs[mark(i, "to", string(to))] {
				never = append(never, fmt.Sprintf("%s: a run to %s", row.On, to))
			}
		}
	}
	require.Empty(t, never, "the tables say what never happens")
}

// wideUndo is a fan-out whose effects are undone two at a time: some undos may wait for a person while others run.
func wideUndo() *machine.Plan {
	step := machine.Step{Name: "a", FanOut: true, Effect: true, Concurrency: 2, Undo: 1, HardTimeout: time.Second}
	undo := machine.Step{Name: "a~undo", FanOut: true, Effect: true, Concurrency: 2, HardTimeout: time.Second}
	return &machine.Plan{
		Steps: []machine.Step{step, undo}, Total: 1, Deadline: time.Hour, UndoOnFailure: true, UndoOnCancel: true,
	}
}
