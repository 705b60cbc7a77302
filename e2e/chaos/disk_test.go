package chaos

import (
	"context"
	"errors"
	"testing"
	"time"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/testkit"
)

// diskSize of PostgreSQL's own disk, in MiB, is about twice what the fleet's database needs.
const diskSize = 256

// TestI04_NothingIsLostOnAFullDisk lets PostgreSQL run on a small disk that fills up, so that no statement that needs room
// succeeds, and perhaps the server ends, until there is room again.
func TestI04_NothingIsLostOnAFullDisk(t *testing.T) {
	full(t)
	disk := testkit.NewDisk(t, diskSize)
	f := start(t, harness.FleetConfig{Postgres: testkit.PostgresOn(t, disk)})
	endure(t, f, fault{name: "PostgreSQL's disk is full for three leases", strike: func(t *testing.T, f *harness.Fleet) {
		disk.Fill()
		free := onceAtLast(t, disk.Free)
		refused(t, f)
		for range 3 {
			disk.Fill() // what others have removed meanwhile
			last(t, lease)
		}
		free()
		bringBack(t, f)
		requireServes(t, f)
	}})
}

// onceAtLast returns fn, which is called at the end of the test unless it has been.
func onceAtLast(t *testing.T, fn func()) func() {
	t.Helper()
	done := false
	once := func() {
		if !done {
			done = true
			fn()
		}
	}
	t.Cleanup(once)
	return once
}

// bringBack does what a supervisor does: it starts a PostgreSQL that has ended, until it answers.
func bringBack(t *testing.T, f *harness.Fleet) {
	t.Helper()
	harness.Eventually(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := f.Postgres.Ended(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Logf("PostgreSQL has ended (%v) and is started again", err)
			if err := f.Postgres.Start(t.Context()); err != nil {
				return err
			}
		}
		return f.API.DB.Ping(t.Context())
	})
}

// TestI04_LogsThatCannotBeWrittenHoldNobodyUp lets all services write what they have to say to a full disk.
func TestI04_LogsThatCannotBeWrittenHoldNobodyUp(t *testing.T) {
	full(t)
	f := start(t, harness.FleetConfig{Wrap: func(string) []string {
		return []string{"sh", "-c", `exec "$@" >/dev/full 2>&1`, "sh"}
	}})
	endure(t, f, fault{name: "no service can write its log (/dev/full), and PostgreSQL restarts", strike: restarts})
}
