package orchestrator

import (
	"context"
	"log/slog"
	"time"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

const (
	// sweepEvery is the time between two looks at timers, leases and the streams.
	sweepEvery = time.Second
	// sweepMost bounds what one look takes up; more is taken up at once when all of it was there.
	sweepMost = 1000
	// unboundedEvery is how often a sweep looks also behind its bound.
	unboundedEvery = 5 * time.Minute
	// queuedPatience is how much longer than the oldest entry of its stream a step may be QUEUED before its own entry is
	// taken for lost.
	queuedPatience = 5 * time.Second
	// tidyEvery is how often rows of what is long gone are removed.
	tidyEvery = 10 * time.Minute
)

// sweeper finds what nobody tells: timers that have run out, runners that are gone, entries that Redis has lost. It locks
// nothing; what it finds becomes events like any others, so any number of replicas may sweep.
type sweeper struct {
	store     *store.Store
	judge     *judge
	publisher *publisher
	clock     clock.Clock
	log       *slog.Logger
	metrics   *metrics

	steps, runs bound
	tidied      time.Time
}

// bound is the time before which a sweep need not look again: all that was due then has had its event.
type bound struct {
	from    time.Time
	cleared time.Time // when it last looked without a bound, by this process's clock
}

// start returns from when on to look.
func (b *bound) start(now time.Time) time.Time {
	if now.Sub(b.cleared) >= unboundedEvery {
		b.from, b.cleared = time.Time{}, now
	}
	return b.from
}

// run sweeps until ctx ends.
func (s *sweeper) run(ctx context.Context) error {
	return clock.Every(ctx, s.clock, sweepEvery, s.sweep)
}

func (s *sweeper) sweep(ctx context.Context) {
	s.judge.beat(ctx)
	s.note(ctx, "timers", s.repeat(ctx, s.timers))
	s.note(ctx, "deadlines", s.repeat(ctx, s.deadlines))
	if s.judge.mayExpire() {
		s.note(ctx, "leases", s.repeat(ctx, s.leases))
	}
	for _, class := range machine.AllClasses() {
		s.note(ctx, "entries", s.entries(ctx, class))
	}
	if now := s.clock.Now(); now.Sub(s.tidied) >= tidyEvery {
		s.tidied = now
		s.note(ctx, "tidying", s.store.Tidy(ctx, noReplica))
	}
}

// note logs what went wrong; the next sweep tries again.
func (s *sweeper) note(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "sweep failed, and is repeated", "sweep", what, "error", err)
	}
}

// repeat sweeps as long as a look says that there is more.
func (s *sweeper) repeat(ctx context.Context, look func(context.Context) (more bool, err error)) error {
	for {
		if more, err := look(ctx); err != nil || !more {
			return err
		}
	}
}

// timers ends backoffs and waits that are over, and claims that have lasted too long.
func (s *sweeper) timers(ctx context.Context) (more bool, err error) {
	due, err := s.store.DueSteps(ctx, s.steps.start(s.clock.Now()), sweepMost)
	if err != nil || len(due) == 0 {
		return false, err
	}
	events := make([]*store.Event, len(due))
	for i, d := range due {
		events[i] = &store.Event{Ref: d.Ref, Make: func(r machine.Ref, _ time.Time) machine.Event { return timerEvent(d, r) }}
	}
	if more, err = s.submit(ctx, "timer", events); err == nil {
		s.steps.from = due[len(due)-1].DueAt
	}
	return more, err
}

// timerEvent is what the end of a step's timer means in its state.
func timerEvent(d store.DueStep, r machine.Ref) machine.Event {
	switch d.Status {
	case machine.StepBackoff:
		return machine.RetryDue{Ref: r}
	case machine.StepRunning:
		return machine.HardTimeout{Ref: r, Fence: d.Fence}
	default:
		return machine.Woken{Ref: r}
	}
}

// deadlines ends runs that have used up their time.
func (s *sweeper) deadlines(ctx context.Context) (more bool, err error) {
	overdue, err := s.store.OverdueRuns(ctx, s.runs.start(s.clock.Now()), sweepMost)
	if err != nil || len(overdue) == 0 {
		return false, err
	}
	events := make([]*store.Event, len(overdue))
	for i, run := range overdue {
		events[i] = &store.Event{
			Ref:  store.OfRun(run.ID),
			Make: func(machine.Ref, time.Time) machine.Event { return machine.DeadlinePassed{} },
		}
	}
	if more, err = s.submit(ctx, "deadline", events); err == nil {
		s.runs.from = overdue[len(overdue)-1].DeadlineAt
	}
	return more, err
}

// leases takes steps from runners that are gone.
func (s *sweeper) leases(ctx context.Context) (more bool, err error) {
	lost, err := s.store.LostSteps(ctx, sweepMost)
	if err != nil {
		return false, err
	}
	return s.submit(ctx, "lease", expirations(lost))
}

func expirations(lost []store.LostStep) []*store.Event {
	events := make([]*store.Event, len(lost))
	for i, l := range lost {
		events[i] = &store.Event{Ref: l.Ref, Make: func(r machine.Ref, _ time.Time) machine.Event {
			return machine.LeaseExpired{Ref: r, Fence: l.Fence}
		}}
	}
	return events
}

// entries adds the ids of steps again that their stream has lost. Waiting in line is not loss: a step is late only when it
// has been QUEUED for longer than the oldest entry that nobody has taken, and some more.
func (s *sweeper) entries(ctx context.Context, class machine.Class) error {
	age, err := s.publisher.steps[class].AgeOfOldestUndelivered(ctx)
	if err != nil {
		return nil //nolint:nilerr // with Redis away nothing can be added either; the publisher says that it is
	}
	late, now, err := s.store.LateEntries(ctx, class, age+queuedPatience, sweepMost)
	if err != nil || len(late) == 0 {
		return err
	}
	_, err = s.submit(ctx, "entry", overdues(late, now))
	return err
}

// overdues says of steps that were QUEUED before a time that their entries are lost.
func overdues(refs []store.Ref, before time.Time) []*store.Event {
	events := make([]*store.Event, len(refs))
	for i, ref := range refs {
		events[i] = &store.Event{Ref: ref, Make: func(r machine.Ref, now time.Time) machine.Event {
			if before.IsZero() {
				return machine.Overdue{Ref: r, QueuedBefore: now}
			}
			return machine.Overdue{Ref: r, QueuedBefore: before}
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
	errs := s.store.Submit(ctx, events...)
	applied := 0
	for i, e := range events {
		if errs[i] == nil && e.Answer == machine.Applied {
			applied++
		}
	}
	s.metrics.swept(sweep, applied)
	return applied > 0 && len(events) == sweepMost, away(errs)
}
