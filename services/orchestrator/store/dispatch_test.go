package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
	"pawl.internal/services/testkit"
)

// closed returns a store whose window has no room.
func closed(t *testing.T) *bench {
	t.Helper()
	b := setupOn(t, testkit.Postgres(t, store.Schema()), false)
	b.awaitWake() // as the dispatcher is at its start
	return b
}

// waiting puts a READY step into the database. Its name says which it is.
func (b *bench) waiting(name, tenant string, priority int, begun bool, age time.Duration) {
	b.t.Helper()
	b.exec(`INSERT INTO core.step_live (run_id, step, generation, tenant, class, priority, begun, status, ready_at)
		VALUES (gen_random_uuid(), $1, 1, $2, 'batch', $3, $4, 'ready', now() - $5::interval)`, name, tenant, priority, begun, age)
}

// ready returns the names of the steps that go next.
func (b *bench) ready(lastServed string, most int) (names []string, all bool) {
	b.t.Helper()
	look := b.look(machine.Batch, lastServed, most)
	all = look.All
	for _, w := range look.Tenants {
		all = all && !w.More
		for _, step := range w.Steps {
			names = append(names, step.Step)
		}
	}
	return names, all
}

// look looks at the READY steps of a class.
func (b *bench) look(class machine.Class, lastServed string, most int) store.Look {
	b.t.Helper()
	look, err := b.store.Ready(b.t.Context(), class, lastServed, most, &store.Lines{})
	require.NoError(b.t, err)
	return look
}

// readyRefs returns the steps that go next of a class.
func (b *bench) readyRefs(class machine.Class) (refs []store.Ref) {
	b.t.Helper()
	for _, w := range b.look(class, "", 100).Tenants {
		refs = append(refs, w.Steps...)
	}
	return refs
}

// awaitWake waits until the dispatcher is woken.
func (b *bench) awaitWake() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Second)
	defer cancel()
	select {
	case <-b.window.Wake():
	case <-ctx.Done():
		require.FailNow(b.t, "the dispatcher is not woken")
	}
}

// A tenant's own steps go by priority, then those of runs that have begun, then by age.
func TestReadyStepsOfATenantInOrder(t *testing.T) {
	t.Parallel()
	b := closed(t)
	b.waiting("young", "acme", 0, false, time.Second)
	b.waiting("old", "acme", 0, false, time.Minute)
	b.waiting("begun, young", "acme", 0, true, time.Second)
	b.waiting("begun, old", "acme", 0, true, time.Minute)
	b.waiting("urgent", "acme", 5, false, 0)
	b.waiting("unimportant", "acme", -5, true, time.Hour)
	names, all := b.ready("", 100)
	require.True(t, all)
	require.Equal(t, []string{"urgent", "begun, old", "begun, young", "old", "young", "unimportant"}, names)
	names, all = b.ready("acme", 2)
	require.False(t, all)
	require.Equal(t, []string{"urgent", "begun, old"}, names)
}

// Tenants are looked at in turn, beginning behind the one whose turn was last, so that a long backlog of one does not delay
// others.
func TestTenantsAreLookedAtInTurn(t *testing.T) {
	t.Parallel()
	b := closed(t)
	for i := range 20 {
		b.waiting(fmt.Sprint("a", i), "a", 0, false, time.Hour-time.Duration(i)*time.Second)
	}
	b.waiting("b0", "b", 0, false, time.Minute)
	b.waiting("c0", "c", 0, false, 2*time.Second)
	b.waiting("c1", "c", 0, false, time.Second)

	names, all := b.ready("", 9)
	require.False(t, all)
	require.Equal(t, []string{"a0", "a1", "a2", "b0", "c0", "c1"}, names)
	names, _ = b.ready("a", 9)
	require.Equal(t, []string{"b0", "c0", "c1", "a0", "a1", "a2"}, names)
	names, _ = b.ready("b", 2)
	require.Equal(t, []string{"c0", "a0"}, names, "no more tenants than asked for")
	names, all = b.ready("c", 100)
	require.True(t, all)
	require.Len(t, names, 23)
	names, _ = b.ready("nobody", 2)
	require.Equal(t, []string{"a0", "b0"}, names)
	require.Equal(t, store.Look{All: true}, b.look(machine.Interactive, "", 10))
}

func TestLoadOfTheClasses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chain("chain", 1)
	running := b.grant(b.next(b.create("chain")))
	b.create("chain")
	b.employ(running.worker, time.Minute)
	b.employ(b.draw(), time.Minute)
	dead := b.grant(b.next(b.create("chain")))
	b.employ(dead.worker, -time.Minute)
	b.waiting("step", "acme", 0, false, 0)
	load, err := b.store.Load(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[machine.Class]store.Load{
		machine.Interactive: {Dispatched: 3, Slots: 8}, machine.Batch: {Slots: 4, Waiting: true},
	}, load)
}

