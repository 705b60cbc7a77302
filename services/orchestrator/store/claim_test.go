package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/localstore"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
	"pawl.internal/services/testkit"
)

func TestLostClaimAnswerIsGrantedAgain(t *testing.T) {
	b := setup(t)
	b.chain("chain", 1)
	ref := b.next(b.create("chain"))
	fence, worker := b.draw(), b.draw()
	first, err := b.claim(ref, fence, worker)
	require.NoError(t, err)
	second, err := b.claim(ref, fence, worker)
	require.NoError(t, err)
	require.Equal(t, machine.Granted, second.Answer)
	require.Equal(t, first.Grant.Row.ClaimNo, second.Grant.Row.ClaimNo)
	require.Equal(t, 1, second.Grant.Row.Attempt, "no new attempt")

	other, err := b.claim(ref, b.draw(), b.draw())
	require.NoError(t, err)
	require.Equal(t, machine.Held, other.Answer)
	require.Nil(t, other.Grant)
}

func TestClaimOfWhatIsOver(t *testing.T) {
	b := setup(t)
	b.chain("chain", 2)
	ref := b.next(b.create("chain"))
	b.submit(b.succeed(b.grant(ref), `1`))
	for name, over := range map[string]store.Ref{
		"finished":         ref,
		"other generation": {RunID: ref.RunID, Step: "b", Shard: store.Whole, Generation: 2},
		"no such step":     {RunID: ref.RunID, Step: "z", Shard: store.Whole, Generation: 1},
		"no such shard":    {RunID: ref.RunID, Step: "b", Shard: 7, Generation: 1},
	} {
		e, err := b.claim(over, b.draw(), b.draw())
		require.NoError(t, err, name)
		require.Equal(t, machine.Gone, e.Answer, name)
	}
	_, err := b.claim(store.Ref{RunID: b.ids.V7(), Step: "a", Shard: store.Whole, Generation: 1}, b.draw(), b.draw())
	require.ErrorIs(t, err, store.ErrNoRun)
}

