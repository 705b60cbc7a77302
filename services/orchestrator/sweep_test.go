package orchestrator_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/testkit"
)

// soon is how late a timer may be acted on.
const soon = 2 * time.Second

// lateness returns how long after a moment a run's newest entry of the journal of a kind was written.
func (r *replica) lateness(run uuid.UUID, kind string, due time.Time) time.Duration {
	r.t.Helper()
	var at time.Time
	r.scan(`SELECT at FROM core.run_event WHERE run_id = $1 AND kind = $2 ORDER BY seq DESC LIMIT 1`, []any{run, kind}, &at)
	require.False(r.t, at.Before(due), "%s came %v early", kind, due.Sub(at))
	return at.Sub(due)
}

// dueAt returns the timer of a run's first step.
func (r *replica) dueAt(run uuid.UUID) (at time.Time) {
	r.t.Helper()
	r.scan(`SELECT due_at FROM core.step_live WHERE run_id = $1 AND step = 'first'`, []any{run}, &at)
	return at
}

// readyAt returns when a run's first step became READY.
func (r *replica) readyAt(run uuid.UUID) (at time.Time) {
	r.t.Helper()
	r.scan(`SELECT ready_at FROM core.step_live WHERE run_id = $1 AND step = 'first'`, []any{run}, &at)
	return at
}

func TestTimersAreActedOnSoon(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(strings.ReplaceAll(chain, "name: first, ", "name: first, retry: {max_attempts: 3, initial: 100ms, jitter: 0}, "))
	r.register(strings.Replace(chain, "name: chain\n", "name: hurried\ndeadline: 1s\n", 1))
	n := r.newRunner()

	retried := r.create("chain", `{"text": 1}`)
	n.stored(n.take().failed(systemv1.Outcome_FAILURE_CLASS_TRANSIENT, "provider_503"))
	retryAt := r.dueAt(retried)

	waiting := r.create("chain", `{"text": 1}`)
	w := n.take()
	parked := w.outcome()
	parked.Result = &systemv1.Outcome_Parked_{Parked: &systemv1.Outcome_Parked{Until: durationpb.New(200 * time.Millisecond), Reason: "provider_429"}}
	n.stored(parked)
	wakeAt := r.dueAt(waiting)

	hurried := r.create("hurried", `{"text": 1}`)
	var deadline time.Time
	r.scan(`SELECT deadline_at FROM core.pipeline_run WHERE id = $1`, []any{hurried}, &deadline)

	r.eventually(1, `core.pipeline_run WHERE id = $1 AND status = 'failed' AND reason = 'deadline_exceeded'`, hurried)
	require.Less(t, r.lateness(hurried, "deadline_passed", deadline), soon)
	r.eventually(2, `core.step_live WHERE run_id IN ($1, $2) AND status = 'queued'`, retried, waiting)
	require.Less(t, r.readyAt(retried).Sub(retryAt), soon)
	require.Less(t, r.readyAt(waiting).Sub(wakeAt), soon)
}

// A claim that lasts too long is ended, even though its runner is alive and lists it.
func TestHardTimeoutIsActedOnSoon(t *testing.T) {
	t.Parallel()
	r := setup(t, lease(time.Second))
	r.register(strings.NewReplacer("name: first, ", "name: first, soft_timeout: 2s, hard_timeout: 3s, ").Replace(chain))
	n := r.newRunner()
	run := r.create("chain", `{"text": 1}`)
	w := n.take()
	due := r.dueAt(run)
	n.keepAlive(w.Hold)
	r.eventually(1, `core.run_event WHERE run_id = $1 AND kind = 'hard_timeout'`, run)
	require.Less(t, r.lateness(run, "hard_timeout", due), soon)
	require.Equal(t, systemv1.CompleteStatus_COMPLETE_STATUS_STALE, n.complete(w.succeeded(`1`)).GetStatus())
}

