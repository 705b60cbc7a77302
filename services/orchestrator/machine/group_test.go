package machine_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pawl.internal/services/orchestrator/machine"
)

// TestAGroupOfEventsIsWorthTheSameOneByOne applies several events of a run to rows that were loaded once, as a group commit
// does, and compares what is stored with the same events applied one by one.
func TestAGroupOfEventsIsWorthTheSameOneByOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		one := createdWorld(t, drawn{t}, randomPlan(drawn{t}), nil)
		for range rapid.IntRange(0, 30).Draw(t, "history") {
			_, _ = one.apply(one.next(drawn{t}))
		}
		var events []machine.Event
		for range rapid.IntRange(1, 5).Draw(t, "group") {
			ev := one.next(drawn{t})
			if machine.Wants(one.plan, &one.run, ev).First && len(events) > 0 {
				break
			}
			events = append(events, ev)
		}
		group := one.clone()
		group.applyGroup(events)
		for _, ev := range events {
			_, _ = one.applyOnce(ev)
		}
		require.Equal(t, one.snapshot(), group.snapshot(), "%#v", events)
	})
}

func (w *world) clone() *world {
	c := *w
	c.live, c.stored, c.granted = maps.Clone(w.live), maps.Clone(w.stored), maps.Clone(w.granted)
	text, err := json.Marshal(w.run.State)
	require.NoError(w.t, err)
	c.run.State = machine.State{}
	require.NoError(w.t, json.Unmarshal(text, &c.run.State))
	return &c
}

// applyGroup is the store's work for one run of a group.
func (w *world) applyGroup(events []machine.Event) {
	rows := w.load(events...)
	var effects []machine.Effect
	for _, ev := range events {
		out, err := machine.Apply(w.plan, &w.run, rows, ev, w.now, w.random)
		var missing *machine.MissingError
		require.NotErrorAs(w.t, err, &missing, "%#v", events)
		effects = append(effects, out.Effects...)
	}
	w.write(rows.Changes())
	w.carryOut(effects)
}
