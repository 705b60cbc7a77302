package orchestrator

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/stream"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

const (
	// janitorEvery is the time between two looks at the consumers of the streams.
	janitorEvery = 3 * time.Second
	// janitorMost bounds the entries that are settled at a time.
	janitorMost = 500
)

// noReplica stands for no replica in calls that may name one.
var noReplica uuid.UUID //nolint:gochecknoglobals // the zero UUID

// janitor settles the entries of step-runners that are gone: it has their steps' ids added again where they are still
// QUEUED, and then takes the entries away. Entries that live runners hold stay with them, however long a step takes.
type janitor struct {
	sweeper *sweeper
	store   *store.Store
	streams map[machine.Class]*stream.Stream
	clock   clock.Clock
	log     *slog.Logger
}

// run cleans until ctx ends.
func (j *janitor) run(ctx context.Context) error {
	return clock.Every(ctx, j.clock, janitorEvery, func(ctx context.Context) {
		// A replica that may not judge runners does not judge what they hold either.
		if !j.sweeper.judge.mayExpire() {
			return
		}
		if err := j.clean(ctx); err != nil && ctx.Err() == nil {
			j.log.WarnContext(ctx, "entries of runners that are gone could not be settled, and are looked at again", "error", err)
		}
	})
}

func (j *janitor) clean(ctx context.Context) error {
	var errs []error
	for _, s := range j.streams {
		// Consumers first: a runner that comes into being between the two looks is then known to be alive.
		consumers, err := s.Consumers(ctx)
		if err != nil {
			return nil //nolint:nilerr // with Redis away there is nothing to clean
		}
		runners, err := j.store.Runners(ctx)
		if err != nil {
			return err
		}
		for _, c := range consumers {
			if !alive(runners, c.Name) {
				errs = append(errs, j.settle(ctx, s, c))
			}
		}
	}
	return errors.Join(errs...)
}

func alive(runners []store.Runner, consumer string) bool {
	for _, r := range runners {
		if r.Alive && r.Instance.String() == consumer {
			return true
		}
	}
	return false
}

// settle deals with all entries of a consumer that is gone, and removes it.
func (j *janitor) settle(ctx context.Context, s *stream.Stream, c stream.Consumer) error {
	for {
		entries, err := s.Pending(ctx, c.Name, janitorMost)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return s.DeleteConsumer(ctx, c.Name)
		}
		ids := make([]string, len(entries))
		var refs []store.Ref
		for i, entry := range entries {
			ids[i] = entry.ID
			if ref, ok := entryRef(entry.Fields); ok {
				refs = append(refs, ref)
			}
		}
		if _, err := j.sweeper.submit(ctx, "janitor", overdues(refs, time.Time{})); err != nil {
			return err
		}
		if err := s.Ack(ctx, ids...); err != nil {
			return err
		}
	}
}

// entryRef reads what an entry names; false if it is none of ours.
func entryRef(fields stream.Fields) (store.Ref, bool) {
	run, err := uuid.Parse(fields["run"])
	if err != nil {
		return store.Ref{}, false
	}
	shard, err := strconv.Atoi(fields["shard"])
	if err != nil {
		return store.Ref{}, false
	}
	generation, err := strconv.Atoi(fields["generation"])
	if err != nil {
		return store.Ref{}, false
	}
	return store.Ref{RunID: run, Step: fields["step"], Shard: shard, Generation: generation}, true
}
