package orchestrator

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

const (
	// sweepEvery is the time between two looks at timers, deadlines and leases; each look reads store.TimerHorizon ahead.
	sweepEvery = time.Second
	// sweepMost bounds what one look takes up of each kind; more is taken up at once when all of it was there.
	sweepMost = 1000
	// actEvery is the least time between two acts on timers: those that run out meanwhile share a group.
	actEvery = 10 * time.Millisecond
	// clocksDiffer is by how much PostgreSQL's clock may lag behind this process's within the horizon: no timer is early.
	clocksDiffer = 2 * time.Millisecond
)

// The names of the sweeps, in metrics.
const (
	timerSweep    = "timer"
	deadlineSweep = "deadline"
	leaseSweep    = "lease"
	entrySweep    = "entry"
	consumerSweep = "consumer"
)

// sweeper acts on what nobody tells: timers that run out, deadlines that pass, runners that are gone. It locks nothing; what
// it finds becomes events like any others, so any number of replicas may sweep. It does not depend on Redis.
//
// A look a second finds what is overdue, and what will be due before the next look, which one of the replicas acts on at its
// time. Timers that a group sets for a time that is nearer still are told by the group (notice). An event that comes for a
// row whose timer was set anew meanwhile is refused by the machine. What is not acted on at its time, for whatever reason,
// is overdue at the next look of any replica.
type sweeper struct {
	store   *store.Store
	judge   *judge
	clock   clock.Clock
	log     *slog.Logger
	metrics *metrics
	agenda  *agenda

	timers, hardTimeouts, deadlines bound
	// seen is PostgreSQL's time at the newest look, and seenAt when that was by this process's clock.
	seen, seenAt time.Time
}

func newSweeper(s *store.Store, j *judge, c clock.Clock, log *slog.Logger, m *metrics) *sweeper {
	return &sweeper{store: s, judge: j, clock: c, log: log, metrics: m, agenda: newAgenda()}
}

// notice takes over the timers that a group has set.
func (s *sweeper) notice(n store.Notices) { s.agenda.notice(n.Timers) }

// run sweeps until ctx ends.
func (s *sweeper) run(ctx context.Context) error {
	var next time.Time
	for {
		if !s.clock.Now().Before(next) {
			next = s.sweep(ctx)
		}
		s.act(ctx)
		if err := s.wait(ctx, next); err != nil {
			return err
		}
	}
}

