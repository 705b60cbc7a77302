package steprunner_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/steprunner"
)

// asking waits until so many questions have been put to the gateway.
func (w *world) asking(n int) {
	w.t.Helper()
	w.eventually(func() error {
		if asked := len(w.gateway.asked()); asked != n {
			return fmt.Errorf("%d questions were asked, not %d", asked, n)
		}
		return nil
	})
}

func beats(o *orchestrator) int { return len(o.heartbeats) }

// beating waits until so many heartbeats have been confirmed.
func (w *world) beating(n int) {
	w.t.Helper()
	w.eventually(func() error {
		if confirmed := see(w.orchestrator, beats); confirmed < n {
			return fmt.Errorf("%d heartbeats are confirmed, not %d", confirmed, n)
		}
		return nil
	})
}

func TestNothingIsClaimedBeforeTheFirstHeartbeatIsConfirmed(t *testing.T) {
	t.Parallel()
	tried := make(chan struct{}, 100)
	w := start(t, func(w *world) {
		w.orchestrator.onBeat = func() error {
			tried <- struct{}{}
			return away()
		}
	})
	ref := w.submit(given{digest: w.pipeline(double), input: `{"n":1}`})
	for range 6 { // more than one heartbeat, whatever gRPC repeats by itself
		<-tried
	}
	require.Error(t, w.service.Ready(t.Context()))
	require.Empty(t, see(w.orchestrator, func(o *orchestrator) []*systemv1.ClaimStepsRequest { return o.claims }))
	require.Zero(t, w.pending(interactive), "nothing is taken out of the stream")
	w.orchestrator.set(func(o *orchestrator) { o.onBeat = nil })
	w.outcome(ref)
	w.ready(true)
}

func TestHeartbeatListsWhatIsHeld(t *testing.T) {
	t.Parallel()
	w := start(t, lasting(time.Second), with(func(c *steprunner.Config) { c.InteractiveSlots, c.BatchSlots = 3, 0 }))
	w.gateway.set(silent)
	ref := w.submit(given{digest: w.pipeline(ask), input: `{"n":1}`, assignment: func(a *systemv1.Assignment) { a.ClaimNo = 7 }})
	w.asking(1)
	w.beating(see(w.orchestrator, beats) + 2)
	last := see(w.orchestrator, func(o *orchestrator) *systemv1.HeartbeatRequest { return o.heartbeats[len(o.heartbeats)-1] })
	require.Len(t, last.GetHolds(), 1)
	hold := last.GetHolds()[0]
	require.Equal(t, keyOf(ref), keyOf(hold.GetStep()))
	require.Equal(t, see(w.orchestrator, func(o *orchestrator) string { return o.fences[keyOf(ref)] }), string(hold.GetFence()))
	require.EqualValues(t, 7, hold.GetClaimNo())
	require.Len(t, last.GetLanes(), 1)
	require.EqualValues(t, 3, last.GetLanes()[0].GetSlots())
	require.NotEmpty(t, last.GetDescription())
}

func TestHeartbeatsComeAQuarterOfALeaseApart(t *testing.T) {
	t.Parallel()
	clock := clocktest.New()
	w := start(t, onClock(clock), lasting(40*time.Second))
	w.beating(1)
	for n := 1; n < 4; n++ {
		clock.BlockUntil(t, 2) // the heartbeat's timer, and that of the process's health
		clock.Advance(9 * time.Second)
		require.Equal(t, n, see(w.orchestrator, beats))
		clock.Advance(time.Second)
		w.beating(n + 1)
		require.Equal(t, n+1, see(w.orchestrator, beats))
	}
}

func TestStoppedStepIsDroppedAndItsCallIsLeftAlone(t *testing.T) {
	t.Parallel()
	for _, reason := range []systemv1.StopReason{
		systemv1.StopReason_STOP_REASON_FENCED, systemv1.StopReason_STOP_REASON_CANCELLED,
		systemv1.StopReason_STOP_REASON_DEADLINE, systemv1.StopReason_STOP_REASON_HARD_TIMEOUT,
	} {
		t.Run(reason.String(), func(t *testing.T) {
			t.Parallel()
			w := start(t, lasting(time.Second), with(func(c *steprunner.Config) { c.InteractiveSlots = 1 }))
			w.gateway.set(silent)
			ref := w.submit(given{digest: w.pipeline(ask), input: `{"n":1}`})
			w.asking(1)
			w.orchestrator.stop(ref, reason)
			w.clean(interactive)
			next := w.submit(given{digest: w.pipeline(double), input: `{"n":1}`})
			w.outcome(next) // the slot is free again
			require.Nil(t, see(w.orchestrator, func(o *orchestrator) *systemv1.Outcome { return o.outcomes[keyOf(ref)] }))
			require.Zero(t, w.gateway.cancels)
			w.eventually(func() error {
				if last := see(w.orchestrator, func(o *orchestrator) int { return len(o.heartbeats[len(o.heartbeats)-1].GetHolds()) }); last != 0 {
					return errors.New("the step is still listed")
				}
				return nil
			})
		})
	}
}

