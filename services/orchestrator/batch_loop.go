package orchestrator

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"

	"google.golang.org/grpc/codes"
)

const (
	// foldEvery is how often counts are folded, and operations of batches looked for.
	foldEvery = time.Second
	// endEvery is how often it is looked whether batches have ended of which nothing was heard.
	endEvery = 10 * time.Second
	// batchLease is how long a part of an operation belongs to the replica that took it, and batchPart how many runs it has: few
	// enough for the groups of others to pass between two of them.
	batchLease = 30 * time.Second
	batchPart  = 200
)

// batchLoop keeps the counts of batches and tenants, ends batches, and carries out on their runs what people decide about them.
// Any number of replicas may do so: each takes what others have not.
type batchLoop struct {
	store *store.Store
	clock clock.Clock
	log   *slog.Logger
	wake  chan struct{}
	ended time.Time // when it was looked last whether batches have ended
}

func newBatchLoop(s *store.Store, c clock.Clock, log *slog.Logger) *batchLoop {
	return &batchLoop{store: s, clock: c, log: log, wake: make(chan struct{}, 1)}
}

// look makes the loop look at once.
func (l *batchLoop) look() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run works until ctx ends.
func (l *batchLoop) run(ctx context.Context) error {
	for {
		if err := l.round(ctx); err != nil && ctx.Err() == nil {
			l.log.WarnContext(ctx, "work on batches failed, and is repeated", "error", err)
		}
		timer := l.clock.NewTimer(foldEvery)
		select {
		case <-timer.C():
		case <-l.wake:
			timer.Stop()
			l.ended = time.Time{}
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// round carries out what is to be done, then folds the counts, and ends the batches that are through.
func (l *batchLoop) round(ctx context.Context) error {
	work, deltas, err := l.store.LookAtBatches(ctx)
	if err != nil {
		return err
	}
	for work {
		if work, err = l.work(ctx); err != nil {
			return err
		}
		deltas = true
	}
	changed := false
	if deltas {
		if changed, err = l.store.Fold(ctx); err != nil {
			return err
		}
	}
	if now := l.clock.Now(); changed || now.Sub(l.ended) >= endEvery {
		l.ended = now
		return l.store.EndBatches(ctx)
	}
	return nil
}

// work carries out a part of an operation, and reports whether there was one.
func (l *batchLoop) work(ctx context.Context) (more bool, err error) {
	part, err := l.store.TakeBatchWork(ctx, batchLease, batchPart)
	if err != nil || part == nil {
		return false, err
	}
	for i, err := range l.store.Submit(ctx, part.Events...) {
		if err != nil && !isMoot(err) {
			if fault.CodeOf(err) == codes.Unavailable || ctx.Err() != nil {
				return false, err // the part is taken again when its lease is over
			}
			l.log.WarnContext(ctx, "run of a batch is left as it is", "batch_id", part.ID, "run_id", part.Events[i].RunID,
				"operation", part.Operation, "error", err)
		}
	}
	return true, l.store.PassBatchWork(ctx, part)
}

// isMoot reports whether the run's state leaves nothing to do: it ended meanwhile, or must not be touched.
func isMoot(err error) bool {
	_, illegal := errors.AsType[*machine.IllegalError](err)
	_, low := errors.AsType[*store.BudgetError](err)
	return illegal || low || errors.Is(err, store.ErrNoRun)
}