// wait returns when it is time for the next look, or for a timer on the agenda.
func (s *sweeper) wait(ctx context.Context, look time.Time) error {
	if err := s.clock.Sleep(ctx, actEvery); err != nil {
		return err
	}
	for {
		until := look
		if first, any := s.agenda.next(); any && first.Before(until) {
			until = first
		}
		left := until.Sub(s.clock.Now())
		if left <= 0 {
			return nil
		}
		timer := s.clock.NewTimer(left)
		select {
		case <-timer.C():
			return nil
		case <-s.agenda.earlier:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// sweep looks until nothing is overdue any more, and returns when to look again.
func (s *sweeper) sweep(ctx context.Context) (next time.Time) {
	for more := true; more; {
		var until time.Time
		var err error
		if until, more, err = s.look(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "sweep failed, and is repeated", "error", err)
		}
		if next = s.clock.Now().Add(sweepEvery); !until.IsZero() && until.Before(next) {
			next = until
		}
	}
	return next
}

// look asks once for everything that is due, has it carried out, and remembers what will be due. It returns until when it
// knows all that will be (zero: for the whole horizon), and whether there may be more that is overdue.
func (s *sweeper) look(ctx context.Context) (until time.Time, more bool, err error) {
	now := s.clock.Now()
	due, err := s.store.Due(ctx, store.Horizon{
		Timers: s.timers.start(now), HardTimeouts: s.hardTimeouts.start(now), Deadlines: s.deadlines.start(now),
		Ahead: store.TimerHorizon, Most: sweepMost, Self: s.judge.self,
	})
	if err != nil {
		return time.Time{}, false, err
	}
	s.seen, s.seenAt = due.Now, s.clock.Now()
	found := []*findings{
		{name: timerSweep, bound: &s.timers, timers: due.Timers},
		{name: deadlineSweep, bound: &s.deadlines, timers: due.Deadlines},
	}
	// A step whose end could not be told while PostgreSQL or the orchestrator was away has not taken too long. What is held
	// back is not passed, and found again.
	if s.judge.mayExpire(due.Now) {
		found = append(found, &findings{name: timerSweep, bound: &s.hardTimeouts, timers: due.HardTimeouts})
	}
	s.agenda.replace(s.upcoming(found, due))
	var errs []error
	for _, f := range found {
		again, err := s.settle(ctx, f, due.Now)
		more, errs = more || again, append(errs, err)
		if last, cut := f.cut(due.Now); cut && (until.IsZero() || s.fires(last).Before(until)) {
			until = s.fires(last)
		}
	}
	if s.judge.mayExpire(due.Now) {
		again, err := s.submit(ctx, leaseSweep, expirations(due.Lost))
		more, errs = more || again, append(errs, err)
	}
	return until, more, errors.Join(errs...)
}

// findings are the timers of one kind that a look has found, the oldest first.
type findings struct {
	name   string
	bound  *bound
	timers []store.Timer
}

// overdue returns how many timers had run out by then.
func (f *findings) overdue(now time.Time) int {
	n := slices.IndexFunc(f.timers, func(t store.Timer) bool { return t.At.After(now) })
	if n < 0 {
		return len(f.timers)
	}
	return n
}

// cut reports whether there may be more timers after those found that were still to come, and the time of the last found.
func (f *findings) cut(now time.Time) (last time.Time, cut bool) {
	if len(f.timers) < sweepMost {
		return time.Time{}, false
	}
	last = f.timers[len(f.timers)-1].At
	return last, last.After(now)
}

// settle has what is overdue carried out, and then passes it.
func (s *sweeper) settle(ctx context.Context, f *findings, now time.Time) (more bool, err error) {
	overdue := f.timers[:f.overdue(now)]
	if more, err = s.submit(ctx, f.name, events(overdue)); err != nil {
		return false, err
	}
	if len(overdue) == sweepMost {
		now = overdue[sweepMost-1].At
	}
	f.bound.pass(now)
	return more, nil
}

// upcoming returns the timers that this replica is to act on at their times: each replica has its share of the runs, so that
// not all of them come at the same moment with the same events.
func (s *sweeper) upcoming(found []*findings, due store.Due) []store.SoonTimer {
	var soon []store.SoonTimer
	for _, f := range found {
		for _, t := range f.timers[f.overdue(due.Now):] {
			if share(t.RunID, due.Replicas) == due.Rank {
				soon = append(soon, store.SoonTimer{Timer: t, Fires: s.fires(t.At)})
			}
		}
	}
	return soon
}

// share returns which of so many replicas acts on the timers of a run. The end of an id is random.
func share(run uuid.UUID, replicas int) int {
	return int(binary.BigEndian.Uint32(run[12:]) % uint32(replicas)) //nolint:gosec // replicas are few, and at least one
}

// fires returns when a time of PostgreSQL's has surely come, by this process's clock.
func (s *sweeper) fires(at time.Time) time.Time { return s.seenAt.Add(at.Sub(s.seen)) }

// act has those timers carried out whose time has come. What fails is overdue at the next look.
func (s *sweeper) act(ctx context.Context) {
	now := s.clock.Now()
	due := s.agenda.take(now.Add(-clocksDiffer))
	if len(due) == 0 {
		return
	}
	if !s.judge.mayExpire(s.seen.Add(now.Sub(s.seenAt))) {
		due = slices.DeleteFunc(due, func(t store.Timer) bool { return t.Status == machine.StepRunning })
	}
	deadlines, timers := split(due, func(t store.Timer) bool { return t.Step == "" })
	_, timerErr := s.submit(ctx, timerSweep, events(timers))
	_, deadlineErr := s.submit(ctx, deadlineSweep, events(deadlines))
	if err := errors.Join(timerErr, deadlineErr); err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "timers could not be acted on at their time, and are looked for", "error", err)
	}
}

// split returns the elements that fulfil a condition, and the others.
func split[T any](all []T, condition func(T) bool) (with, without []T) {
	for _, each := range all {
		if condition(each) {
			with = append(with, each)
		} else {
			without = append(without, each)
		}
	}
	return with, without
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