func TestOutcomeOfAFencedStepIsNotRepeatedForEver(t *testing.T) {
	t.Parallel()
	w := start(t, lasting(time.Second))
	w.orchestrator.set(func(o *orchestrator) { o.onComplete = func(*systemv1.CompleteStepsRequest) error { return away() } })
	ref := w.submit(given{digest: w.pipeline(double), input: `{"n":1}`})
	w.eventually(func() error {
		if see(w.orchestrator, func(o *orchestrator) int { return len(o.completed) }) == 0 {
			return errors.New("nothing was reported")
		}
		return nil
	})
	require.EqualValues(t, 1, w.pending(interactive))
	w.orchestrator.stop(ref, systemv1.StopReason_STOP_REASON_FENCED)
	w.clean(interactive)
}

func TestNoCallBeginsWhileTheLeaseIsUnconfirmed(t *testing.T) {
	t.Parallel()
	clock := clocktest.New()
	w := start(t, onClock(clock), lasting(40*time.Second))
	w.beating(1)
	fetching, held := make(chan struct{}), make(chan struct{})
	fetch := sync.OnceFunc(func() { close(held) })
	defer fetch()
	w.orchestrator.set(func(o *orchestrator) {
		o.onFetch = func() error {
			close(fetching)
			<-held
			return nil
		}
	})
	ref := w.submit(given{digest: w.pipeline(ask), input: `{"n":1}`})
	<-fetching // it is claimed, and about to begin
	var refused atomic.Int32
	w.orchestrator.set(func(o *orchestrator) {
		o.onBeat = func() error {
			refused.Add(1)
			return away()
		}
	})
	passUntilRefused := func(times int32) {
		w.eventually(func() error {
			clock.Advance(time.Second)
			if n := refused.Load(); n < times {
				return fmt.Errorf("%d heartbeats were refused", n)
			}
			return nil
		})
	}
	passUntilRefused(1)
	clock.Advance(33 * time.Second)
	require.Error(t, w.service.Ready(t.Context()), "0.8 of the lease is over")
	fetch()
	passUntilRefused(20) // time enough for a call, if nothing held it back
	require.Empty(t, w.gateway.asked(), "a call began under a lease that nobody confirmed")

	w.orchestrator.set(func(o *orchestrator) { o.onBeat = nil })
	w.eventually(func() error {
		clock.Advance(time.Second)
		return w.service.Ready(t.Context())
	})
	require.NotNil(t, w.outcome(ref).GetSucceeded())
	require.Len(t, w.gateway.asked(), 1)
}

func TestWaitForAPermitStopsTheSoftTimeout(t *testing.T) {
	t.Parallel()
	clock := clocktest.New()
	w := start(t, onClock(clock), lasting(40*time.Second))
	waiting, granted := make(chan struct{}), make(chan struct{})
	seen := make(chan struct{})
	w.gateway.set(func(ctx context.Context, q *systemv1.GenerateRequest, say func(*systemv1.GenerateResponse)) error {
		say(&systemv1.GenerateResponse{News: &systemv1.GenerateResponse_Waiting_{Waiting: &systemv1.GenerateResponse_Waiting{Limit: "main"}}})
		close(waiting)
		<-granted
		say(&systemv1.GenerateResponse{News: &systemv1.GenerateResponse_Granted_{Granted: &systemv1.GenerateResponse_Granted{
			PermitWait: durationpb.New(time.Hour),
		}}})
		close(seen)
		return silent(ctx, q, say)
	})
	ref := w.submit(given{
		digest: w.pipeline(`  - {name: it, llm: {prompt: hi}, llm_timeout: 10s, soft_timeout: 60s, hard_timeout: 70s}`),
		input:  `{}`,
	})
	<-waiting
	waited := func() time.Duration {
		return see(w.orchestrator, func(o *orchestrator) time.Duration {
			holds := o.heartbeats[len(o.heartbeats)-1].GetHolds()
			if len(holds) == 0 {
				return 0
			}
			return holds[0].GetPermitWait().AsDuration()
		})
	}
	w.eventually(func() error { // the clock stands still only once the runner has read the news
		clock.Advance(10 * time.Second)
		if got := waited(); got < 10*time.Minute {
			return fmt.Errorf("the heartbeat reports %v of waiting", got)
		}
		return nil
	})
	require.Nil(t, see(w.orchestrator, func(o *orchestrator) *systemv1.Outcome { return o.outcomes[keyOf(ref)] }))
	awaited := func() *systemv1.AwaitedPermit {
		return see(w.orchestrator, func(o *orchestrator) *systemv1.AwaitedPermit {
			return o.heartbeats[len(o.heartbeats)-1].GetHolds()[0].GetAwaitedPermit()
		})
	}
	require.Equal(t, "main", awaited().GetLimit())
	require.GreaterOrEqual(t, awaited().GetWaited().AsDuration(), 9*time.Minute)
	close(granted)
	<-seen
	w.eventually(func() error {
		clock.Advance(time.Second)
		if awaited() != nil {
			return errors.New("the heartbeat tells of a permit that is granted")
		}
		return nil
	})
	w.eventually(func() error {
		clock.Advance(10 * time.Second)
		if see(w.orchestrator, func(o *orchestrator) *systemv1.Outcome { return o.outcomes[keyOf(ref)] }) == nil {
			return errors.New("the soft timeout has not ended the step")
		}
		return nil
	})
	failure := w.outcome(ref).GetFailed()
	require.Equal(t, "step_timeout", failure.GetReason())
	require.Equal(t, systemv1.Outcome_FAILURE_CLASS_TRANSIENT, failure.GetClass())
	require.Zero(t, w.gateway.cancels, "the next attempt joins the call")
}