// Whoever is woken because steps wait must find them: they are told after their commit.
func TestWaitingStepsAreToldWhenTheyCanBeSeen(t *testing.T) {
	t.Parallel()
	b := closed(t)
	b.chain("chain", 1)
	for _, class := range machine.AllClasses() {
		mark, _ := b.window.Waiting(class)
		b.window.Drained(class, mark)
	}
	for i := range 50 {
		n := b.newRun("chain")
		created := make(chan error, 1)
		go func() { created <- b.store.CreateRun(t.Context(), n) }()
		b.awaitWake()
		require.Len(t, b.readyRefs(machine.Interactive), i+1)
		require.NoError(t, <-created)
	}
}

// Without room a step stays READY, and is not published.
func TestStepsWithoutRoomStayReady(t *testing.T) {
	t.Parallel()
	b := closed(t)
	b.chain("chain", 1)
	run := b.create("chain")
	ref := store.Ref{RunID: run, Step: "a", Shard: store.Whole, Generation: 1}
	require.Equal(t, "ready", b.stepStatus(ref))
	require.Empty(t, b.taken())
	b.submit(&store.Event{Ref: ref, Make: func(r machine.Ref, _ time.Time) machine.Event { return machine.Dispatched{Ref: r} }})
	require.Equal(t, "queued", b.stepStatus(ref))
	require.Equal(t, []store.Entry{{Class: machine.Interactive, Ref: ref}}, b.taken())
}

// Steps of paused runs wait without being in the way of others: the dispatcher neither sees them nor holds others back for
// them. When they may go on, it is told.
func TestPausedStepsAreNotInTheWay(t *testing.T) {
	t.Parallel()
	b := closed(t)
	b.register(spec{Name: "fan", Steps: []stepSpec{{Name: "parts", FanOut: true, Concurrency: 1}}})
	run := b.create("fan")
	ref := store.Ref{RunID: run, Step: "parts", Shard: store.Whole, Generation: 1}
	b.submit(&store.Event{Ref: ref, Make: func(r machine.Ref, _ time.Time) machine.Event { return machine.Dispatched{Ref: r} }})
	h := b.grant(b.next(run))
	b.awaitWake()
	decide := func(ev machine.Event) {
		b.submit(&store.Event{Ref: store.OfRun(run), Make: func(machine.Ref, time.Time) machine.Event { return ev }})
	}
	waiting := func() int {
		ready := b.readyRefs(machine.Interactive)
		load, err := b.store.Load(t.Context())
		require.NoError(t, err)
		require.Equal(t, len(ready) > 0, load[machine.Interactive].Waiting)
		return len(ready)
	}
	decide(machine.Paused{})
	b.submit(b.expand(h, `1`, `2`))
	require.Equal(t, 1, b.count("core.step_live WHERE run_id = $1 AND status = 'ready'", run))
	require.Zero(t, waiting(), "the shard was made after the pause")
	woken(b.window) // because the step has left
	decide(machine.Resumed{})
	b.awaitWake()
	require.Equal(t, 1, waiting())
	decide(machine.Paused{})
	require.Zero(t, waiting())
}

// A run that goes to another lane is dispatched there.
func TestPromotedRunIsDispatched(t *testing.T) {
	t.Parallel()
	b := closed(t)
	b.chain("chain", 1)
	n := b.newRun("chain")
	n.Class = machine.Batch
	require.NoError(t, b.store.CreateRun(t.Context(), n))
	b.awaitWake()
	b.submit(&store.Event{Ref: store.OfRun(n.ID), Make: func(machine.Ref, time.Time) machine.Event {
		return machine.Promoted{Class: machine.Interactive}
	}})
	b.awaitWake()
	ready := b.readyRefs(machine.Interactive)
	require.Len(t, ready, 1)
	require.Equal(t, n.ID, ready[0].RunID)
}

// The room of a step that ends is free again, that of a step that another follows is passed on, and what the transaction of
// a refused group has taken comes back.
func TestRoomIsGivenBack(t *testing.T) {
	t.Parallel()
	b := closed(t)
	b.chain("chain", 2)
	mark, _ := b.window.Waiting(machine.Interactive)
	b.window.Drained(machine.Interactive, mark)
	b.window.Adjust(machine.Interactive, 3)
	run := b.create("chain")
	require.Equal(t, 2, b.window.Room(machine.Interactive))
	h := b.grant(b.next(run))
	require.Equal(t, 2, b.window.Room(machine.Interactive))
	b.submit(b.succeed(h, `1`))
	require.Equal(t, 2, b.window.Room(machine.Interactive), "the second step is dispatched")
	require.EqualValues(t, 1, b.window.Left(machine.Interactive))
	b.submit(b.succeed(b.grant(b.next(run)), `1`))
	require.Equal(t, 3, b.window.Room(machine.Interactive))
	require.EqualValues(t, 2, b.window.Left(machine.Interactive))

	bad := b.newRun("chain")
	bad.Key = "\x00"
	require.Error(t, b.store.CreateRun(t.Context(), bad))
	require.Equal(t, 3, b.window.Room(machine.Interactive))
	require.EqualValues(t, 2, b.window.Left(machine.Interactive), "it has never been there")
}
