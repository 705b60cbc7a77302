package orchestrator_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/localstore"
	"pawl.internal/services/orchestrator/store"
	"pawl.internal/services/testkit"
)

// rounds is how often a test of punctuality may try: on a machine that stands still for a moment nothing is punctual.
const rounds = 5

// retried is a backoff that has ended.
type retried struct{ Due, Ready time.Time }

// watchRetries makes the database note when backoffs are due, and when they end.
func (r *replica) watchRetries() {
	r.t.Helper()
	r.exec(`CREATE TABLE public.retried (due timestamptz, ready timestamptz)`)
	r.exec(`CREATE FUNCTION public.note_retry() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN INSERT INTO public.retried VALUES (OLD.due_at, NEW.ready_at); RETURN NULL; END $$`)
	r.exec(`CREATE TRIGGER note_retry AFTER UPDATE ON core.step_live FOR EACH ROW
		WHEN (OLD.status = 'backoff' AND NEW.status IN ('ready', 'queued')) EXECUTE FUNCTION public.note_retry()`)
}

// retries waits for so many ends of backoffs, and returns and forgets them. None may be early.
func (r *replica) retries(n int) []retried {
	r.t.Helper()
	r.eventually(n, `public.retried`)
	rows, err := r.database.Pool.Query(r.t.Context(), `DELETE FROM public.retried RETURNING due, ready`)
	require.NoError(r.t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[retried])
	require.NoError(r.t, err)
	for _, one := range all {
		require.False(r.t, one.Ready.Before(one.Due), "a retry came %v early", one.Due.Sub(one.Ready))
	}
	return all
}

// failAll claims so many steps and then has all of them fail at once.
func (n *runner) failAll(steps int, retryAfter time.Duration) {
	n.t.Helper()
	var outcomes []*systemv1.Outcome
	for range steps {
		o := n.take().failed(systemv1.Outcome_FAILURE_CLASS_TRANSIENT, "provider_429")
		o.GetFailed().RetryAfter = durationpb.New(retryAfter)
		outcomes = append(outcomes, o)
	}
	var calls sync.WaitGroup
	for batch := range slices.Chunk(outcomes, 64) {
		calls.Go(func() {
			answer, err := n.client.CompleteSteps(n.t.Context(), &systemv1.CompleteStepsRequest{RunnerId: n.id[:], Outcomes: batch})
			if err != nil {
				n.t.Errorf("outcomes are not stored: %v", err)
			}
			for _, result := range answer.GetResults() {
				if result.GetStatus() != systemv1.CompleteStatus_COMPLETE_STATUS_STORED {
					n.t.Errorf("an outcome is not stored: %s", result.GetMessage())
				}
			}
		})
	}
	calls.Wait()
}

