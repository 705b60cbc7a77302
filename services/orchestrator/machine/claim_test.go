package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/retry"
	"pawl.internal/services/orchestrator/machine"
)

// chain is a plan in which each step needs the one before it.
func chain(steps ...machine.Step) *machine.Plan {
	for i := range steps {
		steps[i].Name = string(rune('a' + i))
		if i > 0 {
			steps[i].Needs = []int{i - 1}
		}
	}
	return &machine.Plan{Steps: steps, Total: len(steps), Deadline: time.Hour}
}

// usual is a step with the policies that a pipeline has when it says nothing.
func usual() machine.Step {
	return machine.Step{
		OnError: machine.FailRun, OnAmbiguous: machine.RetryAmbiguous, MaxLost: 3, MaxCalls: 8, HardTimeout: time.Minute,
		Retry: retry.Policy{MaxAttempts: 3, Initial: 5 * time.Second, Factor: 3, Max: time.Minute, Jitter: 0.2},
	}
}

func created(t *testing.T, plan *machine.Plan) *world {
	t.Helper()
	w := newWorld(t, plan)
	w.must(machine.Created{})
	return w
}

const whole = machine.Whole

func TestClaimAnswers(t *testing.T) {
	t.Parallel()
	claim := func(w *world, fence machine.ID) machine.Answer {
		return w.must(machine.Claimed{Ref: w.ref(0, whole), Fence: fence, Worker: machine.ID{1}}).Answer
	}
	for name, c := range map[string]struct {
		arrange func(w *world) machine.ID
		want    machine.Answer
	}{
		"queued":              {func(w *world) machine.ID { w.must(machine.Dispatched{Ref: w.ref(0, whole)}); return w.fence() }, machine.Granted},
		"the first was lost":  {func(w *world) machine.ID { return w.start(0, whole).Fence }, machine.Granted},
		"another has it":      {func(w *world) machine.ID { w.start(0, whole); return w.fence() }, machine.Held},
		"not dispatched":      {func(w *world) machine.ID { return w.fence() }, machine.Gone},
		"finished":            {func(w *world) machine.ID { w.finish(0, whole); return w.fence() }, machine.Gone},
		"without a fence":     {func(w *world) machine.ID { w.must(machine.Dispatched{Ref: w.ref(0, whole)}); return machine.ID{} }, machine.Gone},
		"the run has ended":   {func(w *world) machine.ID { w.must(machine.CancelRequested{}); return w.fence() }, machine.Gone},
		"with a fence of old": {usedFence, machine.Gone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := created(t, chain(usual(), usual()))
			fence := c.arrange(w)
			before := w.snapshot()
			require.Equal(t, c.want, claim(w, fence))
			if c.want != machine.Granted {
				require.Equal(t, before, w.snapshot(), "a claim that is not granted changes nothing")
			}
		})
	}
}

// usedFence queues a step again whose holder was lost, and returns that holder's fence.
func usedFence(w *world) machine.ID {
	held := w.start(0, whole)
	w.must(machine.LeaseExpired{Ref: held.Ref, Fence: held.Fence})
	w.must(machine.Dispatched{Ref: w.ref(0, whole)})
	return held.Fence
}

func TestClaimOfAnotherGenerationIsGone(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual()))
	w.finish(0, whole)
	w.must(machine.RerunFrom{Step: 0, Generation: 1})
	w.must(machine.Dispatched{Ref: w.ref(0, whole)})
	old := machine.Ref{Key: machine.Key{Step: 0, Shard: whole}, Generation: 1}
	require.Equal(t, machine.Gone, w.must(machine.Claimed{Ref: old, Fence: w.fence()}).Answer)
	require.Equal(t, machine.Granted, w.must(machine.Claimed{Ref: w.ref(0, whole), Fence: w.fence()}).Answer)
}

func TestClaimCountsAndBegins(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual()))
	require.Equal(t, machine.RunQueued, w.run.Status)
	held := w.start(0, whole)
	l := w.live[held.Key]
	require.Equal(t, machine.RunRunning, w.run.Status)
	require.Equal(t, w.run.StartedAt, l.ClaimedAt)
	require.Equal(t, l.ClaimedAt.Add(time.Minute), l.DueAt, "the hard timeout")
	require.Equal(t, []int{1, 1}, []int{l.Attempt, l.ClaimNo})
	require.Equal(t, machine.ID{7}, l.Worker)
	require.Empty(t, effectsOf[machine.BeginEffect](w))
	require.Empty(t, effectsOf[machine.Journal](w), "claims are not journalled")
}

