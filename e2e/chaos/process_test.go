package chaos

import (
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
)

// TestI04_KillEachService ends processes as a crash does, while work goes through them.
func TestI04_KillEachService(t *testing.T) {
	f := start(t, harness.FleetConfig{})
	t.Run("all at once", func(t *testing.T) {
		endure(t, f.For(t), fault{name: "kill -9 of every process at once", pace: brisk, doubts: true, strike: func(t *testing.T, f *harness.Fleet) {
			kill(t, f.All()...)
		}})
	})
	// The provider does not see these die: whatever they leave behind, nothing is sent twice.
	t.Run("those that hold no call", func(t *testing.T) {
		full(t)
		endure(t, f.For(t), fault{name: "kill -9 of each service in turn, but gateways", pace: brisk, strike: func(t *testing.T, f *harness.Fleet) {
			for _, service := range []string{serve.StepRunner, serve.Orchestrator, serve.Intake} {
				awaitCalls(t, f)
				kill(t, f.Of(service)...)
			}
		}})
	})
	t.Run("gateways", func(t *testing.T) {
		full(t)
		endure(t, f.For(t), fault{name: "kill -9 of all gateways", pace: brisk, doubts: true, strike: func(t *testing.T, f *harness.Fleet) {
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
