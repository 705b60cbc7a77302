package steprunner

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/steprunner/repeat"
)

// attempts carries granted claims to their ends: executes them, reports the outcomes, and hands back what this runner
// will not finish.
type attempts struct {
	orchestrator systemv1.OrchestratorServiceClient
	runner       uuid.UUID
	cfg          Config
	clock        clock.Clock
	log          *slog.Logger
	metrics      *metrics
	holds        *holds
	executor     *executor
	completer    *completer
	apart        apart

	work sync.WaitGroup // the lanes, their claims and the attempts, but not those that are given up
}

// stopGrace is how long an attempt may go on after the orchestrator has stopped it.
const stopGrace = 5 * time.Second

// newHold makes a granted claim a hold, which is to be taken into the table, so that heartbeats list it. The context that it
// returns ends with the hold.
func (a *attempts) newHold(ctx context.Context, l *lane, c *claim) (context.Context, *hold) {
	ctx, cancel := context.WithCancelCause(ctx)
	h := &hold{claim: c, lane: l, began: a.clock.Now(), cancel: cancel, ended: make(chan struct{}), leave: func() {}}
	a.metrics.running.WithLabelValues(className(c.class)).Inc()
	return ctx, h
}

// begin executes a granted claim in a goroutine of its own.
func (a *attempts) begin(ctx context.Context, l *lane, c *claim) {
	ctx, h := a.newHold(ctx, l, c)
	a.work.Add(1)
	h.leave = sync.OnceFunc(a.work.Done)
	a.holds.add(h)
	go func() {
		defer h.leave()
		defer close(h.ended)
		a.run(ctx, h)
	}()
}

// outlast watches an attempt that was stopped. One that goes on all the same, because it does not listen to its context, is
// given up: its hold is dropped, so that its slot serves other steps, and the metric says how many such attempts there are.
// What it may still find out is worth nothing: it holds no step any more.
func (a *attempts) outlast(h *hold) {
	timer := a.clock.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-h.ended:
		return
	case <-timer.C():
	}
	if !a.drop(h) {
		return
	}
	h.leave()
	abandoned := a.metrics.abandoned.WithLabelValues(className(h.class))
	abandoned.Inc()
	a.log.Warn("step goes on although it was stopped; it is given up and its slot used again",
		"run_id", runID(h.ref), "step", h.ref.GetStep(), "after", stopGrace)
	<-h.ended
	abandoned.Dec()
}

// run executes the step and reports its outcome. A hold that is neither settled nor stopped stays in the table, to be
// handed back.
func (a *attempts) run(ctx context.Context, h *hold) {
	defer h.cancel(nil)
	settled := false
	if outcome := a.executor.execute(ctx, h, a.apart.enter(h)); outcome != nil {
		settled = a.completer.report(ctx, h.class, outcome) == nil
	}
	if _, stopped := errors.AsType[*stopError](context.Cause(ctx)); settled || stopped {
		a.drop(h)
	}
}

// drop ends a hold whose step is no longer this runner's business, and reports whether it was there.
func (a *attempts) drop(h *hold) bool {
	h.cancel(nil)
	a.apart.leave(h)
	if !a.holds.remove(h) {
		return false
	}
	a.metrics.running.WithLabelValues(className(h.class)).Dec()
	h.lane.end(h.entry)
	return true
}

// handBack returns claims that were granted while the runner already shuts down; their attempts are not counted.
func (a *attempts) handBack(ctx context.Context, l *lane, claims []*claim) {
	if len(claims) == 0 {
		return
	}
	list := make([]*hold, len(claims))
	for i, c := range claims {
		_, list[i] = a.newHold(ctx, l, c)
		close(list[i].ended)
		a.holds.add(list[i])
	}
	if a.release(ctx, list, false) == nil {
		for _, h := range list {
			a.drop(h)
		}
	}
}

// leave returns all holds and ends the lease with them, so that their steps need not wait for its end.
func (a *attempts) leave(ctx context.Context) error {
	list := a.holds.all()
	if err := a.release(ctx, list, true); err != nil {
		return err
	}
	for _, h := range list {
		a.drop(h)
	}
	return nil
}

// release hands holds back; it repeats while the orchestrator is away.
func (a *attempts) release(ctx context.Context, list []*hold, leaving bool) error {
	pace := repeat.NewPace(a.clock)
	for {
		err := a.releaseOnce(ctx, list, leaving)
		if err == nil || !repeat.Passing(err) {
			return err
		}
		if ended := pace.Wait(ctx); ended != nil {
			return errors.Join(ended, err)
		}
	}
}

func (a *attempts) releaseOnce(ctx context.Context, list []*hold, leaving bool) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.RPCTimeout)
	defer cancel()
	failpoint.Hit("runner.release.begin")
	answer, err := a.orchestrator.ReleaseSteps(ctx, &systemv1.ReleaseStepsRequest{
		RunnerId: a.runner[:], Holds: describe(list), Leaving: leaving,
	})
	failpoint.Hit("runner.release.end")
	if err == nil && len(list) > 0 {
		a.log.InfoContext(ctx, "steps handed back", "steps", len(list), "released", answer.GetReleased())
	}
	return err
}