func TestClaimOfAnOutsideEffectIsRecordedFirst(t *testing.T) {
	t.Parallel()
	step := usual()
	step.Effect = true
	w := created(t, chain(step))
	held := w.start(0, whole)
	require.Equal(t, []machine.BeginEffect{{Ref: held.Ref}}, effectsOf[machine.BeginEffect](w))
}

// TestWhoseOutcomeIsTaken goes through protocol.md, "Claim, heartbeat, completion".
func TestWhoseOutcomeIsTaken(t *testing.T) {
	t.Parallel()
	expire := func(w *world, held machine.Attempt) { w.must(machine.LeaseExpired{Ref: held.Ref, Fence: held.Fence}) }
	for name, c := range map[string]struct {
		arrange func(w *world) machine.Attempt
		want    machine.Answer // empty: refused as stale
	}{
		"the holder's": {func(w *world) machine.Attempt { return w.start(0, whole) }, machine.Applied},
		"stored before": {func(w *world) machine.Attempt {
			held := w.start(0, whole)
			w.must(machine.Succeeded{Attempt: held})
			return held
		}, machine.Already},
		"the lease ran out, nobody took over: READY": {func(w *world) machine.Attempt {
			held := w.start(0, whole)
			expire(w, held)
			return held
		}, machine.Applied},
		"the lease ran out, nobody took over: QUEUED": {func(w *world) machine.Attempt {
			held := w.start(0, whole)
			expire(w, held)
			w.must(machine.Dispatched{Ref: held.Ref})
			return held
		}, machine.Applied},
		"a crash forgot the claim": {func(w *world) machine.Attempt {
			w.must(machine.Dispatched{Ref: w.ref(0, whole)})
			return machine.Attempt{Claim: machine.Claim{Ref: w.ref(0, whole), Fence: w.fence(), ClaimNo: 1}}
		}, machine.Applied},
		"a crash forgot the claim that followed a lost one": {func(w *world) machine.Attempt {
			expire(w, w.start(0, whole))
			return machine.Attempt{Claim: machine.Claim{Ref: w.ref(0, whole), Fence: w.fence(), ClaimNo: 2}}
		}, machine.Applied},
		"another has taken over": {func(w *world) machine.Attempt {
			held := w.start(0, whole)
			expire(w, held)
			w.start(0, whole)
			return held
		}, ""},
		"another had taken over and was lost too": {func(w *world) machine.Attempt {
			held := w.start(0, whole)
			expire(w, held)
			expire(w, w.start(0, whole))
			return held
		}, ""},
		"another has finished it": {func(w *world) machine.Attempt {
			held := w.start(0, whole)
			expire(w, held)
			w.finish(0, whole)
			return held
		}, ""},
		"a claim that never was": {func(w *world) machine.Attempt {
			return machine.Attempt{Claim: machine.Claim{Ref: w.ref(0, whole), Fence: w.fence(), ClaimNo: 3}}
		}, ""},
		"an empty fence": {func(w *world) machine.Attempt {
			return machine.Attempt{Claim: machine.Claim{Ref: w.ref(0, whole), ClaimNo: 1}}
		}, ""},
		"handed back before": {func(w *world) machine.Attempt {
			held := w.start(0, whole)
			w.must(machine.Released{Claim: held.Claim})
			return held
		}, machine.Already},
		"in backoff by its own failure": {func(w *world) machine.Attempt {
			held := w.start(0, whole)
			w.must(machine.FailedTransient{Attempt: held, Reason: machine.ReasonNetwork})
			return held
		}, machine.Already},
		"READY again after its own failure": {func(w *world) machine.Attempt {
			held := w.start(0, whole)
			w.must(machine.FailedTransient{Attempt: held, Reason: machine.ReasonNetwork})
			w.now = w.live[held.Key].DueAt
			w.must(machine.RetryDue{Ref: held.Ref})
			return held
		}, machine.Already},
		"past its hard timeout": {func(w *world) machine.Attempt {
			held := w.start(0, whole)
			w.now = w.live[held.Key].DueAt
			w.must(machine.HardTimeout{Ref: held.Ref, Fence: held.Fence})
			return held
		}, ""},
		"the run was cancelled": {func(w *world) machine.Attempt {
			held := w.start(0, whole)
			w.must(machine.CancelRequested{})
			return held
		}, ""},
		"another generation": {func(w *world) machine.Attempt {
			held := w.start(0, whole)
			w.must(machine.Succeeded{Attempt: held})
			w.finish(1, whole)
			w.must(machine.RerunFrom{Step: 0, Generation: 1})
			return held
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := created(t, chain(usual(), usual()))
			attempt := c.arrange(w)
			out, err := w.apply(machine.Succeeded{Attempt: attempt})
			if c.want == "" {
				var stale *machine.StaleError
				require.ErrorAs(t, err, &stale)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, out.Answer)
			if c.want == machine.Applied {
				require.Equal(t, machine.StepDone, w.status(0, whole))
				require.Equal(t, attempt.Fence, w.stored[attempt.Ref].Fence)
				require.Equal(t, attempt.ClaimNo, w.stored[attempt.Ref].ClaimNo)
				require.Equal(t, attempt.ClaimNo, w.stored[attempt.Ref].Attempt, "claim and outcome in one count as an attempt")
			}
		})
	}
}

