package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// employ gives the holder of a claim a lease of so long; negative: one that has run out.
func (b *bench) employ(worker machine.ID, lasting time.Duration) {
	b.t.Helper()
	require.NoError(b.t, b.store.Beat(b.t.Context(), &store.Beat{Runner: uuid.UUID(worker), InteractiveSlots: 4, BatchSlots: 2}))
	b.exec(`UPDATE core.runner SET lease_until = now() + $2::interval WHERE instance = $1`, uuid.UUID(worker), lasting)
}

// backdate moves a step's times into the past.
func (b *bench) backdate(ref store.Ref, by time.Duration) {
	b.t.Helper()
	b.exec(`UPDATE core.step_live SET due_at = due_at - $4::interval, queued_at = queued_at - $4::interval, claimed_at = claimed_at - $4::interval
		WHERE run_id = $1 AND step = $2 AND shard = $3`, ref.RunID, ref.Step, ref.Shard, by)
}

func (b *bench) due(stepsFrom, runsFrom time.Time) store.Due {
	b.t.Helper()
	due, err := b.store.Due(b.t.Context(), store.Horizon{Timers: stepsFrom, HardTimeouts: stepsFrom, Deadlines: runsFrom, Most: 100})
	require.NoError(b.t, err)
	return due
}

func TestDueIsWhatTimeHasCome(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chain("chain", 1)
	always, never := time.Time{}, time.Now().Add(24*time.Hour)

	early := b.grant(b.next(b.create("chain")))
	b.employ(early.worker, time.Minute)
	late := b.grant(b.next(b.create("chain")))
	b.employ(late.worker, time.Minute)
	require.Empty(t, b.due(always, always).HardTimeouts)
	b.backdate(late.Ref, 2*time.Minute)
	due := b.due(always, always)
	require.WithinDuration(t, time.Now(), due.Now, 5*time.Second)
	require.Empty(t, due.Deadlines)
	require.Empty(t, due.Lost)
	require.Len(t, due.HardTimeouts, 1)
	require.Equal(t, late.Ref, due.HardTimeouts[0].Ref)
	require.Equal(t, machine.StepRunning, due.HardTimeouts[0].Status)
	require.Equal(t, late.fence, due.HardTimeouts[0].Fence)
	require.WithinDuration(t, due.Now.Add(-time.Minute), due.HardTimeouts[0].At, 5*time.Second)
	require.Empty(t, b.due(due.Now, always).HardTimeouts, "it was due before the bound")

	b.exec(`UPDATE core.pipeline_run SET deadline_at = now() - interval '1 minute' WHERE id = $1`, early.RunID)
	due = b.due(never, always)
	require.Len(t, due.Deadlines, 1)
	require.Equal(t, early.RunID, due.Deadlines[0].RunID)
	require.Empty(t, b.due(never, due.Now).Deadlines, "it was due before the bound")
	for _, spared := range []string{
		"paused_at = now()", "paused_at = NULL, finished_at = now()", "finished_at = NULL, status = 'compensating'",
	} {
		b.exec(`UPDATE core.pipeline_run SET ` + spared)
		require.Empty(t, b.due(never, always).Deadlines, spared)
	}
}

// A step is lost with its runner, also with one that has left, and however long ago that was.
func TestStepsOfDeadRunnersAreLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chain("chain", 1)
	living, dead, left := b.grant(b.next(b.create("chain"))), b.grant(b.next(b.create("chain"))), b.grant(b.next(b.create("chain")))
	b.employ(living.worker, time.Minute)
	b.employ(dead.worker, -time.Hour)
	b.employ(left.worker, time.Minute)
	require.NoError(t, b.store.EndLease(t.Context(), uuid.UUID(left.worker)))
	require.NoError(t, b.store.Tidy(t.Context()))
	lost := b.due(time.Time{}, time.Time{}).Lost
	require.ElementsMatch(t, []store.LostStep{{Ref: dead.Ref, Fence: dead.fence}, {Ref: left.Ref, Fence: left.fence}}, lost)

	b.submit(b.expire(dead))
	require.NoError(t, b.store.Tidy(t.Context()))
	require.Zero(t, b.count("core.runner WHERE instance = $1", uuid.UUID(dead.worker)), "nothing is RUNNING with it any more")
	require.Equal(t, 2, b.count("core.runner"))
}

func TestUnlistedStepsOfALivingRunner(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chain("chain", 1)
	listed, unlisted := b.grant(b.next(b.create("chain"))), b.grant(b.next(b.create("chain")))
	worker := uuid.UUID(unlisted.worker)
	b.exec(`UPDATE core.step_live SET worker = $1`, worker)
	find := func(from time.Time) []store.LostStep {
		lost, until, err := b.store.UnlistedSteps(t.Context(), worker, from, 10*time.Second, []store.Ref{listed.Ref})
		require.NoError(t, err)
		require.WithinDuration(t, time.Now().Add(-10*time.Second), until, 5*time.Second, "a lease ago")
		return lost
	}
	require.Empty(t, find(time.Time{}), "claimed less than a lease ago: the answer may be under way")
	b.backdate(listed.Ref, time.Minute)
	b.backdate(unlisted.Ref, time.Minute)
	require.Equal(t, []store.LostStep{{Ref: unlisted.Ref, Fence: unlisted.fence}}, find(time.Time{}))
	require.Empty(t, find(time.Now().Add(-30*time.Second)), "claimed before the bound")
}

// How long a step may be QUEUED is told for each class.
func TestLateEntriesByClass(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chain("chain", 1)
	queued := func(class machine.Class, since time.Duration) store.Ref {
		n := b.newRun("chain")
		n.Class = class
		require.NoError(t, b.store.CreateRun(t.Context(), n))
		ref := b.next(n.ID)
		b.backdate(ref, since)
		return ref
	}
	short, long := queued(machine.Interactive, 10*time.Second), queued(machine.Interactive, 40*time.Second)
	batch := queued(machine.Batch, 40*time.Second)
	find := func(lines map[machine.Class]store.Line) map[machine.Class][]store.Ref {
		late, now, err := b.store.LateEntries(t.Context(), lines, 100)
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), now, 5*time.Second)
		return late
	}
	require.Equal(t, map[machine.Class][]store.Ref{machine.Interactive: {long, short}}, find(map[machine.Class]store.Line{
		machine.Interactive: {Patience: 5 * time.Second}, machine.Batch: {Patience: time.Minute},
	}))
	require.Equal(t, map[machine.Class][]store.Ref{machine.Interactive: {long}, machine.Batch: {batch}}, find(map[machine.Class]store.Line{
		machine.Interactive: {Patience: 30 * time.Second}, machine.Batch: {Patience: 30 * time.Second},
	}))
	require.Empty(t, find(map[machine.Class]store.Line{machine.Batch: {From: time.Now().Add(-20 * time.Second)}}))
}

func TestReplicasAreTidiedAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	self, gone := b.ids.V4(), b.ids.V4()
	for _, id := range []uuid.UUID{self, gone} {
		at, err := b.store.ShowReplica(t.Context(), id)
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), at, 5*time.Second)
	}
	b.exec(`UPDATE core.replica SET seen_at = now() - interval '1 hour' WHERE instance = $1`, gone)
	require.NoError(t, b.store.Tidy(t.Context()))
	require.Equal(t, 1, b.count("core.replica"))
	require.NoError(t, b.store.RemoveReplica(t.Context(), self))
	require.Zero(t, b.count("core.replica"))
}
