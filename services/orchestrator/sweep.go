package orchestrator

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

const (
	// sweepEvery is the time between two looks at timers, deadlines and leases.
	sweepEvery = time.Second
	// sweepMost bounds what one look takes up of each kind; more is taken up at once when all of it was there.
	sweepMost = 1000
)

// The names of the sweeps, in metrics.
const (
	timerSweep    = "timer"
	deadlineSweep = "deadline"
	leaseSweep    = "lease"
	entrySweep    = "entry"
	consumerSweep = "consumer"
)

// sweeper finds what nobody tells: timers that have run out, deadlines that have passed, runners that are gone. It locks
// nothing; what it finds becomes events like any others, so any number of replicas may sweep. It does not depend on Redis.
type sweeper struct {
	store   *store.Store
	judge   *judge
	clock   clock.Clock
	log     *slog.Logger
	metrics *metrics

	steps, runs bound
}

// run sweeps until ctx ends.
func (s *sweeper) run(ctx context.Context) error {
	return clock.Every(ctx, s.clock, sweepEvery, s.sweep)
}

func (s *sweeper) sweep(ctx context.Context) {
	for more := true; more; {
		var err error
		if more, err = s.look(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "sweep failed, and is repeated", "error", err)
		}
	}
}

// look asks once for everything that is due, and has it carried out. It reports whether there may be more.
func (s *sweeper) look(ctx context.Context) (more bool, err error) {
	now := s.clock.Now()
	due, err := s.store.Due(ctx, s.steps.start(now), s.runs.start(now), sweepMost)
	if err != nil {
		return false, err
	}
	moreTimers, timerErr := s.submit(ctx, timerSweep, timerEvents(due.Steps))
	if timerErr == nil {
		s.steps.pass(reached(due.Now, due.Steps, func(d store.DueStep) time.Time { return d.At }))
	}
	moreRuns, runErr := s.submit(ctx, deadlineSweep, deadlineEvents(due.Runs))
	if runErr == nil {
		s.runs.pass(reached(due.Now, due.Runs, func(r store.OverdueRun) time.Time { return r.At }))
	}
	var moreLost bool
	var lostErr error
	if s.judge.mayExpire(due.Now) {
		moreLost, lostErr = s.submit(ctx, leaseSweep, expirations(due.Lost))
	}
	return moreTimers || moreRuns || moreLost, errors.Join(timerErr, runErr, lostErr)
}

// reached is the time until which a look has found all that was due.
func reached[T any](now time.Time, found []T, at func(T) time.Time) time.Time {
	if len(found) < sweepMost {
		return now
	}
	return at(found[len(found)-1])
}

// timerEvents are what the ends of steps' timers mean in their states.
func timerEvents(due []store.DueStep) []*store.Event {
	events := make([]*store.Event, len(due))
	for i, d := range due {
		events[i] = &store.Event{Ref: d.Ref, Make: func(r machine.Ref, _ time.Time) machine.Event {
			switch d.Status {
			case machine.StepBackoff:
				return machine.RetryDue{Ref: r}
			case machine.StepRunning:
				return machine.HardTimeout{Ref: r, Fence: d.Fence}
			default:
				return machine.Woken{Ref: r}
			}
		}}
	}
	return events
}

func deadlineEvents(overdue []store.OverdueRun) []*store.Event {
	events := make([]*store.Event, len(overdue))
	for i, run := range overdue {
		events[i] = &store.Event{
			Ref:  store.OfRun(run.ID),
			Make: func(machine.Ref, time.Time) machine.Event { return machine.DeadlinePassed{} },
		}
	}
	return events
}

// expirations take steps from runners that are gone, or do not know of them.
func expirations(lost []store.LostStep) []*store.Event {
	events := make([]*store.Event, len(lost))
	for i, l := range lost {
		events[i] = &store.Event{Ref: l.Ref, Make: func(r machine.Ref, _ time.Time) machine.Event {
			return machine.LeaseExpired{Ref: r, Fence: l.Fence}
		}}
	}
	return events
}

// overdues have the ids of steps added again to their streams, unless they were QUEUED anew since.
func overdues(refs []store.Ref, since time.Time) []*store.Event {
	events := make([]*store.Event, len(refs))
	for i, ref := range refs {
		events[i] = &store.Event{Ref: ref, Make: func(r machine.Ref, _ time.Time) machine.Event {
			return machine.Overdue{Ref: r, QueuedBefore: since}
		}}
	}
	return events
}

// submit carries out what a sweep has found, and says whether another look may find more. That others were quicker, so that
// an event has no effect, is no error.
func (s *sweeper) submit(ctx context.Context, sweep string, events []*store.Event) (more bool, err error) {
	if len(events) == 0 {
		return false, nil
	}
	failpoint.Hit("orchestrator.sweep.found", sweep)
	errs := s.store.Submit(ctx, events...)
	failpoint.Hit("orchestrator.sweep.committed", sweep)
	if err := away(errs); err != nil {
		return false, err
	}
	applied := 0
	for i, e := range events {
		switch {
		case errs[i] == nil && e.Answer == machine.Applied:
			applied++
		case errs[i] != nil && !refused(errs[i]):
			s.log.ErrorContext(ctx, "event of a sweep failed", "sweep", sweep, "run_id", e.RunID, "step", e.Step, "error", errs[i])
		}
	}
	s.metrics.swept(sweep, applied)
	return applied > 0 && len(events) == sweepMost, nil
}

// refused reports whether an event had no effect because of the state that it met.
func refused(err error) bool {
	_, stale := errors.AsType[*machine.StaleError](err)
	_, illegal := errors.AsType[*machine.IllegalError](err)
	return stale || illegal || errors.Is(err, store.ErrNoRun)
}
