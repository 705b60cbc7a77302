package sim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/sim"
)

// TestMissingGuardsAreNoticed leaves out guards that are missed soon. `go run ./e2e/sim/cmd/sim -guards -seeds 10000` leaves
// out each of all guards in turn.
func TestMissingGuardsAreNoticed(t *testing.T) {
	t.Parallel()
	const most = 1000
	for guard, promise := range map[sim.Guard]sim.Promise{
		sim.GuardClaimOnce:       sim.PromiseNeverTwice,
		sim.GuardCallKey:         sim.PromisePaidOnce,
		sim.GuardGatewayLease:    sim.PromiseLease,
		sim.GuardBudget:          sim.PromiseMoney,
		sim.GuardReserveReturned: sim.PromiseMoney,
		sim.GuardReaper:          sim.PromiseRecovers,
		sim.GuardOverdue:         sim.PromiseRecovers,
		sim.GuardDispatcher:      sim.PromiseRecovers,
		sim.GuardTimers:          sim.PromiseRecovers,
		sim.GuardJanitor:         sim.PromiseNothing,
		sim.GuardRelease:         sim.PromiseGoodOrder,
		sim.GuardRepeatOutcome:   sim.PromiseRecovers,
		sim.GuardReadoption:      sim.PromiseStale,
		sim.GuardGateFirst:       sim.PromiseCancel,
		sim.GuardPurseClosed:     sim.PromiseCancel,
		sim.GuardDeadline:        sim.PromiseDeadline,
		sim.GuardIdempotency:     sim.PromiseOneRun,
	} {
		t.Run(string(guard), func(t *testing.T) {
			t.Parallel()
			many := sim.RunMany(0, most, guard, 1)
			require.NotEmpty(t, many.Failed, "%d seeds have not noticed", most)
			require.Equal(t, promise, many.Failed[0].Failure.Promise, "%v", many.Failed[0].Failure)
		})
	}
}
