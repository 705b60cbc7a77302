package machine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
)

// TestCheckFindsWhatIsBroken breaks a stored run in every way that Check knows, and nothing else.
func TestCheckFindsWhatIsBroken(t *testing.T) {
	t.Parallel()
	seen := map[machine.Rule]bool{}
	for name, c := range map[string]struct {
		rule machine.Rule
		plan *machine.Plan
		// play brings the run into a sound state, and spoil changes what is stored.
		play, spoil func(w *world)
	}{
		"no row is left": {machine.RuleCanMove, chain(machine.Step{}), nil, func(w *world) {
			delete(w.live, machine.Key{Shard: whole})
		}},
		"a row of an ended run": {machine.RuleEnded, chain(machine.Step{}), func(w *world) { w.finish(0, whole) }, func(w *world) {
			w.put(machine.Live{Key: machine.Key{Shard: whole}, Generation: 1, Status: machine.StepReady})
		}},
		"an open review of an ended run": {
			machine.RuleEnded, chain(machine.Step{}), func(w *world) { w.must(machine.CancelRequested{}) },
			func(w *world) {
				w.stored[w.ref(0, whole)] = machine.Result{Generation: 1, Status: machine.StepNeedsReview, Key: w.ref(0, whole).Key}
			},
		},
		"an end of a run that goes on": {machine.RuleOpen, chain(machine.Step{}), nil, func(w *world) { w.run.FinishedAt = w.now }},
		"a person is said to be asked": {machine.RuleStatus, chain(machine.Step{}), nil, func(w *world) {
			w.run.Status, w.run.PausedAt, w.run.Reason = machine.RunNeedsReview, w.now, machine.ReasonLowConfidence
		}},
		"head and row differ": {machine.RuleHead, chain(machine.Step{}), nil, func(w *world) {
			w.run.State.Heads[0].Phase = machine.PhaseExpanded
		}},
		"a step is counted that is not finished": {machine.RuleStepsDone, chain(machine.Step{}), nil, func(w *world) { w.run.StepsDone = 1 }},
		"a shard is not counted":                 {machine.RuleShards, chain(fan(1)), expandTwo, func(w *world) { w.run.State.Heads[0].Shards.Active = 0 }},
		"a shard waits while there is room": {machine.RuleFilled, chain(fan(1)), expandTwo, func(w *world) {
			row := w.live[machine.Key{Shard: 0}]
			row.Status, w.run.State.Heads[0].Shards.Active = machine.StepPending, 0
			w.put(row)
		}},
		"a step begins too early": {machine.RuleNeeds, chain(machine.Step{}, machine.Step{}), nil, func(w *world) {
			w.put(machine.Live{Key: machine.Key{Step: 1, Shard: whole}, Generation: 1, Status: machine.StepReady, ReadyAt: w.now})
		}},
		"a wait without an end": {machine.RuleTimer, chain(machine.Step{}), func(w *world) { w.start(0, whole) }, func(w *world) {
			row := w.live[machine.Key{Shard: whole}]
			row.DueAt = time.Time{}
			w.put(row)
		}},
		"nobody holds what is running": {machine.RuleFence, chain(machine.Step{}), func(w *world) { w.start(0, whole) }, func(w *world) {
			row := w.live[machine.Key{Shard: whole}]
			row.Fence, row.LastFence = machine.ID{}, machine.ID{}
			w.put(row)
		}},
		"more losses than allowed": {machine.RulePolicy, chain(machine.Step{MaxLost: 2}), nil, func(w *world) {
			row := w.live[machine.Key{Shard: whole}]
			row.Losses = 2
			w.put(row)
		}},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // they note what they have seen
			w := newWorld(t, c.plan)
			w.must(machine.Created{})
			if c.play != nil {
				c.play(w)
			}
			require.Empty(t, machine.Check(w.plan, &w.run, w.everyRow()))
			c.spoil(w)
			found := machine.Check(w.plan, &w.run, w.everyRow())
			require.True(t, slices.ContainsFunc(found, func(v machine.Violation) bool { return v.Rule == c.rule }), "%v", found)
			require.NotEmpty(t, found[0].String())
		})
		seen[c.rule] = true
	}
	for _, rule := range machine.AllRules() {
		require.True(t, seen[rule], "%s is not broken by any case", rule)
	}
}

func (w *world) put(l machine.Live) { w.live[l.Key] = l }

func fan(concurrency int) machine.Step { return machine.Step{FanOut: true, Concurrency: concurrency} }

func expandTwo(w *world) { w.must(machine.Expanded{Attempt: w.start(0, whole), Total: 2}) }
