package steprunner_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/boot"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/steprunner"
)

func releases(o *orchestrator) []*systemv1.ReleaseStepsRequest { return o.releases }

// leaving is the release that ends the runner's lease.
func (w *world) leaving() *systemv1.ReleaseStepsRequest {
	w.t.Helper()
	list := see(w.orchestrator, releases)
	require.NotEmpty(w.t, list)
	last := list[len(list)-1]
	require.True(w.t, last.GetLeaving())
	return last
}

// draining waits until the runner has begun to drain. It may be called from any goroutine.
func (w *world) draining(ctx context.Context) error {
	for w.service.Ready(ctx) == nil {
		if err := clock.System().Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func TestShutdownLetsStepsEnd(t *testing.T) {
	t.Parallel()
	w := start(t, with(func(c *steprunner.Config) { c.Grace = patience }))
	w.gateway.set(func(ctx context.Context, _ *systemv1.GenerateRequest, say func(*systemv1.GenerateResponse)) error {
		if err := w.draining(ctx); err != nil {
			return err
		}
		say(text("done"))
		return nil
	})
	ref := w.submit(given{digest: w.pipeline(ask), input: `{"n":1}`})
	w.asking(1)
	w.stop()
	require.NotNil(t, w.outcome(ref).GetSucceeded())
	require.Empty(t, w.leaving().GetHolds())
	w.clean(interactive)
}

func TestShutdownHandsBackWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	w := start(t, lasting(time.Second))
	w.gateway.set(silent)
	ref := w.submit(given{digest: w.pipeline(ask), input: `{"n":1}`})
	w.asking(1)
	w.stop()
	holds := w.leaving().GetHolds()
	require.Len(t, holds, 1)
	require.Equal(t, keyOf(ref), keyOf(holds[0].GetStep()))
	require.Empty(t, see(w.orchestrator, func(o *orchestrator) []*systemv1.CompleteStepsRequest { return o.completed }))
	require.Zero(t, w.gateway.cancels)
	w.clean(interactive)
	require.False(t, see(w.orchestrator, func(o *orchestrator) bool { return o.beatAfterLeave }), "a heartbeat would revive the lease")
}

func TestShutdownHandsBackWhatIsGrantedMeanwhile(t *testing.T) {
	t.Parallel()
	w := start(t, with(func(c *steprunner.Config) { c.Grace = patience }))
	claimed := make(chan struct{})
	w.orchestrator.set(func(o *orchestrator) {
		o.onClaim = func(*systemv1.ClaimStepsRequest) error {
			close(claimed)
			return w.draining(context.WithoutCancel(t.Context()))
		}
	})
	ref := w.submit(given{digest: w.pipeline(ask), input: `{"n":1}`})
	<-claimed
	w.stop()
	list := see(w.orchestrator, releases)
	require.Len(t, list, 2)
	require.False(t, list[0].GetLeaving())
	require.Len(t, list[0].GetHolds(), 1)
	require.Equal(t, keyOf(ref), keyOf(list[0].GetHolds()[0].GetStep()))
	require.Empty(t, list[1].GetHolds())
	require.Empty(t, w.gateway.asked(), "it was not begun")
	w.clean(interactive)
}

func TestShutdownWithoutAnOrchestratorEnds(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.orchestrator.set(func(o *orchestrator) {
		o.onComplete = func(*systemv1.CompleteStepsRequest) error { return away() }
		o.onRelease = away
	})
	w.submit(given{digest: w.pipeline(double), input: `{"n":1}`})
	w.eventually(func() error {
		if n := see(w.orchestrator, func(o *orchestrator) int { return len(o.completed) }); n == 0 {
			return fmt.Errorf("%d reports", n)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	w.service.Drain(ctx)
	require.EqualValues(t, 1, w.pending(interactive), "the entry is left to the janitor")
	require.Error(t, ctx.Err(), "it tries as long as it may")
	w.orchestrator.set(func(o *orchestrator) { o.onRelease = nil })
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	_, err := steprunner.Build(t.Context(), &boot.Process{}, steprunner.Config{InteractiveSlots: -1, BatchSlots: 20_000, Grace: -1})
	require.ErrorContains(t, err, "interactive-slots and batch-slots must be 0 or more")
	require.ErrorContains(t, err, "together must be at most 10000")
	require.ErrorContains(t, err, "pipeline-cache")
	require.ErrorContains(t, err, "rpc-timeout")
	require.ErrorContains(t, err, "grace")
}
