package chaos

import (
	"fmt"
	"sync"
	"syscall"
	"testing"

	"pawl.internal/e2e/harness"
)

// TestI04_KillEachServiceAtOnce ends processes as a crash does, while work goes through them.
func TestI04_KillEachServiceAtOnce(t *testing.T) {
	f := start(t, harness.FleetConfig{})
	t.Run("all at once", func(t *testing.T) {
		endure(t, f.For(t), fault{name: "kill -9 of every process at once", doubts: true, strike: func(t *testing.T, f *harness.Fleet) {
			kill(t, f.All()...)
		}})
	})
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