// crowd is the largest number of times within one window.
func crowd(times []time.Time, window time.Duration) (most int) {
	slices.SortFunc(times, time.Time.Compare)
	first := 0
	for i, at := range times {
		for at.Sub(times[first]) >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// After a provider has refused everybody at once (429), it is not asked again by everybody at once: each retry comes at its
// own time, which jitter has spread over a second, and no window of 100 ms has more than twice its share.
func TestRetriesAfterAMass429KeepTheirSpread(t *testing.T) {
	t.Parallel()
	const steps, window = 200, 100 * time.Millisecond
	r := setup(t)
	r.register(strings.ReplaceAll(chain, "name: first, ", "name: first, retry: {max_attempts: 10, initial: 10ms, jitter: 0}, "))
	r.watchRetries()
	n := r.newRunner()
	for range steps {
		r.create("chain", `{"text": 1}`)
	}
	share := int(steps * window / time.Second)
	var most int
	for range rounds {
		n.failAll(steps, time.Second)
		var times []time.Time
		for _, one := range r.retries(steps) {
			times = append(times, one.Ready)
		}
		if most = crowd(times, window); most <= 2*share {
			return
		}
		t.Logf("%d retries within %v", most, window)
	}
	require.LessOrEqual(t, most, 2*share)
}

// A short backoff does not wait for the next look.
func TestShortBackoffEndsAtItsTime(t *testing.T) {
	t.Parallel()
	const steps, late = 15, 100 * time.Millisecond
	r := setup(t)
	r.register(strings.ReplaceAll(chain, "name: first, ", "name: first, retry: {max_attempts: 10, initial: 200ms, max: 200ms, jitter: 0}, "))
	r.watchRetries()
	n := r.newRunner()
	for range steps {
		r.create("chain", `{"text": 1}`)
	}
	var usual time.Duration
	for range rounds {
		for range steps { // one after the other: they are due at all times between two looks
			n.stored(n.take().failed(systemv1.Outcome_FAILURE_CLASS_TRANSIENT, "provider_503"))
		}
		var lateness []time.Duration
		for _, one := range r.retries(steps) {
			lateness = append(lateness, one.Ready.Sub(one.Due))
		}
		slices.Sort(lateness)
		if usual = lateness[steps/2]; usual < late && lateness[steps-1] < soon {
			return
		}
		t.Logf("late: %v", lateness)
	}
	require.Less(t, usual, late)
}

// A step that was parked anew is not woken by the timer of the wait before.
func TestATimerThatWasSetAnewComesAtItsNewTime(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	n := r.newRunner()
	run := r.create("chain", `{"text": 1}`)
	o := n.take().outcome()
	o.Result = &systemv1.Outcome_Parked_{Parked: &systemv1.Outcome_Parked{Until: durationpb.New(700 * time.Millisecond), Reason: "provider_429"}}
	n.stored(o)
	r.exec(`UPDATE core.step_live SET due_at = due_at + interval '1 second' WHERE run_id = $1`, run)
	due := r.dueAt(run)
	r.eventually(1, `core.step_live WHERE run_id = $1 AND status = 'queued'`, run)
	require.False(t, r.readyAt(run).Before(due), "it came %v early", due.Sub(r.readyAt(run)))
	require.Less(t, r.readyAt(run).Sub(due), soon)
}

// outage takes something away until the hard timeouts of steps have passed, and returns the orchestrator after it.
type outage func(t *testing.T, s *stores, server *localstore.Postgres, before *replica, until func()) *replica

// A step that was finished in time, and whose outcome could not be stored before its hard timeout, is not run again.
func TestNobodyTimesOutByAnOutage(t *testing.T) {
	t.Parallel()
	const leaseTime, hard = 8 * time.Second, 3 * time.Second
	for name, happens := range map[string]outage{
		"of PostgreSQL": func(t *testing.T, _ *stores, server *localstore.Postgres, before *replica, until func()) *replica {
			server.Stop()
			until()
			require.NoError(t, server.Start(t.Context()))
			return before
		},
		"of the orchestrator": func(t *testing.T, s *stores, _ *localstore.Postgres, before *replica, until func()) *replica {
			before.stop()
			until()
			return s.replica(t, lease(leaseTime))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testkit.PrivatePostgres(t)
			s := &stores{database: testkit.DatabaseAt(t, server.URL(), store.Schema()), redis: testkit.Redis(t), gateway: &gateway{}}
			r := s.replica(t, lease(leaseTime))
			r.register(strings.NewReplacer("name: first, ", "name: first, soft_timeout: 2s, hard_timeout: 3s, ").Replace(chain))
			n := r.newRunner()
			alive := n.keepAlive()
			r.eventually(1, `core.replica WHERE seen_at - started_at > $1::interval`, leaseTime+2*time.Second)

			finishing, hanging := r.create("chain", `{"text": 1}`), r.create("chain", `{"text": 1}`)
			works := map[uuid.UUID]*work{}
			for range 2 {
				w := n.take()
				alive.hold(w.Hold)
				works[runOf(w.Hold.GetStep())] = w
			}
			after := happens(t, s, server, r, func() {
				require.NoError(t, clock.System().Sleep(t.Context(), hard+time.Second)) // time must pass
			})
			alive.stop()
			n.replica, n.client = after, after.client
			alive = n.keepAlive(works[finishing].Hold, works[hanging].Hold)
			// The sweeper has looked again by then.
			var back time.Time
			testkit.Eventually(t, patience, func() error {
				return s.database.Pool.QueryRow(t.Context(), `SELECT now()`).Scan(&back)
			})
			testkit.Eventually(t, patience, func() error {
				var seen time.Time
				err := s.database.Pool.QueryRow(t.Context(), `SELECT max(seen_at) FROM core.replica`).Scan(&seen)
				if err == nil && seen.Sub(back) < 2*time.Second {
					err = fmt.Errorf("the replica was seen %v after the outage", seen.Sub(back))
				}
				return err
			})
			n.stored(works[finishing].succeeded(`1`))
			after.eventually(1, `core.pipeline_step_result WHERE run_id = $1 AND step = 'first' AND attempt = 1`, finishing)
			require.Zero(t, after.count(`core.run_event WHERE kind IN ('hard_timeout', 'lease_expired')`))

			after.eventually(1, `core.run_event WHERE run_id = $1 AND kind = 'hard_timeout'`, hanging)
			alive.stop()
		})
	}
}