func TestAHeartbeatGetsTheStepBack(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual()))
	held := w.start(0, whole)
	w.must(machine.LeaseExpired{Ref: held.Ref, Fence: held.Fence})
	require.Equal(t, machine.StepReady, w.status(0, whole))
	require.Equal(t, 1, w.live[held.Key].Losses)

	require.Equal(t, machine.Applied, w.must(machine.Readopted{Claim: held.Claim}).Answer)
	l := w.live[held.Key]
	require.Equal(t, machine.StepRunning, l.Status)
	require.Equal(t, []int{0, 1, 1}, []int{l.Losses, l.Attempt, l.ClaimNo}, "the worker was not lost after all")
	require.Equal(t, l.ClaimedAt.Add(time.Minute), l.DueAt)
}

func TestWaitsForPermitsMoveTheHardTimeout(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual()))
	held := w.start(0, whole)
	due := w.live[held.Key].DueAt
	require.Equal(t, machine.Already, w.must(machine.Readopted{Claim: held.Claim}).Answer)
	w.must(machine.Readopted{Claim: held.Claim, PermitWait: 30 * time.Second})
	require.Equal(t, due.Add(30*time.Second), w.live[held.Key].DueAt)
	w.must(machine.Readopted{Claim: held.Claim, PermitWait: 20 * time.Second})
	require.Equal(t, due.Add(30*time.Second), w.live[held.Key].DueAt, "an older heartbeat shortens nothing")

	w.now = due
	_, err := w.apply(machine.HardTimeout{Ref: held.Ref, Fence: held.Fence})
	require.ErrorContains(t, err, "not due yet")
}

func TestWhyAHeartbeatIsToldToStop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arrange func(w *world, held machine.Attempt)
		want    machine.Answer
	}{
		"cancelled": {func(w *world, _ machine.Attempt) { w.must(machine.CancelRequested{}) }, machine.StopCancelled},
		"deadline": {func(w *world, _ machine.Attempt) {
			w.now = w.run.DeadlineAt
			w.must(machine.DeadlinePassed{})
		}, machine.StopDeadline},
		"fenced by a newer claim": {func(w *world, held machine.Attempt) {
			w.must(machine.LeaseExpired{Ref: held.Ref, Fence: held.Fence})
			w.start(0, whole)
		}, machine.StopFenced},
		"another has finished": {func(w *world, held machine.Attempt) {
			w.must(machine.LeaseExpired{Ref: held.Ref, Fence: held.Fence})
			w.finish(0, whole)
		}, machine.StopFenced},
		"hard timeout": {func(w *world, held machine.Attempt) {
			w.now = w.live[held.Key].DueAt
			w.must(machine.HardTimeout{Ref: held.Ref, Fence: held.Fence})
		}, machine.StopHardTimeout},
		"the last hard timeout": {func(w *world, held machine.Attempt) {
			w.plan.Steps[0].Retry.MaxAttempts = 1
			w.now = w.live[held.Key].DueAt
			w.must(machine.HardTimeout{Ref: held.Ref, Fence: held.Fence})
		}, machine.StopHardTimeout},
		"the run was run again": {func(w *world, held machine.Attempt) {
			w.must(machine.CancelRequested{})
			w.must(machine.RerunFrom{Step: 0, Generation: 1})
		}, machine.StopCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := created(t, chain(usual(), usual()))
			held := w.start(0, whole)
			c.arrange(w, held)
			require.Equal(t, c.want, w.must(machine.Readopted{Claim: held.Claim}).Answer)
		})
	}
}