// When a runner dies, all that it holds is taken from it at once, after a whole lease; what a living one holds stays.
func TestDeadRunnerLosesAllItsStepsAtOnce(t *testing.T) {
	t.Parallel()
	r := setup(t, lease(time.Second))
	r.register(chain)
	dead, living := r.newRunner(), r.newRunner()
	alive, dying := living.keepAlive(), dead.keepAlive()
	kept := r.create("chain", `{"text": 1}`)
	alive.hold(living.take().Hold)
	var lost []uuid.UUID
	for range 3 {
		lost = append(lost, r.create("chain", `{"text": 1}`))
		dying.hold(dead.take().Hold)
	}
	dying.stop()
	var leaseUntil time.Time
	r.scan(`SELECT lease_until FROM core.runner WHERE instance = $1`, []any{dead.id}, &leaseUntil)

	for range lost {
		w := living.take()
		alive.hold(w.Hold)
		require.Contains(t, lost, runOf(w.Hold.GetStep()))
		require.EqualValues(t, 2, w.GetAttempt())
	}
	var first, last time.Time
	r.scan(`SELECT min(at), max(at) FROM core.run_event WHERE kind = 'lease_expired'`, nil, &first, &last)
	require.False(t, first.Before(leaseUntil))
	require.Less(t, last.Sub(leaseUntil), soon)
	require.Less(t, last.Sub(first), 500*time.Millisecond, "in one sweep")
	require.Equal(t, 1, r.count(`core.step_live WHERE run_id = $1 AND status = 'running' AND losses = 0`, kept))
}

// A replica that has just begun cannot know who is alive: runners had nobody to send their heartbeats to.
func TestNobodyIsExpiredByAnOutageOfTheOrchestrator(t *testing.T) {
	t.Parallel()
	const length = 2 * time.Second
	stores := newStores(t)
	before := stores.replica(t, lease(length))
	before.register(chain)
	n := before.newRunner()
	run := before.create("chain", `{"text": 1}`)
	_, ref := n.read()
	w, _ := n.claim(ref)
	before.stop()
	before.exec(`UPDATE core.runner SET lease_until = now() - interval '1 minute'`)
	testkit.Eventually(t, patience, func() error {
		consumers, err := n.steps.Consumers(t.Context())
		if err == nil && consumers[0].Idle < length {
			err = errors.New("the runner has asked for entries a short time ago")
		}
		return err
	})

	after := stores.replica(t, lease(length))
	n.client = after.client
	require.NoError(t, clock.System().Sleep(t.Context(), length/2)) // time must pass in which nothing happens
	require.Equal(t, 1, after.count(`core.step_live WHERE run_id = $1 AND status = 'running' AND losses = 0`, run))
	pending, err := n.steps.Pending(t.Context(), n.id.String(), 10)
	require.NoError(t, err)
	require.Len(t, pending, 1)
	alive := n.keepAlive(w.Hold)
	after.eventually(1, `core.replica WHERE seen_at - started_at > $1::interval`, length+2*time.Second)
	require.Equal(t, 1, after.count(`core.step_live WHERE run_id = $1 AND status = 'running' AND losses = 0`, run))
	alive.stop()
	after.eventually(1, `core.run_event WHERE run_id = $1 AND kind = 'lease_expired'`, run)
}

// A step whose runner is alive and does not list it was claimed in a call whose answer was lost.
func TestUnlistedStepIsTakenFromALivingRunner(t *testing.T) {
	t.Parallel()
	r := setup(t, lease(time.Second))
	r.register(chain)
	n := r.newRunner()
	alive := n.keepAlive()
	listed, unlisted := r.create("chain", `{"text": 1}`), r.create("chain", `{"text": 1}`)
	for range 2 {
		if hold := n.take().Hold; runOf(hold.GetStep()) == listed {
			alive.hold(hold)
		}
	}
	again := n.take()
	require.Equal(t, unlisted, runOf(again.Hold.GetStep()))
	require.EqualValues(t, 2, again.GetAttempt())
	var age time.Duration
	r.scan(`SELECT e.at - r.started_at FROM core.run_event e JOIN core.pipeline_run r ON r.id = e.run_id
		WHERE e.run_id = $1 AND e.kind = 'lease_expired'`, []any{unlisted}, &age)
	require.GreaterOrEqual(t, age, time.Second)
	require.Equal(t, 1, r.count(`core.step_live WHERE run_id = $1 AND status = 'running' AND losses = 0`, listed))
}

// A bound stays behind what groups may still commit: a timer that can be seen late is not skipped.
func TestDueStepsAreNotSkippedByBounds(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(strings.ReplaceAll(chain, "name: first, ", "name: first, retry: {max_attempts: 50, initial: 1ms, max: 1ms, jitter: 0}, "))
	n := r.newRunner()
	run := r.create("chain", `{"text": 1}`)
	for range 3 {
		n.stored(n.take().failed(systemv1.Outcome_FAILURE_CLASS_TRANSIENT, "provider_503"))
	}
	// A timer whose group was slow to commit: it was due before others that have had their events.
	r.exec(`UPDATE core.step_live SET status = 'backoff', due_at = now() - interval '5 s', ready_at = NULL WHERE run_id = $1`, run)
	n.stored(n.take().succeeded(`1`))
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_RUNNING, r.run(run).GetStatus())
}
