package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/testkit"
)

// exec changes the database behind the orchestrator's back.
func (r *replica) exec(sql string, arguments ...any) {
	r.t.Helper()
	_, err := r.database.Pool.Exec(r.t.Context(), sql, arguments...)
	require.NoError(r.t, err, sql)
}

// scan reads one row of the database.
func (r *replica) scan(sql string, arguments []any, into ...any) {
	r.t.Helper()
	require.NoError(r.t, r.database.Pool.QueryRow(r.t.Context(), sql, arguments...).Scan(into...), sql)
}

// count counts rows of the database.
func (r *replica) count(from string, arguments ...any) (n int) {
	r.t.Helper()
	r.scan("SELECT count(*) FROM "+from, arguments, &n)
	return n
}

// eventually waits until the number of rows is as wanted.
func (r *replica) eventually(want int, from string, arguments ...any) {
	r.t.Helper()
	testkit.Eventually(r.t, patience, func() error {
		if n := r.count(from, arguments...); n != want {
			return fmt.Errorf("%d rows instead of %d: %s", n, want, from)
		}
		return nil
	})
}

// backdateQueued makes the steps of a run look as if they had been QUEUED that much earlier.
func (r *replica) backdateQueued(run uuid.UUID, by time.Duration) {
	r.t.Helper()
	r.exec(`UPDATE core.step_live SET queued_at = queued_at - $2::interval WHERE run_id = $1 AND status = 'queued'`, run, by)
}

// pulse sends a runner's heartbeats, which list what it holds.
type pulse struct {
	stop func()

	mu    sync.Mutex
	holds []*systemv1.Hold // guarded by mu
}

// keepAlive sends heartbeats until the test ends, or the pulse is stopped.
func (n *runner) keepAlive(holds ...*systemv1.Hold) *pulse {
	p := &pulse{holds: holds}
	ctx, cancel := context.WithCancel(n.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for clock.System().Sleep(ctx, 100*time.Millisecond) == nil {
			// One that is lost is made good by the next.
			_, _ = n.client.Heartbeat(ctx, &systemv1.HeartbeatRequest{RunnerId: n.id[:], Holds: p.list(), Lanes: n.lanes()})
		}
	}()
	p.stop = func() {
		cancel()
		<-ended
	}
	n.t.Cleanup(p.stop)
	return p
}

// hold adds to what the heartbeats list.
func (p *pulse) hold(h *systemv1.Hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = append(p.holds, h)
}

func (p *pulse) list() []*systemv1.Hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.holds)
}

func (n *runner) lanes() []*systemv1.LaneSlots {
	return []*systemv1.LaneSlots{{Class: pawlv1.RunClass_RUN_CLASS_INTERACTIVE, Slots: 100}}
}

// read waits for an entry without acknowledging it.
func (n *runner) read() (entry string, ref *systemv1.StepRef) {
	n.t.Helper()
	testkit.Eventually(n.t, patience, func() error {
		messages, err := n.steps.Read(n.t.Context(), n.id.String(), 1, time.Second)
		if err != nil {
			return err
		}
		if len(messages) == 0 {
			return errors.New("the stream is empty")
		}
		entry = messages[0].ID
		ref, err = refOf(messages[0].Fields)
		return err
	})
	return entry, ref
}

func runOf(ref *systemv1.StepRef) uuid.UUID { return uuid.UUID(ref.GetRunId()) }

// interactive is the key of the stream of interactive steps.
func (r *replica) interactive() string { return r.redis.Prefix + ":{steps}:interactive" }

// entries returns the runs that the stream of interactive steps names.
func (r *replica) entries() []string {
	r.t.Helper()
	messages, err := r.redis.Client.XRange(r.t.Context(), r.interactive(), "-", "+").Result()
	require.NoError(r.t, err)
	runs := make([]string, len(messages))
	for i, m := range messages {
		runs[i] = fmt.Sprint(m.Values["run"])
	}
	return runs
}

// published waits until the stream holds an entry of each of the runs.
func (r *replica) published(runs ...uuid.UUID) {
	r.t.Helper()
	testkit.Eventually(r.t, patience, func() error {
		held := map[string]bool{}
		for _, run := range r.entries() {
			held[run] = true
		}
		for _, run := range runs {
			if !held[run.String()] {
				return fmt.Errorf("there is no entry of run %s", run)
			}
		}
		return nil
	})
}