func TestReleaseGivesTheAttemptBack(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual()))
	held := w.start(0, whole)
	w.must(machine.Released{Claim: held.Claim})
	l := w.live[held.Key]
	require.Equal(t, machine.StepReady, l.Status)
	require.Equal(t, []int{0, 1}, []int{l.Attempt, l.ClaimNo}, "the number of claims never decreases")
	require.Equal(t, 2, w.start(0, whole).ClaimNo)
}

func TestAStepThatKillsItsWorkersEnds(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual()))
	for range 2 {
		held := w.start(0, whole)
		w.must(machine.LeaseExpired{Ref: held.Ref, Fence: held.Fence})
		require.Equal(t, machine.StepReady, w.status(0, whole))
	}
	held := w.start(0, whole)
	w.must(machine.LeaseExpired{Ref: held.Ref, Fence: held.Fence})
	require.Equal(t, machine.RunFailed, w.run.Status)
	require.Equal(t, machine.ReasonWorkerLost, w.run.Reason)
	_, err := w.apply(machine.Succeeded{Attempt: held})
	require.Error(t, err, "the orchestrator has ended the step")
}

func TestLeaseExpiredIsAboutOneClaim(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual()))
	first := w.start(0, whole)
	w.must(machine.LeaseExpired{Ref: first.Ref, Fence: first.Fence})
	w.start(0, whole)
	_, err := w.apply(machine.LeaseExpired{Ref: first.Ref, Fence: first.Fence})
	var stale *machine.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, 1, w.live[first.Key].Losses)
}

func TestOverdueAddsTheEntryAgain(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual()))
	w.must(machine.Dispatched{Ref: w.ref(0, whole)})
	queued := w.live[machine.Key{Step: 0, Shard: whole}].QueuedAt
	require.Equal(t, machine.Already, w.must(machine.Overdue{Ref: w.ref(0, whole), QueuedBefore: queued.Add(-1)}).Answer)
	w.must(machine.Overdue{Ref: w.ref(0, whole), QueuedBefore: queued})
	require.Len(t, effectsOf[machine.Publish](w), 1)
	require.Equal(t, machine.StepQueued, w.status(0, whole))
	require.True(t, w.live[machine.Key{Step: 0, Shard: whole}].QueuedAt.After(queued))
}

func TestAPausedRunIsNotDispatched(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual(), usual()))
	held := w.start(0, whole)
	w.must(machine.Paused{})
	w.must(machine.Succeeded{Attempt: held})
	require.Empty(t, effectsOf[machine.Dispatchable](w))
	_, err := w.apply(machine.Dispatched{Ref: w.ref(1, whole)})
	require.ErrorContains(t, err, "paused")
	w.must(machine.Resumed{})
	w.finish(1, whole)
	require.Equal(t, machine.RunDone, w.run.Status)
}

func TestPromotedMovesWhatIsNotRunning(t *testing.T) {
	t.Parallel()
	w := created(t, chain(usual(), usual()))
	w.must(machine.Dispatched{Ref: w.ref(0, whole)})
	w.must(machine.Promoted{Class: machine.Interactive})
	require.Equal(t, machine.StepReady, w.status(0, whole), "its entry is in the stream of the other class")
	require.Equal(t, machine.Interactive, w.live[machine.Key{Step: 0, Shard: whole}].Class)
	require.Equal(t, machine.Gone, w.must(machine.Claimed{Ref: w.ref(0, whole), Fence: w.fence()}).Answer)
	w.finish(0, whole)
	require.Equal(t, machine.Interactive, effectsOf[machine.Dispatchable](w)[0].Class)
	_, err := w.apply(machine.Promoted{Class: "express"})
	require.ErrorContains(t, err, "no such class")
}
