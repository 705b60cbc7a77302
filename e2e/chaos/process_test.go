package chaos

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
)

// TestI04_KillEachService ends processes as a crash does, while work goes through them.
func TestI04_KillEachService(t *testing.T) {
	f := start(t, harness.FleetConfig{})
	t.Run("all at once", func(t *testing.T) {
		endure(t, f.For(t), fault{name: "kill -9 of every process at once", doubts: true, strike: func(t *testing.T, f *harness.Fleet) {
			kill(t, f.All()...)
		}})
	})
	// The provider does not see these die: whatever they leave behind, nothing is sent twice.
	t.Run("those that hold no call", func(t *testing.T) {
		full(t)
		endure(t, f.For(t), fault{name: "kill -9 of each service in turn, but gateways", strike: func(t *testing.T, f *harness.Fleet) {
			for _, service := range []string{serve.StepRunner, serve.Orchestrator, serve.Intake} {
				awaitCalls(t, f)
				kill(t, f.Of(service)...)
			}
		}})
	})
	t.Run("gateways", func(t *testing.T) {
		full(t)
		endure(t, f.For(t), fault{name: "kill -9 of all gateways", doubts: true, strike: func(t *testing.T, f *harness.Fleet) {
			kill(t, f.Of(serve.LLMGateway)...)
		}})
	})
}

// TestI04_RollingRestart tells every replica to end, one after the other, as an upgrade does: nothing is begun again.
func TestI04_RollingRestart(t *testing.T) {
	full(t)
	f := start(t, harness.FleetConfig{})
	v := endure(t, f, fault{name: "SIGTERM of every process in turn", strike: func(t *testing.T, f *harness.Fleet) {
		for _, r := range f.All() {
			restarted(t, []*harness.Replica{r}, func(r *harness.Replica) { r.Signal(syscall.SIGTERM) })
		}
	}})
	require.Zero(t, v.startedAgain, "attempts that a restart in order has cost")
}

// TestI06_PausedWorkerChangesNothing stops processes for longer than their leases, so that others take over what they hold,
// and lets them wake up in the middle of it.
func TestI06_PausedWorkerChangesNothing(t *testing.T) {
	f := start(t, harness.FleetConfig{})
	t.Run("runner", func(t *testing.T) {
		v := endure(t, f.For(t), fault{name: "SIGSTOP of a runner for two leases", strike: func(t *testing.T, f *harness.Fleet) {
			pause(t, f, 2*lease, f.Of(serve.StepRunner)[0])
		}})
		require.Positive(t, v.startedAgain, "the runner held nothing that could have been given to another")
	})
	t.Run("gateway", func(t *testing.T) {
		full(t)
		endure(t, f.For(t), fault{name: "SIGSTOP of a gateway for two leases", doubts: true, strike: func(t *testing.T, f *harness.Fleet) {
			pause(t, f, 2*lease, f.Of(serve.LLMGateway)[0])
		}})
	})
	// All replicas of them, so that nobody can take over: work stands still, and nobody is taken for dead when it goes on.
	t.Run("orchestrators and intake", func(t *testing.T) {
		full(t)
		v := endure(t, f.For(t), fault{name: "SIGSTOP of all orchestrators, then of intake, for two leases", strike: func(t *testing.T, f *harness.Fleet) {
			pause(t, f, 2*lease, f.Of(serve.Orchestrator)...)
			pause(t, f, 2*lease, f.Of(serve.Intake)...)
		}})
		require.Zero(t, v.startedAgain, "runners were taken for dead because the orchestrators had been away")
	})
}

// pause stops replicas that have work in flight where they stand, for a time.
func pause(t *testing.T, f *harness.Fleet, during time.Duration, replicas ...*harness.Replica) {
	t.Helper()
	awaitCalls(t, f)
	for _, r := range replicas {
		r.Pause()
	}
	last(t, during)
	for _, r := range replicas {
		r.Resume()
	}
	for _, r := range replicas {
		harness.Eventually(t, func() error { return r.Ready(t.Context()) })
	}
}

// last lets a fault last for a time, which is part of what it is.
func last(t *testing.T, during time.Duration) {
	t.Helper()
	timer := time.NewTimer(during)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// kill ends the replicas as a crash does, all at the same time, and waits until those that take their place are ready.
func kill(t *testing.T, replicas ...*harness.Replica) {
	t.Helper()
	restarted(t, replicas, func(r *harness.Replica) { r.Signal(syscall.SIGKILL) })
}

// restarted ends the replicas, all at the same time, and waits until those that take their place are ready.
func restarted(t *testing.T, replicas []*harness.Replica, end func(*harness.Replica)) {
	t.Helper()
	before := make([]int, len(replicas))
	for i, r := range replicas {
		before[i] = r.Starts()
	}
	var group sync.WaitGroup
	for _, r := range replicas {
		group.Go(func() { end(r) })
	}
	group.Wait()
	for i, r := range replicas {
		harness.Eventually(t, func() error {
			if r.Starts() == before[i] {
				return fmt.Errorf("%s has not been started anew", r.Name)
			}
			return r.Ready(t.Context())
		})
	}
}