// forgetful returns a store on a server that, when it is killed, loses everything that was not committed to disk: its
// background writer, which might save it just before, sleeps.
func forgetful(t *testing.T) (*localstore.Postgres, *bench) {
	t.Helper()
	server := testkit.PrivatePostgres(t)
	b := setupOn(t, testkit.DatabaseAt(t, server.URL(), store.Schema()), true)
	for _, statement := range []string{`ALTER SYSTEM SET wal_writer_delay = '10s'`, `SELECT pg_reload_conf()`} {
		_, err := b.database.Pool.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	return server, b
}

// A crash of the database forgets a claim, which was not committed to disk. The outcome is accepted as claim and outcome
// in one: finished work is never thrown away.
func TestClaimForgottenByACrash(t *testing.T) {
	server, b := forgetful(t)
	b.chain("chain", 1)
	ref := b.next(b.create("chain"))
	h := b.grant(ref)

	server.Kill()
	require.NoError(t, server.Start(t.Context()))
	testkit.Eventually(t, 10*time.Second, func() error { return b.database.Pool.Ping(t.Context()) })
	require.Equal(t, "queued", b.stepStatus(ref), "the claim is forgotten")

	b.patiently(func() error { return b.store.Submit(t.Context(), b.succeed(h, `"kept"`))[0] })
	var attempt, claimNo int
	b.scan(`SELECT attempt, claim_no FROM core.pipeline_step_result WHERE run_id = $1`, []any{ref.RunID}, &attempt, &claimNo)
	require.Equal(t, 1, attempt)
	require.Equal(t, 1, claimNo)
	require.Equal(t, "done", b.status(ref.RunID))
}

// An outcome is on disk when it is answered: killing the database at once forgets none.
func TestStoredOutcomeSurvivesACrash(t *testing.T) {
	server, b := forgetful(t)
	b.chain("chain", 1)
	ref := b.next(b.create("chain"))
	b.submit(b.succeed(b.grant(ref), `1`))
	server.Kill()
	require.NoError(t, server.Start(t.Context()))
	testkit.Eventually(t, 10*time.Second, func() error { return b.database.Pool.Ping(t.Context()) })
	require.Equal(t, "done", b.status(ref.RunID))
}

// A worker that was paused past its lease, and whose step another has claimed since, changes nothing.
func TestStaleFenceIsRefused(t *testing.T) {
	b := setup(t)
	b.chain("chain", 1)
	ref := b.next(b.create("chain"))
	paused := b.grant(ref)
	require.Equal(t, machine.Applied, b.submit(b.expire(paused)))
	current := b.grant(b.next(ref.RunID))

	err := b.store.Submit(t.Context(), b.succeed(paused, `"late"`))[0]
	require.True(t, isStale(err), err)
	e, err := b.claim(ref, paused.fence, paused.worker)
	require.NoError(t, err)
	require.Equal(t, machine.Held, e.Answer, "its old fence grants nothing")
	require.Equal(t, machine.StopFenced, b.submit(b.readopt(paused)))

	require.Equal(t, machine.Applied, b.submit(b.succeed(current, `"good"`)))
	err = b.store.Submit(t.Context(), b.succeed(paused, `"late"`))[0]
	require.True(t, isStale(err), err)
	require.JSONEq(t, `"good"`, b.output(ref))
}

func isStale(err error) bool {
	_, ok := errors.AsType[*machine.StaleError](err)
	return ok
}

// expire is the event that the lease of the claim's runner has run out.
func (b *bench) expire(h held) *store.Event {
	return &store.Event{Ref: h.Ref, Make: func(r machine.Ref, _ time.Time) machine.Event {
		return machine.LeaseExpired{Ref: r, Fence: h.fence}
	}}
}

// readopt is the event that the runner lists the claim in its heartbeat.
func (b *bench) readopt(h held) *store.Event {
	return &store.Event{Ref: h.Ref, Make: func(r machine.Ref, _ time.Time) machine.Event {
		return machine.Readopted{Claim: h.claim(r)}
	}}
}

// output returns the stored output of a step or shard.
func (b *bench) output(ref store.Ref) (text string) {
	b.t.Helper()
	b.scan(`SELECT output FROM core.pipeline_step_result WHERE run_id = $1 AND step = $2 AND shard = $3`,
		[]any{ref.RunID, ref.Step, ref.Shard}, &text)
	return text
}

func TestOutcomeOfAnExpiredLeaseThatNobodyTookOver(t *testing.T) {
	b := setup(t)
	b.chain("chain", 1)
	ref := b.next(b.create("chain"))
	h := b.grant(ref)
	b.submit(b.expire(h))
	require.Equal(t, "queued", b.stepStatus(ref), "offered to others")
	require.Equal(t, machine.Applied, b.submit(b.succeed(h, `"in time"`)))
	require.Equal(t, "done", b.status(ref.RunID))
}

func TestRepeatedOutcomeIsAlreadyStored(t *testing.T) {
	b := setup(t)
	b.register(spec{Name: "retried", Steps: []stepSpec{{Name: "a", Attempts: 3}}})
	ref := b.next(b.create("retried"))
	h := b.grant(ref)
	failed := func() *store.Event {
		return &store.Event{Ref: h.Ref, Report: &store.Report{Worker: uuid.UUID(h.worker)}, Make: func(r machine.Ref, _ time.Time) machine.Event {
			return machine.FailedTransient{
				Attempt: machine.Attempt{Claim: h.claim(r)}, Reason: machine.ReasonProvider503, Detail: "overloaded",
			}
		}}
	}
	require.Equal(t, machine.Applied, b.submit(failed()))
	require.Equal(t, machine.Already, b.submit(failed()), "in BACKOFF")
	b.retryWhenDue(ref)
	require.Equal(t, machine.Already, b.submit(failed()), "QUEUED again")
	var failures int
	b.scan(`SELECT failures FROM core.step_live WHERE run_id = $1`, []any{ref.RunID}, &failures)
	require.Equal(t, 1, failures, "one failure is counted once")

	h = b.grant(b.next(ref.RunID))
	require.Equal(t, machine.Applied, b.submit(b.succeed(h, `1`)))
	require.Equal(t, machine.Already, b.submit(b.succeed(h, `1`)), "finished")
	require.Equal(t, 1, b.count(`core.run_event WHERE run_id = $1 AND kind = 'succeeded'`, ref.RunID))
}

// retryWhenDue ends a backoff as soon as it may end.
func (b *bench) retryWhenDue(ref store.Ref) {
	b.t.Helper()
	testkit.Eventually(b.t, 10*time.Second, func() error {
		return b.store.Submit(b.t.Context(), &store.Event{Ref: ref, Make: func(r machine.Ref, _ time.Time) machine.Event {
			return machine.RetryDue{Ref: r}
		}})[0]
	})
}

// The reason in words stays with the row until the step succeeds, so that people see what the last attempt failed of.
func TestFailureInWordsIsKept(t *testing.T) {
	b := setup(t)
	b.register(spec{Name: "retried", Steps: []stepSpec{{Name: "a", Attempts: 3}}})
	ref := b.next(b.create("retried"))
	h := b.grant(ref)
	b.submit(&store.Event{Ref: h.Ref, Make: func(r machine.Ref, _ time.Time) machine.Event {
		return machine.FailedTransient{
			Attempt: machine.Attempt{Claim: h.claim(r)}, Reason: machine.ReasonProvider503, Detail: "the provider is overloaded",
		}
	}})
	b.retryWhenDue(ref)
	b.grant(b.next(ref.RunID))
	var reason, words string
	b.scan(`SELECT reason, error FROM core.step_state WHERE run_id = $1`, []any{ref.RunID}, &reason, &words)
	require.Equal(t, "provider_503", reason)
	require.Equal(t, "the provider is overloaded", words)
}

func TestReleaseGivesTheAttemptBack(t *testing.T) {
	b := setup(t)
	b.chain("chain", 1)
	ref := b.next(b.create("chain"))
	h := b.grant(ref)
	released := &store.Event{Ref: h.Ref, Make: func(r machine.Ref, _ time.Time) machine.Event {
		return machine.Released{Claim: h.claim(r)}
	}}
	require.Equal(t, machine.Applied, b.submit(released))
	next := b.grant(b.next(ref.RunID))
	var attempt int
	b.scan(`SELECT attempt FROM core.step_live WHERE run_id = $1`, []any{ref.RunID}, &attempt)
	require.Equal(t, 1, attempt, "the released attempt is not counted")
	require.Equal(t, 2, next.claimNo, "its claim is")
	err := b.store.Submit(t.Context(), b.succeed(h, `"late"`))[0]
	require.True(t, isStale(err), err)
}
