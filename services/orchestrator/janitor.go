package orchestrator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/stream"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

const (
	// janitorEvery is the time between two looks at the streams.
	janitorEvery = 2 * time.Second
	// janitorMost bounds the entries of a consumer that are settled at a time.
	janitorMost = 500
	// queuedPatience is how much longer than the oldest entry of its stream a step may be QUEUED before its own entry is
	// taken for lost.
	queuedPatience = 5 * time.Second
)

// janitor keeps the streams in line with PostgreSQL: it has entries added again that Redis has lost, replaces streams that
// cannot serve, and takes those entries away that step-runners have left behind which are gone. Entries that living runners
// hold stay with them, however long a step takes.
type janitor struct {
	sweeper *sweeper
	streams map[machine.Class]*stream.Stream
	lease   time.Duration

	queued map[machine.Class]*bound
}

func newJanitor(s *sweeper, streams map[machine.Class]*stream.Stream, lease time.Duration) *janitor {
	j := &janitor{sweeper: s, streams: streams, lease: lease, queued: make(map[machine.Class]*bound, len(streams))}
	for class := range streams {
		j.queued[class] = &bound{}
	}
	return j
}

// run cleans until ctx ends.
func (j *janitor) run(ctx context.Context) error {
	return clock.Every(ctx, j.sweeper.clock, janitorEvery, func(ctx context.Context) {
		err := errors.Join(j.replace(ctx), j.restore(ctx), j.clean(ctx))
		if err != nil && ctx.Err() == nil {
			j.sweeper.log.WarnContext(ctx, "streams could not be put right, and are looked at again", "error", err)
		}
	})
}

// replace deletes streams that can never serve again: they are made anew by whoever needs them, and restore fills them.
func (j *janitor) replace(ctx context.Context) error {
	var errs []error
	for class, s := range j.streams {
		why, err := s.Unfit(ctx)
		if err == nil && why != "" {
			j.sweeper.log.WarnContext(ctx, "stream is deleted, and made anew", "class", class, "because", why)
			err = s.Delete(ctx)
		}
		errs = append(errs, unlessAway(err))
	}
	return errors.Join(errs...)
}

// restore has the ids of steps added again that their stream has lost. Waiting in line is not loss: a step is late only when
// it has been QUEUED for longer than the oldest entry that nobody has taken, and some more.
func (j *janitor) restore(ctx context.Context) error {
	lines, unasked := j.lines(ctx)
	if len(lines) == 0 {
		return unasked
	}
	late, at, err := j.sweeper.store.LateEntries(ctx, lines, sweepMost)
	if err != nil {
		return errors.Join(unasked, err)
	}
	errs := []error{unasked}
	for class, line := range lines {
		_, err := j.sweeper.submit(ctx, entrySweep, overdues(late[class], at))
		if err == nil && len(late[class]) < sweepMost {
			j.queued[class].pass(at.Add(-line.Patience))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// lines says, of the classes whose streams can be asked, how their steps wait.
func (j *janitor) lines(ctx context.Context) (map[machine.Class]store.Line, error) {
	now := j.sweeper.clock.Now()
	lines := make(map[machine.Class]store.Line, len(j.streams))
	var errs []error
	for class, s := range j.streams {
		age, err := s.AgeOfOldestUndelivered(ctx)
		if err != nil {
			errs = append(errs, unlessAway(err))
			continue
		}
		lines[class] = store.Line{From: j.queued[class].start(now), Patience: age + queuedPatience}
	}
	return lines, errors.Join(errs...)
}

// unlessAway drops the error that says that Redis is away: then there is nothing to be put right, and the publisher says it.
func unlessAway(err error) error {
	if fault.CodeOf(err) == codes.Unavailable {
		return nil
	}
	return err
}

// clean settles what consumers have left behind whose runners are gone.
func (j *janitor) clean(ctx context.Context) error {
	var errs []error
	for _, s := range j.streams {
		consumers, err := s.Consumers(ctx)
		if err != nil {
			errs = append(errs, unlessAway(err))
			continue
		}
		// A runner asks for entries all the time, unless its slots are full: most of the time nobody is suspicious.
		suspects := slices.DeleteFunc(consumers, func(c stream.Consumer) bool { return c.Idle < j.lease })
		if len(suspects) > 0 {
			errs = append(errs, j.settleDead(ctx, s, suspects))
		}
	}
	return errors.Join(errs...)
}

// settleDead settles the consumers among the suspects whose runners have no lease.
func (j *janitor) settleDead(ctx context.Context, s *stream.Stream, suspects []stream.Consumer) error {
	living, at, err := j.sweeper.store.LivingRunners(ctx)
	if err != nil || !j.sweeper.judge.mayExpire(at) {
		return err
	}
	var errs []error
	for _, c := range suspects {
		if !slices.ContainsFunc(living, func(id uuid.UUID) bool { return id.String() == c.Name }) {
			errs = append(errs, j.settle(ctx, s, c, at))
		}
	}
	return errors.Join(errs...)
}

// settle deals with all entries of a consumer that is gone, and removes it. Steps that are still QUEUED get new entries;
// those that are RUNNING will, when their lease is found to have run out.
func (j *janitor) settle(ctx context.Context, s *stream.Stream, c stream.Consumer, at time.Time) error {
	for {
		entries, err := s.Pending(ctx, c.Name, janitorMost)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			failpoint.Hit("orchestrator.janitor.emptied")
			return s.DeleteConsumer(ctx, c.Name)
		}
		ids := make([]string, len(entries))
		var refs []store.Ref
		for i, entry := range entries {
			ids[i] = entry.ID
			if step, err := stream.ParseStep(entry.Fields); err == nil {
				refs = append(refs, store.Ref{
					RunID: step.Run, Step: step.Step, Shard: int(step.Shard), Generation: int(step.Generation),
				})
			}
		}
		if _, err := j.sweeper.submit(ctx, consumerSweep, overdues(refs, at)); err != nil {
			return err
		}
		if err := s.Ack(ctx, ids...); err != nil {
			return err
		}
	}
}
