package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

func TestHeartbeatsRenewLeases(t *testing.T) {
	b := setup(t)
	runners := make([]uuid.UUID, 40)
	var all sync.WaitGroup
	for i := range runners {
		runners[i] = b.ids.V4()
		for range 3 {
			all.Go(func() {
				require.NoError(t, b.store.Beat(t.Context(), &store.Beat{
					Runner: runners[i], Description: "host:1", InteractiveSlots: 4, BatchSlots: 2,
				}))
			})
		}
	}
	all.Wait()
	require.Equal(t, len(runners), b.count(`core.runner WHERE interactive_slots = 4 AND batch_slots = 2
		AND lease_until - heartbeat_at = interval '10 seconds' AND lease_until > clock_timestamp()`))

	alive, err := b.store.RunnerIsAlive(t.Context(), runners[0])
	require.NoError(t, err)
	require.True(t, alive)
	require.NoError(t, b.store.EndLease(t.Context(), runners[0]))
	alive, err = b.store.RunnerIsAlive(t.Context(), runners[0])
	require.NoError(t, err)
	require.False(t, alive)
}

func TestHoldingsShowWhatDiffers(t *testing.T) {
	b := setup(t)
	b.chain("chain", 2)
	h := b.grant(b.next(b.create("chain")))
	over := b.grant(b.next(b.create("chain")))
	b.submit(b.succeed(over, `1`))
	found, err := b.store.Holdings(t.Context(), []store.Ref{h.Ref, over.Ref})
	require.NoError(t, err)
	require.Len(t, found, 1, "what has ended is not live")
	row := found[h.AnyGeneration()]
	require.Equal(t, machine.StepRunning, row.Status)
	require.Equal(t, h.fence, row.Fence)
	require.Equal(t, 1, row.Generation)
	require.InDelta(t, time.Minute, row.DueIn, float64(5*time.Second))
}

// A runner that lists a claim whose lease had run out gets it back, as long as nobody has taken over.
func TestHeldStepIsReadopted(t *testing.T) {
	b := setup(t)
	b.chain("chain", 1)
	h := b.grant(b.next(b.create("chain")))
	b.submit(b.expire(h))
	require.Equal(t, machine.Applied, b.submit(b.readopt(h)))
	require.Equal(t, "running", b.stepStatus(h.Ref))
	other, err := b.claim(h.Ref, b.draw(), b.draw())
	require.NoError(t, err)
	require.Equal(t, machine.Held, other.Answer)
}

// Waiting for a permit moves the hard timeout.
func TestPermitWaitMovesTheHardTimeout(t *testing.T) {
	b := setup(t)
	b.chain("chain", 1)
	h := b.grant(b.next(b.create("chain")))
	waited := &store.Event{Ref: h.Ref, Make: func(r machine.Ref, _ time.Time) machine.Event {
		return machine.Readopted{Claim: h.claim(r), PermitWait: 30 * time.Second}
	}}
	require.Equal(t, machine.Applied, b.submit(waited))
	found, err := b.store.Holdings(t.Context(), []store.Ref{h.Ref})
	require.NoError(t, err)
	require.InDelta(t, 90*time.Second, found[h.AnyGeneration()].DueIn, float64(5*time.Second))
}
