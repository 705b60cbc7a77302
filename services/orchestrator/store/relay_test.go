package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

func (b *bench) gates() []store.Gate {
	b.t.Helper()
	gates, err := b.store.OwedGates(b.t.Context(), nil, 100)
	require.NoError(b.t, err)
	return gates
}

func (b *bench) cancels() []store.Cancel {
	b.t.Helper()
	cancels, err := b.store.OwedCancels(b.t.Context(), nil, 100)
	require.NoError(b.t, err)
	return cancels
}

// cancel ends the run, and retry opens it again after it has failed.
func cancelled(run uuid.UUID) *store.Event {
	return &store.Event{Ref: store.OfRun(run), Make: func(machine.Ref, time.Time) machine.Event { return machine.CancelRequested{} }}
}

func reopened(run uuid.UUID) *store.Event {
	return &store.Event{Ref: store.OfRun(run), Make: func(machine.Ref, time.Time) machine.Event {
		return machine.OperatorRetry{Ref: machine.Ref{Key: machine.Key{Step: machine.AllSteps, Shard: machine.Whole}}}
	}}
}

// A run that fails owes the gateway that its purse is closed, and then that its calls are aborted.
func TestEndedRunOwesTheGateway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chain("chain", 1)
	run := b.create("chain")
	b.submit(b.fail(b.grant(b.next(run))))
	gates := b.gates()
	require.Len(t, gates, 1)
	require.Equal(t, run, gates[0].RunID)
	require.Equal(t, tenant, gates[0].Tenant)
	require.False(t, gates[0].Open)
	require.Equal(t, 1, gates[0].Epoch)
	require.Nil(t, gates[0].Budget)
	require.Empty(t, b.cancels(), "a call could still begin")
	require.NoError(t, b.store.ConfirmGates(t.Context(), gates))
	require.Empty(t, b.gates())
	cancels := b.cancels()
	require.Len(t, cancels, 1)
	require.Equal(t, store.OfRun(run), cancels[0].Ref)
	require.NoError(t, b.store.ConfirmCancels(t.Context(), cancels))
	require.Empty(t, b.cancels())
}

// What is owed anew is not confirmed by the answer to what was owed before.
func TestConfirmationOfTheOlderLeavesTheNewer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chain("chain", 1)
	run := b.create("chain")
	b.submit(b.fail(b.grant(b.next(run))))
	closing := b.gates()
	b.submit(reopened(run))
	require.NoError(t, b.store.ConfirmGates(t.Context(), closing))
	opening := b.gates()
	require.Len(t, opening, 1)
	require.True(t, opening[0].Open)
	require.Equal(t, 2, opening[0].Epoch)

	require.NoError(t, b.store.ConfirmGates(t.Context(), opening))
	require.Empty(t, b.cancels(), "a run that goes on may keep its calls")
	b.submit(cancelled(run))
	require.NoError(t, b.store.ConfirmGates(t.Context(), b.gates()))
	told := b.cancels()
	require.Len(t, told, 1)
	b.exec(`UPDATE core.call_cancel_owed SET owed_at = now() + interval '1 s'`) // as when it is cancelled, opened and cancelled again
	require.NoError(t, b.store.ConfirmCancels(t.Context(), told))
	require.Len(t, b.cancels(), 1)
}

// A cancel that is owed twice in one group, or again before it was told, is owed once, from the last time on.
func TestCancelsAreOwedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chain("chain", 1)
	run := b.create("chain")
	h := b.grant(b.next(run))
	for _, err := range b.store.Submit(t.Context(), b.fail(h), reopened(run), cancelled(run)) {
		require.NoError(t, err)
	}
	var first, second time.Time
	b.scan(`SELECT owed_at FROM core.call_cancel_owed WHERE run_id = $1`, []any{run}, &first)
	require.NoError(t, b.store.ConfirmGates(t.Context(), b.gates()))
	b.exec(`UPDATE core.pipeline_run SET status = 'failed', reason = 'network' WHERE id = $1`, run)
	for _, err := range b.store.Submit(t.Context(), reopened(run), cancelled(run)) {
		require.NoError(t, err)
	}
	b.scan(`SELECT owed_at FROM core.call_cancel_owed WHERE run_id = $1`, []any{run}, &second)
	require.True(t, second.After(first))
}

// The gateway need not hear of runs that never ask a model.
func TestRunsWithoutModelsOweNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.register(spec{Name: "plain", NoCalls: true, Steps: []stepSpec{{Name: "a"}}})
	run := b.create("plain")
	b.submit(b.fail(b.grant(b.next(run))))
	b.submit(reopened(run))
	b.submit(cancelled(run))
	require.Equal(t, "cancelled", b.status(run))
	require.Empty(t, b.gates())
	require.Zero(t, b.count("core.call_cancel_owed"))
}

// What was refused is left out as long as it is not owed anew.
func TestOwedButForSome(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.register(spec{Name: "asking", Steps: []stepSpec{{Name: "a", Attempts: 1}}})
	one, other := b.create("asking"), b.create("asking")
	b.submit(cancelled(one))
	b.submit(cancelled(other))
	gates := b.gates()
	require.Len(t, gates, 2)
	left, err := b.store.OwedGates(t.Context(), []store.Owed{gates[0].Owed()}, 100)
	require.NoError(t, err)
	require.Equal(t, gates[1:], left)
	require.NoError(t, b.store.ConfirmGates(t.Context(), gates))
	cancels := b.cancels()
	require.Len(t, cancels, 2)
	rest, err := b.store.OwedCancels(t.Context(), []store.Owed{cancels[1].Owed()}, 100)
	require.NoError(t, err)
	require.Equal(t, cancels[:1], rest)
	b.exec(`UPDATE core.call_cancel_owed SET owed_at = owed_at + interval '1 second'`)
	rest, err = b.store.OwedCancels(t.Context(), []store.Owed{cancels[1].Owed()}, 100)
	require.NoError(t, err)
	require.Len(t, rest, 2, "it is owed anew")
}
